//! `xavantes run`: a process from its file to its results.

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use xavantes_engine::{Engine, Outcome, Start, State};
use xavantes_model::definition::{Kind, ProcessType, Program};
use xavantes_model::diagnostic::did_you_mean;
use xavantes_model::value::{Type, Value};

use crate::Exit;
use crate::args::{Format, RunArgs};
use crate::local::Watcher;
use crate::report::{complain, print, tell};
use crate::validate::load_files;

pub(crate) fn run(arguments: RunArgs, format: Format, quiet: bool) -> Exit {
    let program = match load_files(std::slice::from_ref(&arguments.file), format) {
        Ok(program) => Arc::new(program),
        Err(exit) => return exit,
    };
    let process = match choose(&program, arguments.process.as_deref()) {
        Ok(process) => process,
        Err(message) => return complain(&message),
    };
    let parameters = match parameters(&program.processes[process], &arguments) {
        Ok(parameters) => parameters,
        Err(problems) => return complain_all(&problems),
    };
    let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get().min(u16::MAX.into()) as u16);
    let workers = arguments.workers.unwrap_or_else(cores);
    let id = format!("{}-{:04x}", program.processes[process].name, std::process::id() & 0xffff);
    let began = Instant::now();
    let mut display = Display::new(quiet, began);
    let start = Start::new(id.as_str(), process, parameters);
    let outcome = crate::local::run(&program, start, workers, arguments.timeout, &mut display);
    display.clear();
    match outcome {
        Err(problems) => complain_all(&problems),
        Ok((state, timed_out)) => report(&id, &state, timed_out, began.elapsed(), format),
    }
}

fn complain_all(problems: &[String]) -> Exit {
    for problem in problems {
        complain(problem);
    }
    Exit::Usage
}

/// The type that was asked for, or the only one that no other type calls.
fn choose(program: &Program, wanted: Option<&str>) -> Result<usize, String> {
    let names = || program.processes.iter().map(|process| &*process.name);
    if let Some(name) = wanted {
        return program.process(name).ok_or_else(|| {
            let hint = did_you_mean(name, names()).unwrap_or_else(|| list("process types here", names()));
            format!("there is no process type {name:?}; {hint}")
        });
    }
    let called: BTreeSet<usize> = program
        .processes
        .iter()
        .enumerate()
        .flat_map(|(caller, process)| process.nodes.iter().map(move |node| (caller, &node.kind)))
        .filter_map(|(caller, kind)| match kind {
            Kind::Process { process } if *process != caller => Some(*process),
            _ => None,
        })
        .collect();
    let free: Vec<usize> = (0..program.processes.len()).filter(|process| !called.contains(process)).collect();
    match free[..] {
        [only] => Ok(only),
        _ if program.processes.is_empty() => Err("the definition has no process type".into()),
        _ => Err(format!("which process type is to run? Say --process NAME; {}", list("there are", names()))),
    }
}

fn list<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> String {
    format!("{what}: {}", names.take(20).collect::<Vec<_>>().join(", "))
}

/// Parameters from the file, then from the command line, which wins; or everything that is wrong with them.
fn parameters(process: &ProcessType, arguments: &RunArgs) -> Result<Vec<(String, Value)>, Vec<String>> {
    let mut problems = Vec::new();
    let mut given: BTreeMap<String, Value> = BTreeMap::new();
    let inputs = || process.parameters().iter().filter(|variable| variable.direction.is_in());
    let unknown = |key: &str| {
        let names = || inputs().map(|variable| &*variable.name);
        let hint = did_you_mean(key, names()).unwrap_or_else(|| match inputs().next() {
            Some(_) => list("it has", names()),
            None => "it has none".into(),
        });
        format!("{} has no IN parameter {key:?}; {hint}", process.name)
    };
    let members = arguments.params.as_deref().map(read_params).transpose().map_err(|problem| vec![problem])?;
    for (key, json) in members.unwrap_or_default() {
        let Some(variable) = inputs().find(|variable| *variable.name == *key) else {
            problems.push(unknown(&key));
            continue;
        };
        let value = Value::try_from(json).and_then(|value| match variable.ty {
            Some(ty) if !value.is_null() => ty.accept(value),
            _ => Ok(value),
        });
        given.insert(
            key.clone(),
            value.unwrap_or_else(|problem| {
                problems.push(format!("parameter {key:?}: {problem}"));
                Value::Bool(false)
            }),
        );
    }
    for (key, text) in &arguments.parameters {
        let Some(variable) = inputs().find(|variable| *variable.name == **key) else {
            problems.push(unknown(key));
            continue;
        };
        let value = variable.ty.unwrap_or(Type::String).parse(text).unwrap_or_else(|problem| {
            problems.push(format!("parameter {key:?}: {problem}"));
            Value::Bool(false)
        });
        given.insert(key.clone(), value);
    }
    for variable in inputs().filter(|variable| variable.default.is_none() && !variable.optional) {
        if given.get(&*variable.name).is_none_or(Value::is_null) {
            problems.push(format!("parameter {:?} is missing", variable.name));
        }
    }
    if problems.is_empty() { Ok(given.into_iter().collect()) } else { Err(problems) }
}

