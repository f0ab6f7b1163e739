//! Estimates from past runs: a history for each activity type.
//!
//! A history has an attribute for each thing that a run may depend on: `arg-NAME` the parameter NAME, `in-NAME` the
//! bytes of the files in it, `mach-speed` the speed of the machine. It has `time`, the seconds, and `out-NAME`, the bytes
//! of the files in the parameter NAME.

use std::collections::BTreeMap;

use xavantes_model::value::Value as Parameter;
use xavantes_scheduling::predictor::{ObservedValue, Prediction, RunHistory};

/// Past runs by activity type.
#[derive(Debug, Clone, Default)]
pub struct Histories {
    by_type: BTreeMap<String, RunHistory>,
}

/// What is known of a run: the parameters, and the bytes of their files.
#[derive(Debug, Clone, Default)]
pub struct Circumstances {
    arguments: BTreeMap<String, ObservedValue>,
    bytes: BTreeMap<String, f64>,
}

impl Circumstances {
    /// Nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a parameter. Numbers are numbers, texts and truth values are words; of a list the length counts.
    pub fn parameter(&mut self, name: &str, value: &Parameter) {
        let value = match value {
            Parameter::Int(number) => ObservedValue::Number(*number as f64),
            Parameter::Float(number) if number.is_finite() => ObservedValue::Number(*number),
            Parameter::Str(text) => ObservedValue::Word(text.to_string()),
            Parameter::Bool(truth) => ObservedValue::Word(truth.to_string()),
            Parameter::List(items) => ObservedValue::Number(items.len() as f64),
            _ => return,
        };
        self.arguments.insert(name.to_owned(), value);
    }

    /// Adds the bytes of the files in a parameter.
    pub fn bytes(&mut self, name: &str, bytes: f64) {
        self.bytes.insert(name.to_owned(), bytes);
    }

    /// The values of a history's attributes; the machine has the speed 1.
    fn values(&self, attributes: &[String]) -> Vec<ObservedValue> {
        let value = |name: &String| {
            if name == "mach-speed" {
                return ObservedValue::Number(1.0);
            }
            if let Some(argument) = name.strip_prefix("arg-") {
                return self.arguments.get(argument).cloned().unwrap_or(ObservedValue::Missing);
            }
            let bytes = name.strip_prefix("in-").and_then(|input| self.bytes.get(input));
            bytes.map_or(ObservedValue::Missing, |bytes| ObservedValue::Number(*bytes))
        };
        attributes.iter().map(value).collect()
    }
}

impl Histories {
    /// No history.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the history of an activity type.
    pub fn insert(&mut self, activity: impl Into<String>, history: RunHistory) {
        self.by_type.insert(activity.into(), history);
    }

    /// The history of an activity type.
    pub fn of(&self, activity: &str) -> Option<&RunHistory> {
        self.by_type.get(activity)
    }

    /// The seconds of an activity on a machine of speed 1.
    pub fn seconds(&self, activity: &str, known: &Circumstances) -> Option<Prediction> {
        let history = self.by_type.get(activity)?;
        history.predict_time(&known.values(history.attributes()))
    }

    /// The bytes that an activity writes into a parameter.
    pub fn bytes(&self, activity: &str, parameter: &str, known: &Circumstances) -> Option<Prediction> {
        let history = self.by_type.get(activity)?;
        history.predict(&format!("out-{parameter}"), &known.values(history.attributes()))
    }
}
