//! Predictions from past runs, and how good they are.

use std::path::PathBuf;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// Histories of activity types.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct HistoryList {
    /// The activity types
    pub types: Vec<HistorySummary>,
}

/// The history of an activity type.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct HistorySummary {
    /// Activity type
    #[serde(rename = "type")]
    pub activity: String,
    /// Runs that are kept
    pub runs: usize,
    /// Attributes of runs
    pub attributes: Vec<String>,
    /// How wrong predictions of each run from all others are
    pub errors: Vec<PredictionError>,
}

/// How wrong predictions are.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct PredictionError {
    /// Predicted attribute
    pub attribute: String,
    /// Runs that were left out and predicted, one at a time
    pub checked: usize,
    /// Mean of the errors relative to the real values
    pub mean_relative_error: f64,
    /// Half of the relative errors are at most this
    pub median_relative_error: f64,
    /// Part of the real values within the interval
    pub covered: f64,
}

/// What to expect of an activity.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(rename = "Predictions"))]
pub(crate) struct PredictionReport {
    /// Activity type
    #[serde(rename = "type")]
    pub activity: String,
    /// Past runs that are known
    pub runs: usize,
    /// The predictions: duration and sizes of outputs; empty without past runs
    pub predictions: Vec<Predicted>,
}

/// A predicted number.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Predicted {
    /// Attribute: `time` in seconds, `out-NAME` in bytes
    pub attribute: String,
    /// Mean of the most similar runs
    pub mean: f64,
    /// Lower end of the interval
    pub low: f64,
    /// Upper end of the interval
    pub high: f64,
    /// Runs that the mean is of
    pub neighbours: usize,
    /// Distance of the most similar run: 0 for the same values
    pub distance: f64,
}

/// Runs that were added to a history.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Learned {
    /// The file
    pub history: PathBuf,
    /// Runs that were added
    pub added: usize,
    /// Runs that the history has now; runs beyond its capacity are merged with the most similar ones
    pub runs: usize,
}
