//! Deadline distribution after Yu, Buyya and Tham 2005: the deadline is distributed over the tasks, and each task runs
//! on the cheapest machine that keeps its part. A task that cannot keep its part runs where it ends first.

use super::common::{by_rank, cheapest, cheapest_schedule, deadline, earliest, task_deadlines, within_deadline};
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;

/// The deadline distribution planner. Without a deadline it makes the cheapest schedule.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeadlineDistribution;

impl Planner for DeadlineDistribution {
    fn name(&self) -> &'static str {
        "deadline-distribution"
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let Some(limit) = deadline(problem, run) else {
            return cheapest_schedule(problem);
        };
        let parts = task_deadlines(problem, limit);
        let schedule = by_rank(problem, |partial, task, candidates| {
            let in_time: Vec<_> =
                candidates.iter().filter(|candidate| candidate.finish <= parts[task.index()]).copied().collect();
            if in_time.is_empty() { earliest(candidates) } else { cheapest(partial, task, &in_time) }
        })?;
        within_deadline(schedule, limit)
    }
}
