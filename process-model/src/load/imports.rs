//! `IMPORT`: types of a document that somebody submitted earlier, by name and by the hash of the document. The document is
//! one of those that are loaded together: the command fetches it.

use std::collections::BTreeSet;

use super::document::ParsedDocument;
use super::grammar::{self, Tag};
use super::report::{LoadReport, MAX_CANDIDATES};
use super::signatures::Types;
use crate::diagnostic::{Source, did_you_mean};
use crate::xml;

/// A hash may be shortened to this number of digits.
pub const MIN_HASH_DIGITS: usize = 16;
/// Digits of a whole hash.
const HASH_DIGITS: usize = 64;

/// A type that a document imports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedType {
    /// Name of the type.
    pub name: String,
    /// Hash of the document that defines it, or its first digits.
    pub hash: String,
}

/// Returns the hash of a document, by which others import its types.
pub fn document_hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// Returns the imported types whose documents are not among these, each once. Documents with errors import nothing.
pub fn missing_imports(sources: &[Source]) -> Vec<ImportedType> {
    let hashes: Vec<String> = sources.iter().map(|source| document_hash(&source.text)).collect();
    let mut missing = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let Ok(tree) = xml::parse(index, &source.text) else { continue };
        let document = ParsedDocument::new(index, &source.text, tree);
        for (_, import) in imports(&document) {
            let is_given = hashes.iter().any(|hash| hash.starts_with(&import.hash));
            if is_hash(&import.hash) && !is_given && !missing.contains(&import) {
                missing.push(import);
            }
        }
    }
    missing
}

fn imports(document: &ParsedDocument) -> Vec<(xml::XmlElementId, ImportedType)> {
    let children = grammar::children(document, document.tree.root(), Tag::Xavantes);
    let imports = children.filter(|(tag, _)| *tag == Tag::Import);
    let read = |node: xml::XmlElementId| {
        let text = |name| document.tree.element(node).attribute(name).map(|it| it.value.value.to_string());
        Some((node, ImportedType { name: text("TYPE")?, hash: text("HASH")? }))
    };
    imports.filter_map(|(_, node)| read(node)).collect()
}

fn is_hash(text: &str) -> bool {
    (MIN_HASH_DIGITS..=HASH_DIGITS).contains(&text.len())
        && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

/// Checks all imports. Returns the positions of the sources that others import.
pub(super) fn check(
    documents: &[ParsedDocument],
    sources: &[Source],
    types: &mut Types,
    report: &mut LoadReport,
) -> BTreeSet<usize> {
    let mut imported = BTreeSet::new();
    let mut hashes: Option<Vec<String>> = None;
    for document in documents {
        for (node, import) in imports(document) {
            let ImportedType { name, hash } = import;
            let element = document.tree.element(node);
            let span = |attribute| {
                let span = element.attribute(attribute).map_or(&element.name_span, |it| &it.value_span);
                document.span(span)
            };
            if !is_hash(&hash) {
                let message = format!("{hash:?} is not the hash of a document");
                report.add("bad-value", span("HASH"), message, || {
                    Some(format!("write at least {MIN_HASH_DIGITS} of the digits that `xavantes types` shows"))
                });
                types.incomplete = true;
                continue;
            }
            let hashes = hashes.get_or_insert_with(|| sources.iter().map(|it| document_hash(&it.text)).collect());
            let Some(source) = hashes.iter().position(|known| known.starts_with(&hash)) else {
                let message = format!("the document with the hash {hash} is not here, so {name:?} cannot be imported");
                report.add("unknown-import", span("HASH"), message, || {
                    Some("give its file, too, or the grid that has it: --coordinator ADDRESS".into())
                });
                types.incomplete = true;
                continue;
            };
            imported.extend((source != document.index).then_some(source));
            let infos = || types.activities.iter().chain(&types.processes);
            let in_source = || infos().filter(|info| documents[info.document].index == source).map(|info| &*info.name);
            if !in_source().any(|known| known == name) {
                let document_name = &sources[source].name;
                let message = format!("{document_name} has the hash {hash}, but no type {name:?}");
                report.add("unknown-type", span("TYPE"), message, || {
                    did_you_mean(&name, in_source().take(MAX_CANDIDATES))
                });
            }
        }
    }
    imported
}
