//! The types of all documents with their signatures, collected before any type is built, because types may be used
//! before they are defined and across documents.

use std::collections::HashMap;
use std::sync::Arc;

use super::attributes::PolicyParts;
use super::document::ParsedDocument;
use super::grammar::{self, Tag};
use super::identifiers::check_type_name;
use super::parameters::Parameters;
use super::report::{LoadReport, MAX_CANDIDATES};
use crate::diagnostic::did_you_mean;
use crate::xml;

/// The signature of a type, before the type is built.
pub(super) struct TypeInfo {
    pub name: Arc<str>,
    /// Position among the documents that are well-formed.
    pub document: usize,
    pub node: xml::XmlElementId,
    pub line: u32,
    pub parameters: Parameters,
    pub policy: PolicyParts,
}

/// The types of all documents.
#[derive(Default)]
pub(super) struct Types {
    pub processes: Vec<TypeInfo>,
    pub activities: Vec<TypeInfo>,
    process_names: HashMap<Arc<str>, usize>,
    activity_names: HashMap<Arc<str>, usize>,
    /// True if some document could not be read, so that a type that is not here may exist there.
    pub incomplete: bool,
}

impl Types {
    /// Adds the types of a document.
    pub fn collect(&mut self, document: &ParsedDocument, position: usize, report: &mut LoadReport) {
        for (tag, node) in grammar::children(document, document.tree.root(), Tag::Xavantes) {
            if tag == Tag::Import {
                continue;
            }
            let element = document.tree.element(node);
            let name: Arc<str> = element.attribute("NAME").map_or("", |name| &name.value.value).into();
            let (infos, names) = match tag {
                Tag::ProcessType => (&mut self.processes, &mut self.process_names),
                _ => (&mut self.activities, &mut self.activity_names),
            };
            if let Some(attribute) = element.attribute("NAME") {
                let span = document.span(&attribute.value_span);
                if let Err((message, help)) = check_type_name(&name) {
                    report.add("bad-name", span, message, || Some(help.into()));
                } else if names.contains_key(&name) {
                    let message = format!("there are two {}s {name:?}", tag.name());
                    report.add("duplicate-name", span, message, || Some("rename one of them".into()));
                } else {
                    names.insert(name.clone(), infos.len());
                }
            }
            let mut parameters = Parameters::default();
            parameters.read(document, node, tag, report);
            if tag == Tag::ActivityType {
                parameters.reserve("attempt", "the number of the attempt, in every activity", document, report);
            }
            let policy = PolicyParts::read(document, node, report);
            let line = document.line(node);
            infos.push(TypeInfo { name, document: position, node, line, parameters, policy });
        }
    }

    /// Returns the type that an `ACTIVITY` or `PROCESS` names.
    pub fn find(
        &self,
        document: &ParsedDocument,
        node: xml::XmlElementId,
        tag: Tag,
        report: &mut LoadReport,
    ) -> Option<usize> {
        let attribute = document.tree.element(node).attribute("TYPE")?;
        let wanted = attribute.value.value.as_str();
        let activity = tag == Tag::Activity;
        let (names, others) = match activity {
            true => (&self.activity_names, &self.process_names),
            false => (&self.process_names, &self.activity_names),
        };
        let found = names.get(wanted).copied();
        if found.is_none() && !self.incomplete {
            let (kind, other) =
                if activity { ("activity type", Tag::Process) } else { ("process type", Tag::Activity) };
            let message = format!("there is no {kind} {wanted:?}");
            report.add("unknown-type", document.span(&attribute.value_span), message, || {
                if others.contains_key(wanted) {
                    return Some(format!(
                        "{wanted:?} is the name of another kind of type: start it with {}",
                        other.name()
                    ));
                }
                // The order of the documents makes sure that the same error always gets the same advice.
                let infos = if activity { &self.activities } else { &self.processes };
                did_you_mean(wanted, infos.iter().take(MAX_CANDIDATES).map(|info| &*info.name))
            });
        }
        found
    }
}
