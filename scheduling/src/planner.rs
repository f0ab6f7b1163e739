//! What all planners have in common: a name, a problem in, a schedule out.

use thiserror::Error;

use crate::objective::{Objective, Score};
use crate::problem::Problem;
use crate::schedule::Schedule;

/// Makes schedules.
pub trait Planner {
    /// A short name in lower case, for tables and commands.
    fn name(&self) -> &'static str;

    /// Makes a schedule. Equal arguments give equal schedules unless [`Run::stop`] ends a search.
    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError>;
}

/// Why there is no schedule.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PlanError {
    /// No machine has what the task needs.
    #[error("no machine can run task {task}")]
    NoMachine {
        /// The task.
        task: String,
    },
    /// The planner found no machine with room for the files of a task.
    #[error("no machine has room for the files of task {task}")]
    NoRoom {
        /// The task.
        task: String,
    },
    /// The planner cannot handle problems of this size.
    #[error("the problem is too large for this planner: {size} is more than {limit}")]
    TooLarge {
        /// The size of the problem, as the planner counts it.
        size: usize,
        /// The largest size.
        limit: usize,
    },
    /// The planner found no schedule that keeps the deadline or the budget.
    #[error("no schedule was found that keeps the {what} {limit}")]
    LimitMissed {
        /// Deadline or budget.
        what: &'static str,
        /// The limit.
        limit: f64,
    },
}

/// Progress of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Rounds so far, as the planner counts them.
    pub rounds: u64,
    /// The best score so far.
    pub best: Score,
}

/// What a planner is asked for. Time comes from outside: `stop` says when a search must end.
pub struct Run<'a> {
    /// What to make small. Planners for time alone ignore it.
    pub objective: Objective,
    /// Where random numbers come from.
    pub seed: u64,
    /// A search ends soon after this says so, with the best schedule so far.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Hears of progress.
    pub progress: &'a mut dyn FnMut(Progress),
}

impl<'a> Run<'a> {
    /// A run with the seed 0, without a stop; nobody hears of its progress.
    pub fn new(objective: Objective, silence: &'a mut Silence) -> Self {
        Self { objective, seed: 0, stop: &never, progress: &mut silence.0 }
    }

    /// The same run with another seed.
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The same run, which ends when `stop` says so.
    pub fn with_stop(self, stop: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { stop, ..self }
    }
}

fn never() -> bool {
    false
}

/// Ignores progress.
pub struct Silence(fn(Progress));

impl Default for Silence {
    fn default() -> Self {
        Self(|_| ())
    }
}

/// Plans with the seed 0 and without a stop.
pub fn plan(planner: &dyn Planner, problem: &Problem, objective: Objective) -> Result<Schedule, PlanError> {
    planner.plan(problem, &mut Run::new(objective, &mut Silence::default()))
}
