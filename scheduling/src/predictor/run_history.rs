//! Past runs of one type of activity, and predictions from them.

use std::collections::VecDeque;

/// A value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum ObservedValue {
    /// A number: bytes or seconds, mostly.
    Number(f64),
    /// A word.
    Word(String),
    /// Nobody knows.
    Missing,
}

/// A predicted number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The mean of the most similar past runs.
    pub mean: f64,
    /// Nine of ten predictions so far would have been right with this lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// How many past runs the mean is of.
    pub neighbours: usize,
    /// The distance of the nearest one: 0 for the same values, 1 for one attribute that could not differ more.
    pub distance: f64,
}

/// How many relative errors of past predictions the interval is made of.
const KEPT_ERRORS: usize = 200;

/// The part of past errors that the interval covers.
const COVERED: f64 = 0.9;

/// The relative error of predictions before any was checked.
const FIRST_ERROR: f64 = 1.0;

/// Past runs of one type of activity. Memory is bounded: when the history is full, a new run is merged with the most
/// similar one, so that rare runs are not forgotten and frequent ones are averaged.
#[derive(Debug, Clone)]
pub struct RunHistory {
    /// The names of attributes.
    attributes: Vec<String>,
    runs: Vec<PastRun>,
    capacity: usize,
    neighbours: usize,
    errors: VecDeque<f64>,
}

#[derive(Debug, Clone, PartialEq)]
struct PastRun {
    values: Vec<ObservedValue>,
    weight: f64,
}

impl RunHistory {
    /// A history without runs. It keeps at most `capacity` runs, and at least one.
    pub fn new(attributes: Vec<String>, capacity: usize) -> Self {
        Self { attributes, runs: Vec::new(), capacity: capacity.max(1), neighbours: 3, errors: VecDeque::new() }
    }

    /// Predicts from this many past runs instead of 3.
    pub fn with_neighbours(self, neighbours: usize) -> Self {
        Self { neighbours: neighbours.max(1), ..self }
    }

    /// The names of attributes.
    pub fn attributes(&self) -> &[String] {
        &self.attributes
    }

    /// The values of all runs that are kept.
    pub fn runs(&self) -> impl ExactSizeIterator<Item = &[ObservedValue]> {
        self.runs.iter().map(|run| run.values.as_slice())
    }

    /// Adds a run. Values beyond the attributes are ignored, missing ones are missing.
    pub fn observe(&mut self, mut values: Vec<ObservedValue>) {
        values.resize(self.attributes.len(), ObservedValue::Missing);
        self.check_prediction(&values);
        let weight = 1.0;
        if self.runs.len() < self.capacity {
            self.runs.push(PastRun { values, weight });
            return;
        }
        let all: Vec<_> = (0..self.attributes.len()).collect();
        let Some((nearest, _)) = self.nearest(&values, &all, 1).first().copied() else {
            return;
        };
        let kept = &mut self.runs[nearest];
        for (old, new) in kept.values.iter_mut().zip(values) {
            *old = match (&*old, new) {
                (ObservedValue::Number(old), ObservedValue::Number(new)) => {
                    ObservedValue::Number((old * kept.weight + new) / (kept.weight + 1.0))
                }
                (old, ObservedValue::Missing) => old.clone(),
                (_, new) => new,
            };
        }
        // Old averages give way to what is new.
        kept.weight = (kept.weight + 1.0).min(10.0);
    }

    /// Remembers how wrong a prediction of this run's time would have been.
    fn check_prediction(&mut self, values: &[ObservedValue]) {
        let Some(time) = self.attributes.iter().position(|name| name == "time") else {
            return;
        };
        if let (ObservedValue::Number(real), Some(predicted)) = (&values[time], self.predict("time", values)) {
            let error = (predicted.mean - real).abs() / real.abs().max(1e-9);
            if self.errors.len() == KEPT_ERRORS {
                self.errors.pop_front();
            }
            self.errors.push_back(error);
        }
    }

    /// The mean relative error of the last predictions of times, each made before its run was known.
    pub fn mean_error(&self) -> Option<f64> {
        (!self.errors.is_empty()).then(|| self.errors.iter().sum::<f64>() / self.errors.len() as f64)
    }

    /// Predicts the time.
    pub fn predict_time(&self, known: &[ObservedValue]) -> Option<Prediction> {
        self.predict("time", known)
    }

    /// Predicts an attribute from the others that it may depend on; nothing if no past run has it.
    pub fn predict(&self, target: &str, known: &[ObservedValue]) -> Option<Prediction> {
        self.predict_without(target, known, None)
    }

    /// Predicts an attribute of one of the runs from all other runs.
    pub fn predict_left_out(&self, target: &str, run: usize) -> Option<Prediction> {
        self.predict_without(target, &self.runs.get(run)?.values, Some(run))
    }

    fn predict_without(&self, target: &str, known: &[ObservedValue], left_out: Option<usize>) -> Option<Prediction> {
        let column = self.attributes.iter().position(|name| name == target)?;
        let machine_matters = target == "time";
        let relevant = |name: &str| {
            name.starts_with("in-") || name.starts_with("arg-") || (machine_matters && name.starts_with("mach-"))
        };
        let used: Vec<_> = (0..self.attributes.len()).filter(|index| relevant(&self.attributes[*index])).collect();
        let mut near = self.nearest(known, &used, usize::MAX);
        near.retain(|(run, _)| {
            Some(*run) != left_out && matches!(self.runs[*run].values[column], ObservedValue::Number(_))
        });
        near.truncate(self.neighbours);
        let (_, distance) = near.first().copied()?;
        let numbers = near.iter().filter_map(|(run, _)| match self.runs[*run].values[column] {
            ObservedValue::Number(number) => Some(number),
            _ => None,
        });
        let mean = numbers.sum::<f64>() / near.len() as f64;
        let error = self.covering_error();
        let (low, high) = (mean / (1.0 + error), mean * (1.0 + error));
        Some(Prediction { mean, low, high, neighbours: near.len(), distance })
    }

