//! Predictions from past runs.

use super::text_table::table;
use super::units::{percent, precise};
use crate::output::printer::Report;
use crate::report::prediction::{HistoryList, Learned, PredictionReport};

impl Report for HistoryList {
    fn text(&self) -> String {
        let rows = self.types.iter().flat_map(|history| {
            let first = || vec![history.activity.clone(), history.runs.to_string()];
            let none = history.errors.is_empty().then(|| [first(), vec!["-".into(); 4]].concat());
            let errors = history.errors.iter().map(move |error| {
                let numbers = [error.mean_relative_error, error.median_relative_error, error.covered].map(percent);
                [first(), vec![error.attribute.clone()], numbers.to_vec()].concat()
            });
            none.into_iter().chain(errors).collect::<Vec<_>>()
        });
        table(&["TYPE", "RUNS", "PREDICTS", "MEAN ERROR", "MEDIAN ERROR", "IN INTERVAL"], rows)
    }
}

impl Report for PredictionReport {
    fn text(&self) -> String {
        if self.predictions.is_empty() {
            return format!("nothing is known about the type {}: it has no past runs\n", self.activity);
        }
        let number = |attribute: &str, number: f64| match attribute {
            "time" => precise(number),
            _ => format!("{number:.0} B"),
        };
        let rows = self.predictions.iter().map(|predicted| {
            let shown = |value: f64| number(&predicted.attribute, value);
            vec![
                predicted.attribute.clone(),
                shown(predicted.mean),
                format!("{} to {}", shown(predicted.low), shown(predicted.high)),
                predicted.neighbours.to_string(),
                format!("{:.3}", predicted.distance),
            ]
        });
        let head = format!("type         {}\nruns         {}\n\n", self.activity, self.runs);
        head + &table(&["PREDICTS", "MEAN", "INTERVAL", "NEIGHBOURS", "DISTANCE"], rows)
    }
}

impl Report for Learned {
    fn text(&self) -> String {
        format!("{}: {} runs added, {} runs kept\n", self.history.display(), self.added, self.runs)
    }
}