/// The members of a JSON file with parameters.
fn read_params(file: &Path) -> Result<serde_json::Map<String, Json>, String> {
    let shown = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {shown}: {error}"))?;
    match serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}"))? {
        Json::Object(members) => Ok(members),
        _ => Err(format!("{shown}: expected one JSON object")),
    }
}

fn report(id: &str, state: &State, timed_out: bool, elapsed: Duration, format: Format) -> Exit {
    let Some((outcome, results)) = state.ended() else { return Exit::Failed };
    let (word, exit) = match outcome {
        Outcome::Completed => ("completed", Exit::Success),
        Outcome::Cancelled if timed_out => ("cancelled", Exit::TimedOut),
        Outcome::Cancelled => ("cancelled", Exit::Cancelled),
        Outcome::Failed(_) | Outcome::Restart => ("failed", Exit::Failed),
    };
    if let Outcome::Failed(failure) = outcome {
        tell(&format!("error: {failure}\n"));
    } else if exit == Exit::TimedOut {
        tell("error: time is out: the process was cancelled\n");
    }
    let results: serde_json::Map<String, Json> =
        results.iter().map(|(name, value)| (name.to_string(), value.to_json())).collect();
    let printed = match format {
        Format::Json => {
            let counts = state.counts();
            let mut document = json!({
                "process": id,
                "state": word,
                "results": results,
                "activities": {
                    "completed": counts.completed, "failed": counts.failed, "attempts": counts.attempts,
                },
                "elapsed_seconds": elapsed.as_secs_f64(),
            });
            if let Outcome::Failed(failure) = outcome {
                document["error"] = json!(failure.to_string());
            }
            print(&document.to_string())
        }
        Format::Text => print(&results.iter().map(|(name, value)| format!("{name} = {value}\n")).collect::<String>()),
    };
    if printed == Exit::Success { exit } else { printed }
}

/// One line that is kept up to date on a terminal, and what activities print.
struct Display {
    quiet: bool,
    terminal: bool,
    began: Instant,
    last: Instant,
    shown: bool,
}

impl Display {
    const EVERY: Duration = Duration::from_millis(100);

    fn new(quiet: bool, began: Instant) -> Self {
        Self { quiet, terminal: std::io::stderr().is_terminal(), began, last: began, shown: false }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            tell("\r\x1b[K");
        }
    }
}

impl Watcher for Display {
    fn stepped(&mut self, engine: &Engine) {
        if self.quiet || !self.terminal || self.last.elapsed() < Self::EVERY {
            return;
        }
        self.last = Instant::now();
        self.shown = true;
        let counts = engine.state().counts();
        let rate = counts.completed as f64 / self.began.elapsed().as_secs_f64().max(0.001);
        let failed = if counts.failed > 0 { format!(", {} failed", counts.failed) } else { String::new() };
        tell(&format!("\r\x1b[K{} completed, {} running{failed} ({rate:.0}/s)", counts.completed, counts.out));
    }

    fn printed(&mut self, path: &str, line: &str) {
        if !self.quiet {
            self.clear();
            tell(&format!("{path}: {line}\n"));
        }
    }
}
