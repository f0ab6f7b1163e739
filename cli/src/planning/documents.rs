//! Workflows in files: reading them, and telling their formats apart.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use xavantes_model::diagnostic::Source;
use xavantes_model::xml;
use xavantes_scheduling::formats::{MAX_DOCUMENT_BYTES, gpu, teylo};

use super::args::WorkflowFormat;

/// Reads a text file, which may be long.
pub(super) fn read_text(file: &Path) -> Result<Source, String> {
    let mut bytes = Vec::new();
    let stdin = file == Path::new("-");
    let name = if stdin { "<stdin>".into() } else { file.display().to_string() };
    // One byte more than the limit shows that a file is too large, without reading all of it.
    let limit = MAX_DOCUMENT_BYTES as u64 + 1;
    let read = match stdin {
        true => std::io::stdin().lock().take(limit).read_to_end(&mut bytes),
        false => std::fs::File::open(file).and_then(|open| open.take(limit).read_to_end(&mut bytes)),
    };
    read.map_err(|error| format!("cannot read {name}: {error}"))?;
    if bytes.len() > MAX_DOCUMENT_BYTES {
        return Err(format!("{name} is larger than {} MiB", MAX_DOCUMENT_BYTES >> 20));
    }
    let text = xml::decode(&bytes).map_err(|(offset, message)| format!("{name}: byte {offset}: {message}"))?;
    Ok(Source { name: name.into(), text: Arc::from(text) })
}

/// The format of a document, if only one is possible.
pub(super) fn guess(document: &Source) -> Option<WorkflowFormat> {
    let text = document.text.trim_start_matches('\u{feff}').trim_start();
    if text.starts_with('<') {
        let root = |name: &str| text.find(name).unwrap_or(usize::MAX);
        let (definition, dax) = (root("<XAVANTES"), root("<adag"));
        return match definition.cmp(&dax) {
            std::cmp::Ordering::Less => Some(WorkflowFormat::Xml),
            std::cmp::Ordering::Greater => Some(WorkflowFormat::Dax),
            std::cmp::Ordering::Equal => None,
        };
    }
    if text.starts_with('{') {
        return Some(WorkflowFormat::Wfformat);
    }
    if document.name.ends_with(".wds") {
        return Some(WorkflowFormat::Wds);
    }
    // Both begin with three numbers. A document of one format is none of the other, except by accident.
    match (teylo::read(&document.text).is_ok(), gpu::read(&document.text).is_ok()) {
        (true, false) => Some(WorkflowFormat::Teylo),
        (false, true) => Some(WorkflowFormat::Gpu),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_apart_by_their_content() {
        let guess = |name: &str, text: &str| guess(&Source::new(name, text));
        assert_eq!(guess("a.xml", "<?xml version=\"1.0\"?>\n<XAVANTES VERSION=\"1\"/>"), Some(WorkflowFormat::Xml));
        assert_eq!(guess("a.xml", "<!-- generated -->\n<adag/>"), Some(WorkflowFormat::Dax));
        assert_eq!(guess("a.json", " {\"workflow\": {}}"), Some(WorkflowFormat::Wfformat));
        assert_eq!(guess("a.dag", "0 0 1\na n 1 0 0\na 0\n"), Some(WorkflowFormat::Teylo));
        let gpu = "1 2 1\nt0 60 0 1 d0 1 d1\nd0 30 1 1 0\nd1 50 0\n0.2\n0\n1000\n1\n0\n";
        assert_eq!(guess("a.dag", gpu), Some(WorkflowFormat::Gpu));
        assert_eq!(guess("a.wds", "1"), Some(WorkflowFormat::Wds));
        assert_eq!(guess("a.txt", "hello"), None);
        assert_eq!(guess("a.xml", "<other/>"), None);
    }
}
