//! The hybrid heuristic of Sakellariou and Zhao, IPDPS 2004, as outlined in Aguilar 2014, A.1.7: tasks by upward rank
//! are cut into groups of independent tasks, and a batch algorithm schedules each group. The outline does not name the
//! batch algorithm; here it is Min-Min.

use crate::id::TaskId;
use crate::just_in_time::{BatchRule, schedule_batch};
use crate::partial_schedule::Partial;
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::rank::Ranks;
use crate::schedule::Schedule;

/// The hybrid planner.
#[derive(Debug, Clone, Copy, Default)]
pub struct Hybrid;

impl Planner for Hybrid {
    fn name(&self) -> &'static str {
        "hybrid"
    }

    fn plan(&self, problem: &Problem, _: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let mut partial = Partial::new(problem);
        for group in groups(problem) {
            schedule_batch(&mut partial, &group, BatchRule::MinMin)?;
        }
        partial.into_schedule()
    }
}

/// A task that depends on a task of the current group begins the next group.
fn groups(problem: &Problem) -> Vec<Vec<TaskId>> {
    let workflow = problem.workflow();
    let mut group_of = vec![usize::MAX; problem.task_count()];
    let mut groups: Vec<Vec<TaskId>> = vec![Vec::new()];
    for task in Ranks::of(problem).order(problem) {
        let current = groups.len() - 1;
        // Parents have higher ranks, so every parent is in this group or in an earlier one.
        if workflow.parents(task).iter().any(|edge| group_of[edge.task.index()] == current) {
            groups.push(Vec::new());
        }
        let current = groups.len() - 1;
        group_of[task.index()] = current;
        groups[current].push(task);
    }
    groups
}
