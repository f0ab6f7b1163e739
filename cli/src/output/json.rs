//! Reports as JSON: one document in one line.

use serde::Serialize;

/// The document.
pub(crate) fn document(report: &impl Serialize) -> String {
    // Reports have text keys only and no map-like enums, so they can always be serialised.
    serde_json::to_string(report).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
}
