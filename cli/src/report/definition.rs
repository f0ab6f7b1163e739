//! What a process was submitted with: its documents and its parameters.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;
use xavantes_proto::v1;

use super::process::{as_object, named_values};

/// The documents that define a process.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Definition {
    /// Id of the process
    pub process: String,
    /// Name of its process type
    pub process_type: String,
    /// The documents, as they were submitted
    pub documents: Vec<SubmittedDocument>,
}

/// A document that was submitted.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SubmittedDocument {
    /// Name of its file
    pub name: String,
    /// Its text
    pub text: String,
}

/// The parameters of a process.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ProcessParameters {
    /// Id of the process
    pub process: String,
    /// Name of its process type
    pub process_type: String,
    /// Values of the IN and INOUT parameters by name, with defaults; `--params` reads this object from a file
    #[serde(serialize_with = "as_object")]
    #[cfg_attr(test, schemars(with = "std::collections::BTreeMap<String, Json>"))]
    pub parameters: Vec<(String, Json)>,
}

impl Definition {
    pub(crate) fn new(process: String, response: v1::DefinitionResponse) -> Self {
        let document = |document: v1::Document| SubmittedDocument { name: document.name, text: document.text };
        let documents = response.documents.into_iter().map(document).collect();
        Self { process, process_type: response.process_type, documents }
    }
}

impl ProcessParameters {
    pub(crate) fn new(process: String, response: v1::DefinitionResponse) -> Self {
        Self { process, process_type: response.process_type, parameters: named_values(&response.parameters) }
    }
}
