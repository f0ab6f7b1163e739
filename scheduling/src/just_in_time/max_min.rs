//! Max-Min in the batch form of Aguilar 2014, A.1.4, after Maheswaran and others 1999: as Min-Min, but the task whose
//! best end is the latest goes first, so that long tasks do not remain for the end.

use super::batch::{BatchRule, plan};
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;

/// The Max-Min planner.
#[derive(Debug, Clone, Copy, Default)]
pub struct MaxMin;

impl Planner for MaxMin {
    fn name(&self) -> &'static str {
        "max-min"
    }

    fn plan(&self, problem: &Problem, _: &mut Run<'_>) -> Result<Schedule, PlanError> {
        plan(problem, BatchRule::MaxMin)
    }
}
