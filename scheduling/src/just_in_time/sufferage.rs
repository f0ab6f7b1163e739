//! Sufferage in the batch form of Aguilar 2014, A.1.5, after Maheswaran and others 1999: the task that would end much
//! later on its second best machine goes first. With one machine nobody suffers, and the order is that of Min-Min.

use super::batch::{BatchRule, plan};
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;

/// The Sufferage planner.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sufferage;

impl Planner for Sufferage {
    fn name(&self) -> &'static str {
        "sufferage"
    }

    fn plan(&self, problem: &Problem, _: &mut Run<'_>) -> Result<Schedule, PlanError> {
        plan(problem, BatchRule::Sufferage)
    }
}
