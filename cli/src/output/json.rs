//! Reports as JSON: one document in one line, which a terminal can show.

use serde::Serialize;

use crate::output::visible::visible_json;

/// The document.
pub(crate) fn document(report: &impl Serialize) -> String {
    // Reports have text keys only and no map-like enums, so they can always be serialised.
    let json = serde_json::to_string(report).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"));
    visible_json(json)
}
