//! Min-Min in the batch form of Aguilar 2014, A.1.3, after Maheswaran and others 1999: a whole ready set is scheduled
//! before the next one is formed; of all its tasks the one that can end first goes first. Ties: the lowest task, the
//! lowest machine.

use super::batch::{BatchRule, plan};
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;

/// The Min-Min planner.
#[derive(Debug, Clone, Copy, Default)]
pub struct MinMin;

impl Planner for MinMin {
    fn name(&self) -> &'static str {
        "min-min"
    }

    fn plan(&self, problem: &Problem, _: &mut Run<'_>) -> Result<Schedule, PlanError> {
        plan(problem, BatchRule::MinMin)
    }
}
