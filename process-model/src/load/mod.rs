//! From documents to a checked [`Program`], or to everything that is wrong with them.
//!
//! Types may be used before they are defined and across documents, so all signatures are collected first. Then each
//! type is built in two steps: first its nodes with their variables, then their code, which can name any of them.
//!
//! | module | content |
//! |---|---|
//! | `grammar` | which elements and attributes may stand where |
//! | `signatures` | signatures of all types |
//! | `imports` | types of documents that were submitted earlier |
//! | `process` | builds process types: nodes, scopes, scripts, bindings |
//! | `activity` | builds activity types: code, launch, files |
//! | `estimate` | `ESTIMATE` of types and activities |
//! | `parameters`, `attributes` | parts that types and elements share |
//! | `policies` | warns of settings of retries that never apply |
//! | `literals`, `identifiers`, `template`, `type_check` | texts in attributes |
//! | `document`, `report`, `problem`, `code_limits` | places, findings, bounds |

mod activity;
mod attributes;
mod code_limits;
mod document;
mod estimate;
mod grammar;
mod identifiers;
mod imports;
mod literals;
mod parameters;
mod policies;
mod problem;
mod process;
mod report;
mod signatures;
mod template;
mod type_check;

use crate::definition::{ProcessType, Program};
use crate::diagnostic::{Diagnostic, Source};
use crate::xml;
use document::ParsedDocument;
use grammar::Tag;
pub use imports::{ImportedType, MIN_HASH_DIGITS, document_hash, missing_imports};
pub use literals::duration;
pub use process::compile_exit_condition;
use report::LoadReport;
use signatures::Types;

/// Reads and checks documents that belong together. The error is everything that is wrong with them, in order, with at least
/// one finding that is an error. Otherwise the program has the warnings.
pub fn load(sources: &[Source]) -> Result<Program, Vec<Diagnostic>> {
    let mut report = LoadReport::default();
    let mut types = Types::default();
    let mut documents = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        match xml::parse(index, &source.text) {
            Ok(tree) => documents.push(ParsedDocument::new(index, &source.text, tree)),
            Err(found) => {
                types.incomplete = true;
                found.into_iter().for_each(|diagnostic| report.push(diagnostic));
            }
        }
    }
    for (position, document) in documents.iter().enumerate() {
        match grammar::check(document, &mut report) {
            true => types.collect(document, position, &mut report),
            false => types.incomplete = true,
        }
    }
    let imported = imports::check(&documents, sources, &mut types, &mut report);
    let names = sources.iter().map(|source| source.name.clone()).collect();
    let mut program = Program { sources: names, imported, ..Program::default() };
    for info in &types.activities {
        let document = &documents[info.document];
        program.activities.extend(activity::build(document, info, &mut report));
    }
    for info in &types.processes {
        let document = &documents[info.document];
        if let Some(body) = grammar::child(document, info.node, Tag::Body) {
            let nodes = process::build(document, &types, info, body, &mut report);
            let parameters = info.parameters.variables.len();
            let (name, source, line) = (info.name.clone(), document.index, info.line);
            program.processes.push(ProcessType { name, source, line, parameters, nodes });
        }
        if report.is_full() {
            break;
        }
    }
    policies::check_types(&documents, &types, &program, &mut report);
    program.warnings = report.finish()?;
    Ok(program)
}