    fn covering_error(&self) -> f64 {
        if self.errors.is_empty() {
            return FIRST_ERROR;
        }
        let mut errors: Vec<_> = self.errors.iter().copied().collect();
        errors.sort_by(f64::total_cmp);
        errors[((errors.len() as f64 * COVERED) as usize).min(errors.len() - 1)]
    }

    /// The most similar runs by some attributes, nearest first; older ones first among equals.
    fn nearest(&self, known: &[ObservedValue], used: &[usize], count: usize) -> Vec<(usize, f64)> {
        let ranges: Vec<_> = used.iter().map(|column| self.range(*column)).collect();
        let distance = |run: &PastRun| {
            let parts = used.iter().zip(&ranges).map(|(column, range)| {
                let part =
                    difference(known.get(*column).unwrap_or(&ObservedValue::Missing), &run.values[*column], *range);
                part * part
            });
            parts.sum::<f64>().sqrt()
        };
        let mut all: Vec<_> = self.runs.iter().map(distance).enumerate().collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        all.truncate(count);
        all
    }

    fn range(&self, column: usize) -> (f64, f64) {
        let numbers = self.runs.iter().filter_map(|run| match run.values[column] {
            ObservedValue::Number(number) => Some(number),
            _ => None,
        });
        numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), number| (low.min(number), high.max(number)))
    }
}

/// A number from 0 to 1, more only for numbers outside of the range so far.
fn difference(one: &ObservedValue, other: &ObservedValue, (low, high): (f64, f64)) -> f64 {
    let width = high - low;
    let scale = |number: f64| if width > 0.0 { (number - low) / width } else { 0.0 };
    match (one, other) {
        (ObservedValue::Number(one), ObservedValue::Number(other)) if width > 0.0 => {
            (scale(*one) - scale(*other)).abs()
        }
        (ObservedValue::Number(one), ObservedValue::Number(other)) => f64::from(u8::from(one != other)),
        (ObservedValue::Word(one), ObservedValue::Word(other)) => f64::from(u8::from(one != other)),
        // One number is known: the other one may be at either end of the range.
        (ObservedValue::Number(known), ObservedValue::Missing)
        | (ObservedValue::Missing, ObservedValue::Number(known)) => {
            let known = scale(*known).clamp(0.0, 1.0);
            known.max(1.0 - known)
        }
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded_random::SeededRandom;

    fn history(capacity: usize) -> RunHistory {
        let names = ["in-bytes", "arg-mode", "mach-speed", "out-bytes", "time"];
        RunHistory::new(names.map(String::from).to_vec(), capacity)
    }

    /// Time is bytes by speed, twice that in the slow mode; outputs are a tenth of inputs.
    fn run(random: &mut SeededRandom) -> Vec<ObservedValue> {
        let (bytes, speed) = (random.between(1e6, 1e8), if random.chance(0.5) { 1e6 } else { 4e6 });
        let slow = random.chance(0.5);
        let time = bytes / speed * if slow { 2.0 } else { 1.0 };
        let mode = ObservedValue::Word(if slow { "slow" } else { "fast" }.into());
        vec![
            ObservedValue::Number(bytes),
            mode,
            ObservedValue::Number(speed),
            ObservedValue::Number(bytes / 10.0),
            ObservedValue::Number(time),
        ]
    }

    #[test]
    fn nothing_is_predicted_without_history() {
        assert_eq!(history(10).predict_time(&[ObservedValue::Number(1.0)]), None);
    }

    #[test]
    fn predictions_improve_with_history_and_intervals_cover_most_times() {
        let mut random = SeededRandom::new(1);
        let mut history = history(2000);
        let mut covered = 0;
        for number in 0..1500 {
            let run = run(&mut random);
            if number >= 1000 {
                let prediction = history.predict_time(&run[..3]).unwrap();
                let ObservedValue::Number(time) = run[4] else { panic!() };
                covered += usize::from(prediction.low <= time && time <= prediction.high);
            }
            history.observe(run);
        }
        assert!(history.mean_error().unwrap() < 0.1, "{:?}", history.mean_error());
        assert!((400..=500).contains(&covered), "{covered}");
    }

    #[test]
    fn a_full_history_stays_small_and_does_not_become_worse() {
        let mut random = SeededRandom::new(2);
        let mut history = history(100);
        let mut errors = Vec::new();
        for number in 1..=4000 {
            history.observe(run(&mut random));
            if number % 1000 == 0 {
                errors.push(history.mean_error().unwrap());
            }
        }
        assert_eq!(history.runs().len(), 100);
        assert!(errors[3] < errors[0] * 1.25, "{errors:?}");
    }

    #[test]
    fn outputs_do_not_depend_on_the_machine() {
        let mut history = history(100).with_neighbours(1);
        let numbers = |bytes: f64, speed: f64, out: f64| {
            vec![
                ObservedValue::Number(bytes),
                ObservedValue::Missing,
                ObservedValue::Number(speed),
                ObservedValue::Number(out),
                ObservedValue::Missing,
            ]
        };
        history.observe(numbers(1.0, 1.0, 10.0));
        history.observe(numbers(2.0, 9.0, 20.0));
        let known = [ObservedValue::Number(1.1), ObservedValue::Missing, ObservedValue::Number(9.0)];
        assert_eq!(history.predict("out-bytes", &known).unwrap().mean, 10.0);
        assert_eq!(history.predict_time(&known), None);
    }
}
