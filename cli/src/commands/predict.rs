//! `xavantes predict`: durations and output sizes of activities, from past runs in ARFF files.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use xavantes_model::diagnostic::did_you_mean;
use xavantes_scheduling::predictor::{ObservedValue, RunHistory, arff};

use crate::args::key_value;
use crate::exit::Exit;
use crate::output::printer::Output;
use crate::output::terminal;
use crate::planning::histories::{KEPT_RUNS, files, read_one, type_of};
use crate::report::prediction::{HistoryList, HistorySummary, Learned, Predicted, PredictionError, PredictionReport};

/// At most this many runs are left out and predicted; of more runs, an even sample. Each prediction looks at all runs.
const MAX_CHECKED_RUNS: usize = 500;

#[derive(Subcommand)]
pub(crate) enum PredictCommand {
    /// Predict the duration and the output sizes of one activity
    Ask(AskArgs),
    /// Show what is known about activity types, and how good predictions are
    Show(ShowArgs),
    /// Add runs to the history of an activity type
    Learn(LearnArgs),
}

#[derive(Args)]
pub(crate) struct AskArgs {
    /// History of the activity type: TYPE.arff
    #[arg(value_name = "TYPE.arff")]
    pub history: PathBuf,
    /// What is known of the activity: an attribute of the history, e.g. arg-mode=fast, in-table=2500000, mach-speed=2
    #[arg(value_name = "ATTRIBUTE=VALUE", value_parser = key_value)]
    pub known: Vec<(String, String)>,
    /// Past runs that a prediction is the mean of
    #[arg(short = 'k', long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub neighbours: u16,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// History of an activity type, or a folder of histories
    #[arg(value_name = "DIR|TYPE.arff")]
    pub history: PathBuf,
    /// Past runs that a prediction is the mean of
    #[arg(short = 'k', long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub neighbours: u16,
}

#[derive(Args)]
pub(crate) struct LearnArgs {
    /// History to add to; it is created if it is not there
    #[arg(value_name = "TYPE.arff")]
    pub history: PathBuf,
    /// New runs, with the same attributes; attributes that a file does not have are unknown
    #[arg(required = true, value_name = "RUNS.arff")]
    pub runs: Vec<PathBuf>,
    /// Runs that the history keeps; runs beyond this are merged with the most similar ones
    #[arg(long, value_name = "N", default_value_t = KEPT_RUNS as u32, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub capacity: u32,
}

pub(crate) fn execute(command: PredictCommand, output: Output) -> Result<Exit, Exit> {
    match command {
        PredictCommand::Ask(arguments) => ask(&arguments, output),
        PredictCommand::Show(arguments) => show(&arguments, output),
        PredictCommand::Learn(arguments) => learn(&arguments, output),
    }
}

fn read(file: &Path, neighbours: u16) -> Result<RunHistory, Exit> {
    let history = read_one(file).map_err(|problem| terminal::error(&problem))?;
    Ok(history.with_neighbours(neighbours.into()))
}

/// What a history predicts: the time, and the sizes of outputs.
fn targets(history: &RunHistory) -> impl Iterator<Item = &String> {
    history.attributes().iter().filter(|name| *name == "time" || name.starts_with("out-"))
}

fn ask(arguments: &AskArgs, output: Output) -> Result<Exit, Exit> {
    let history = read(&arguments.history, arguments.neighbours)?;
    let mut known = vec![ObservedValue::Missing; history.attributes().len()];
    for (name, text) in &arguments.known {
        let Some(column) = history.attributes().iter().position(|other| other == name) else {
            let names = || history.attributes().iter().map(String::as_str);
            let hint = did_you_mean(name, names())
                .unwrap_or_else(|| format!("it has {}", names().collect::<Vec<_>>().join(", ")));
            return Err(terminal::error(&format!("the history has no attribute {name:?}; {hint}")));
        };
        let is_word = history.runs().any(|run| matches!(run[column], ObservedValue::Word(_)));
        known[column] = match text.parse::<f64>() {
            Ok(number) if number.is_finite() && !is_word => ObservedValue::Number(number),
            _ if is_word || history.runs().len() == 0 => ObservedValue::Word(text.clone()),
            _ => return Err(terminal::error(&format!("{name} is a number, not {text:?}"))),
        };
    }
    let predict = |target: &String| {
        let prediction = history.predict(target, &known)?;
        Some(Predicted {
            attribute: target.clone(),
            mean: prediction.mean,
            low: prediction.low,
            high: prediction.high,
            neighbours: prediction.neighbours,
            distance: prediction.distance,
        })
    };
    Ok(output.report(&PredictionReport {
        activity: type_of(&arguments.history),
        runs: history.runs().len(),
        predictions: targets(&history).filter_map(predict).collect(),
    }))
}

