//! GAIN of Sakellariou, Zhao, Tsiakkouri and Dikaiakos 2007: from the cheapest schedule, the reassignments that gain
//! most time for their money, as long as the budget holds.

use super::common::{budget, cheapest_schedule, reassign, reassignments};
use crate::objective::PlanValue;
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::search::solution::Solution;

/// The GAIN planner. Without a budget it takes every gain.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gain;

impl Planner for Gain {
    fn name(&self) -> &'static str {
        "gain"
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let limit = budget(problem, run).unwrap_or(f64::INFINITY);
        let cheapest = cheapest_schedule(problem)?;
        if PlanValue::of(problem, &cheapest).money > limit {
            return Err(PlanError::LimitMissed { what: "budget", limit });
        }
        let solution = Solution::of_schedule(problem, &cheapest);
        let mut moves = reassignments(problem, &solution);
        moves.retain(|change| change.more_seconds < 0.0);
        // Time that costs nothing comes first.
        let gain = |seconds: f64, money: f64| if money > 0.0 { -seconds / money } else { f64::INFINITY };
        moves.sort_by(|a, b| gain(b.more_seconds, -b.less_money).total_cmp(&gain(a.more_seconds, -a.less_money)));
        let within = |before: &PlanValue, after: &PlanValue| after.money <= limit && after.makespan <= before.makespan;
        let schedule = reassign(problem, solution, &moves, |_| false, within);
        // Decoding may cost more than the cheapest schedule where rental depends on gaps.
        if PlanValue::of(problem, &schedule).money <= limit { Ok(schedule) } else { Ok(cheapest) }
    }
}
