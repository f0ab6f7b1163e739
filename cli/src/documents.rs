//! Documents of definitions: reading them from files, and loading them.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use xavantes_model::definition::Program;
use xavantes_model::diagnostic::Source;
use xavantes_model::load::{ImportedType, missing_imports};
use xavantes_model::{load, xml};
use xavantes_proto::programs::MAX_DOCUMENTS;
use xavantes_proto::v1;

use crate::exit::Exit;
use crate::grid_connection::{ask, coordinator};
use crate::output::printer::Output;
use crate::output::terminal;
use crate::report::validation::Validation;

/// Reads documents. An error message is printed for each one that cannot be read.
pub(crate) fn read_files<P: AsRef<Path>>(files: &[P]) -> Result<Vec<Source>, Exit> {
    let mut sources = Vec::with_capacity(files.len());
    let mut unreadable = Ok(());
    for file in files {
        match read(file.as_ref()) {
            Ok(source) => sources.push(source),
            Err(message) => unreadable = Err(terminal::error(&message)),
        }
    }
    unreadable.map(|()| sources)
}

/// Adds the documents of a grid that these documents import.
pub(crate) async fn fetch_imports(sources: &mut Vec<Source>, address: &str) -> Result<(), Exit> {
    let mut missing = missing_imports(sources);
    if missing.is_empty() {
        return Ok(());
    }
    let mut client = coordinator(address).await?;
    // Imported documents may import others.
    while let Some(ImportedType { name, hash }) = missing.pop() {
        let request = v1::FindDocumentRequest { r#type: name, hash };
        let document = ask(client.find_document(request)).await?;
        sources.push(Source::new(document.name, document.text));
        if sources.len() > MAX_DOCUMENTS {
            return Err(terminal::error(&format!("there are more than {MAX_DOCUMENTS} documents")));
        }
        missing = missing_imports(sources);
    }
    Ok(())
}

/// Loads documents. If they have errors, the report about them is printed. Otherwise warnings go to standard error.
pub(crate) fn load_sources(sources: &[Source], output: Output) -> Result<Program, Exit> {
    let program = load::load(sources).map_err(|diagnostics| {
        output.report(&Validation::new(sources, &diagnostics));
        Exit::Usage
    })?;
    output.warn(&Validation::new(sources, &program.warnings));
    Ok(program)
}

fn read(file: &Path) -> Result<Source, String> {
    // One byte more than the limit shows that a file is too large, without reading all of it.
    let limit = xml::MAX_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let stdin = file == Path::new("-");
    let name = if stdin { "<stdin>".into() } else { file.display().to_string() };
    let read = match stdin {
        true => std::io::stdin().lock().take(limit).read_to_end(&mut bytes),
        false => std::fs::File::open(file).and_then(|open| open.take(limit).read_to_end(&mut bytes)),
    };
    read.map_err(|error| format!("cannot read {name}: {error}"))?;
    if bytes.len() > xml::MAX_BYTES {
        return Err(format!("{name} is larger than {} MiB", xml::MAX_BYTES >> 20));
    }
    let text = xml::decode(&bytes).map_err(|(offset, message)| format!("{name}: byte {offset}: {message}"))?;
    Ok(Source { name: name.into(), text: Arc::from(text) })
}