fn show(arguments: &ShowArgs, output: Output) -> Result<Exit, Exit> {
    let mut types = Vec::new();
    for file in files(&arguments.history).map_err(|problem| terminal::error(&problem))? {
        let history = read(&file, arguments.neighbours)?;
        types.push(HistorySummary {
            activity: type_of(&file),
            runs: history.runs().len(),
            attributes: history.attributes().to_vec(),
            errors: leave_one_out(&history),
        });
    }
    Ok(output.report(&HistoryList { types }))
}

/// How wrong predictions of runs from all others are.
fn leave_one_out(history: &RunHistory) -> Vec<PredictionError> {
    let step = history.runs().len().div_ceil(MAX_CHECKED_RUNS).max(1);
    let mut found: Vec<(String, Vec<f64>, usize)> =
        targets(history).map(|name| (name.clone(), Vec::new(), 0)).collect();
    for (left_out, run) in history.runs().enumerate().step_by(step) {
        for (name, errors, covered) in &mut found {
            let column = history.attributes().iter().position(|other| other == name);
            let Some(ObservedValue::Number(real)) = column.map(|column| &run[column]) else { continue };
            if let Some(prediction) = history.predict_left_out(name, left_out) {
                errors.push((prediction.mean - real).abs() / real.abs().max(1e-9));
                *covered += usize::from((prediction.low..=prediction.high).contains(real));
            }
        }
    }
    let summary = |(attribute, mut errors, covered): (String, Vec<f64>, usize)| {
        errors.sort_by(f64::total_cmp);
        let median = errors.get(errors.len() / 2).copied()?;
        Some(PredictionError {
            attribute,
            checked: errors.len(),
            mean_relative_error: errors.iter().sum::<f64>() / errors.len() as f64,
            median_relative_error: median,
            covered: covered as f64 / errors.len() as f64,
        })
    };
    found.into_iter().filter_map(summary).collect()
}

fn learn(arguments: &LearnArgs, output: Output) -> Result<Exit, Exit> {
    let capacity = arguments.capacity as usize;
    let old = match arguments.history.exists() {
        true => Some(read_one(&arguments.history).map_err(|problem| terminal::error(&problem))?),
        false => None,
    };
    let mut new = Vec::new();
    for file in &arguments.runs {
        new.push(read_one(file).map_err(|problem| terminal::error(&problem))?);
    }
    // Attributes of all files, in the order in which they appear first.
    let mut attributes: Vec<String> = Vec::new();
    for name in old.iter().chain(&new).flat_map(RunHistory::attributes) {
        if !attributes.contains(name) {
            attributes.push(name.clone());
        }
    }
    let mut history = RunHistory::new(attributes.clone(), capacity);
    let mut added = 0;
    for (index, source) in old.iter().chain(&new).enumerate() {
        let columns: Vec<Option<usize>> =
            attributes.iter().map(|name| source.attributes().iter().position(|other| other == name)).collect();
        for run in source.runs() {
            history.observe(
                columns
                    .iter()
                    .map(|column| column.map_or(ObservedValue::Missing, |column| run[column].clone()))
                    .collect(),
            );
            added += usize::from(old.is_none() || index > 0);
        }
    }
    let text = arff::write(&history, &type_of(&arguments.history));
    replace(&arguments.history, &text)
        .map_err(|error| terminal::error(&format!("cannot write {}: {error}", arguments.history.display())))?;
    Ok(output.report(&Learned { history: arguments.history.clone(), added, runs: history.runs().len() }))
}

/// Writes a file whole or not at all.
fn replace(file: &Path, text: &str) -> std::io::Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = file.with_file_name(name);
    std::fs::write(&new, text)?;
    std::fs::rename(&new, file)
}
