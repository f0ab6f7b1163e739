//! What a call of a shared object returned.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// The answer to a call of a shared object.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct SharedValue {
    /// The returned value
    pub value: serde_json::Value,
}
