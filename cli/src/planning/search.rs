//! Planners at work: time limits, Ctrl-C, and progress on the terminal.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use xavantes_model::diagnostic::did_you_mean;
use xavantes_scheduling::catalogue::{self, CatalogueEntry, Effort};
use xavantes_scheduling::planner::Progress;
use xavantes_scheduling::validate::validate;
use xavantes_scheduling::{Objective, PlanError, PlanValue, Problem, Run, Schedule};

use super::args::{PlanningArgs, TimeLimit};
use crate::exit::Exit;
use crate::output::printer::Output;
use crate::output::terminal;
use crate::output::text::units;

/// A search ends after this time even if its rounds are not done.
const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(10);
const DRAW_INTERVAL: Duration = Duration::from_millis(100);

/// Whether the user has had enough.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Does long work in a thread of its own. Ctrl-C interrupts it; a second Ctrl-C ends the program.
pub(crate) async fn interruptible<T: Send + 'static>(
    work: impl FnOnce(&Interrupt) -> T + Send + 'static,
) -> Result<T, Exit> {
    let cannot = |error: String| {
        terminal::error(&error);
        Exit::Failed
    };
    let interrupt = Interrupt::default();
    let flag = interrupt.clone();
    let mut interrupts =
        signal(SignalKind::interrupt()).map_err(|error| cannot(format!("cannot listen for signals: {error}")))?;
    let watcher = tokio::spawn(async move {
        interrupts.recv().await;
        flag.0.store(true, Ordering::Relaxed);
        interrupts.recv().await;
        terminal::clear_footer();
        std::process::exit(Exit::Cancelled as i32);
    });
    let done = tokio::task::spawn_blocking(move || work(&interrupt)).await;
    watcher.abort();
    done.map_err(|error| cannot(format!("the planner failed: {error}")))
}

/// The planner with this name.
pub(crate) fn planner(name: &str) -> Result<&'static CatalogueEntry, Exit> {
    catalogue::find(name).ok_or_else(|| {
        let names = || catalogue::ALL.iter().map(|entry| entry.name);
        let hint = did_you_mean(name, names())
            .unwrap_or_else(|| format!("there are {}", names().collect::<Vec<_>>().join(", ")));
        terminal::error(&format!("there is no planner {name:?}; {hint}"))
    })
}

/// How planners are run.
#[derive(Debug, Clone)]
pub(crate) struct PlannerRunner {
    pub seed: u64,
    time_limit: Option<Duration>,
    /// Whether a search goes on until the time limit, even if its rounds are done.
    until_stopped: bool,
    pub threads: usize,
    pub interrupt: Interrupt,
    shows_progress: bool,
}

/// A schedule, and how long it took to make.
pub(crate) struct Made {
    pub schedule: Schedule,
    pub value: PlanValue,
    pub elapsed: Duration,
}

impl PlannerRunner {
    pub(crate) fn new(arguments: &PlanningArgs, interrupt: Interrupt, output: Output) -> Self {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            seed: arguments.seed,
            time_limit: match arguments.time_limit {
                Some(TimeLimit::Time(limit)) => Some(limit),
                Some(TimeLimit::Rounds) => None,
                None => Some(DEFAULT_TIME_LIMIT),
            },
            until_stopped: matches!(arguments.time_limit, Some(TimeLimit::Time(_))),
            threads: arguments.threads.map_or_else(processors, usize::from),
            interrupt,
            shows_progress: !output.is_quiet() && std::io::stderr().is_terminal(),
        }
    }

    /// The same search, which ends after this time.
    pub(crate) fn with_time_limit(&self, limit: Duration) -> Self {
        Self { time_limit: Some(limit), ..self.clone() }
    }

    /// Makes a schedule, which may break limits.
    pub(crate) fn make(
        &self,
        entry: &CatalogueEntry,
        problem: &Problem,
        objective: Objective,
    ) -> Result<Made, PlanError> {
        let began = Instant::now();
        let end = self.time_limit.map(|limit| began + limit);
        let stop = || self.interrupt.is_set() || end.is_some_and(|end| Instant::now() >= end);
        let mut drawn: Option<Instant> = None;
        let mut progress = |progress: Progress| {
            if self.shows_progress && drawn.is_none_or(|drawn| drawn.elapsed() >= DRAW_INTERVAL) {
                drawn = Some(Instant::now());
                terminal::set_footer(&line(entry.name, objective, progress, began.elapsed()));
            }
        };
        let effort = Effort { threads: self.threads, until_stopped: self.until_stopped };
        let mut run = Run { objective, seed: self.seed, stop: &stop, progress: &mut progress };
        let made = (entry.build)(effort).plan(problem, &mut run);
        if self.shows_progress {
            terminal::clear_footer();
        }
        let schedule = made?;
        let value = PlanValue::of(problem, &schedule);
        Ok(Made { schedule, value, elapsed: began.elapsed() })
    }
}

/// The line that shows the progress of a search.
fn line(name: &str, objective: Objective, progress: Progress, elapsed: Duration) -> String {
    let best = match objective {
        Objective::Makespan | Objective::MakespanWithinBudget { .. } => units::precise(progress.best.value),
        _ => units::money(progress.best.value),
    };
    let broken = if progress.best.excess > 0.0 { ", which breaks the limit" } else { "" };
    let (rounds, elapsed) = (progress.rounds, units::duration(elapsed));
    format!("{name}: {rounds} rounds in {elapsed}, best {best}{broken} (Ctrl-C ends the search)")
}

/// Whether a schedule keeps all rules except deadline and budget, which the caller checks.
pub(crate) fn faults(problem: &Problem, schedule: &Schedule) -> Vec<String> {
    use xavantes_scheduling::validate::Violation;
    let violations = validate(problem, schedule).err().unwrap_or_default();
    let real = violations.iter().filter(|it| !matches!(it, Violation::Late { .. } | Violation::TooExpensive { .. }));
    real.map(ToString::to_string).collect()
}
