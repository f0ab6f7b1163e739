//! Process types: nodes, the names that their code can use, and their code.
//!
//! | module | content |
//! |---|---|
//! | `nodes` | nodes with variables and policies, before their code |
//! | `linker` | state while code is added to the nodes |
//! | `controllers` | code of each kind of controller |
//! | `bindings` | parameters that attributes set |
//! | `estimate` | estimates of activities |
//! | `compile` | one script: from its text to resolved code |
//! | `resolver` | the meaning of each name of a script |
//! | `scope` | the names in reach of a script |
//! | `after` | order of the elements of a `PAR` |
//! | `data_flow` | which elements of a `PAR` read results of which others |
//! | `results` | `OUT` parameters that no code assigns |
//! | `forwards` | results of elements in controllers, for code around the controllers |
//! | `exit_condition` | a new exit condition for a running process |

mod after;
mod bindings;
mod compile;
mod controllers;
mod data_flow;
mod estimate;
mod exit_condition;
mod forwards;
mod linker;
mod nodes;
mod resolver;
mod results;
mod scope;

use super::document::ParsedDocument;
use super::report::LoadReport;
use super::signatures::{TypeInfo, Types};
use crate::definition::DefinitionNode;
use crate::xml;
pub use exit_condition::compile_exit_condition;

/// Builds the nodes of the process type whose `BODY` is given.
pub(super) fn build(
    document: &ParsedDocument,
    types: &Types,
    info: &TypeInfo,
    body: xml::XmlElementId,
    report: &mut LoadReport,
) -> Vec<DefinitionNode> {
    let skeleton = nodes::build(document, types, info, body, report);
    controllers::link(document, types, skeleton, report)
}
