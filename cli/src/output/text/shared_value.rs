//! What a call of a shared object returned: texts as they are, nothing for null, everything else as JSON.

use serde_json::Value as Json;

use crate::output::printer::Report;
use crate::report::shared_value::SharedValue;

impl Report for SharedValue {
    fn text(&self) -> String {
        match &self.value {
            Json::Null => String::new(),
            Json::String(text) => format!("{text}\n"),
            other => other.to_string(),
        }
    }
}
