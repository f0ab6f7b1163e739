//! LOSS of Sakellariou, Zhao, Tsiakkouri and Dikaiakos 2007: from the schedule of HEFT, the reassignments that lose
//! least time for the money that they save, until the budget holds.

use super::common::{budget, cheapest_schedule, reassign, reassignments};
use crate::list::Heft;
use crate::objective::PlanValue;
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::search::solution::Solution;

/// The LOSS planner. Without a budget it is HEFT.
#[derive(Debug, Clone, Copy, Default)]
pub struct Loss;

impl Planner for Loss {
    fn name(&self) -> &'static str {
        "loss"
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let fastest = Heft::default().plan(problem, run)?;
        let Some(limit) = budget(problem, run) else {
            return Ok(fastest);
        };
        let solution = Solution::of_schedule(problem, &fastest);
        let mut moves = reassignments(problem, &solution);
        moves.retain(|change| change.less_money > 0.0);
        moves.sort_by(|a, b| (a.more_seconds / a.less_money).total_cmp(&(b.more_seconds / b.less_money)));
        let holds = |value: &PlanValue| value.money <= limit;
        let schedule = reassign(problem, solution, &moves, holds, |before, after| after.money < before.money);
        if PlanValue::of(problem, &schedule).money <= limit {
            return Ok(schedule);
        }
        let cheapest = cheapest_schedule(problem)?;
        if PlanValue::of(problem, &cheapest).money <= limit {
            Ok(cheapest)
        } else {
            Err(PlanError::LimitMissed { what: "budget", limit })
        }
    }
}
