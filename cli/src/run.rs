//! `xavantes run`: a process from its file to its results.

use std::collections::BTreeSet;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use xavantes_engine::{Engine, Outcome, Start, State};
use xavantes_model::definition::{Kind, ProcessType, Program};
use xavantes_model::diagnostic::did_you_mean;
use xavantes_model::value::Value;

use crate::Exit;
use crate::args::{Format, RunArgs};
use crate::report::{complain, print};
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
        Err(message) => return complain(&message),
    };
    let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get().min(u16::MAX.into()) as u16);
    let workers = arguments.workers.unwrap_or_else(cores);
    let id = format!("{}-{:04x}", program.processes[process].name, std::process::id() & 0xffff);
    let began = Instant::now();
    let mut display = Display::new(quiet);
    let start = Start::new(id.as_str(), process, parameters);
    let outcome = crate::local::run(&program, start, workers, arguments.timeout, |engine| display.show(engine, began));
    display.clear();
    match outcome {
        Err(problems) => {
            for problem in &problems {
                complain(problem);
            }
            Exit::Usage
        }
        Ok((state, timed_out)) => report(&id, &state, timed_out, began.elapsed(), format),
    }
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

/// Parameters from the file, then from the command line, which wins.
fn parameters(process: &ProcessType, arguments: &RunArgs) -> Result<Vec<(String, Value)>, String> {
    let mut given: Vec<(String, Value)> = Vec::new();
    if let Some(file) = &arguments.params {
        let shown = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read {shown}: {error}"))?;
        let json: Json = serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}"))?;
        let Json::Object(members) = json else { return Err(format!("{shown}: expected one JSON object")) };
        for (key, json) in members {
            let value = Value::try_from(json).map_err(|problem| format!("{shown}: {key}: {problem}"))?;
            given.push((key, value));
        }
    }
    for (key, text) in &arguments.parameters {
        let variable = process.parameters().iter().find(|variable| *variable.name == **key);
        let value = match variable.and_then(|variable| variable.ty) {
            Some(ty) => ty.parse(text).map_err(|problem| format!("parameter {key:?}: {problem}"))?,
            None => {
                let known = process.parameters().iter().filter(|variable| variable.direction.is_in());
                let names = || known.clone().map(|variable| &*variable.name);
                let hint = did_you_mean(key, names()).unwrap_or_else(|| list("it has", names()));
                return Err(format!("{} has no parameter {key:?}; {hint}", process.name));
            }
        };
        given.retain(|(other, _)| other != key);
        given.push((key.clone(), value));
    }
    Ok(given)
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
        eprintln!("error: {failure}");
    } else if timed_out {
        eprintln!("error: time is out: the process was cancelled");
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

/// One line that is kept up to date on a terminal.
struct Display {
    on: bool,
    last: Option<Instant>,
    shown: bool,
}

impl Display {
    const EVERY: Duration = Duration::from_millis(100);

    fn new(quiet: bool) -> Self {
        Self { on: !quiet && std::io::stderr().is_terminal(), last: None, shown: false }
    }

    fn show(&mut self, engine: &Engine, began: Instant) {
        if !self.on || self.last.unwrap_or(began).elapsed() < Self::EVERY {
            return;
        }
        self.last = Some(Instant::now());
        self.shown = true;
        let counts = engine.state().counts();
        let rate = counts.completed as f64 / began.elapsed().as_secs_f64().max(0.001);
        let failed = if counts.failed > 0 { format!(", {} failed", counts.failed) } else { String::new() };
        eprint!("\r\x1b[K{} completed, {} running{failed} ({rate:.0}/s)", counts.completed, counts.out);
        let _ = std::io::stderr().flush();
    }

    fn clear(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}
