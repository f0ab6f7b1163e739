//! Back-tracking after Menascé and Casalicchio 2004: tasks run on their cheapest machines; while the deadline is
//! missed, the search goes back from the last task along what it waited for and gives a faster machine to the first
//! task that can have one.

use super::common::{cheapest_schedule, deadline, within_deadline};
use crate::id::TaskId;
use crate::objective::PlanValue;
use crate::ordered::Ordered;
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::search::solution::Solution;

/// The back-tracking planner. Without a deadline it makes the cheapest schedule.
#[derive(Debug, Clone, Copy, Default)]
pub struct BackTracking;

impl Planner for BackTracking {
    fn name(&self) -> &'static str {
        "back-tracking"
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let mut schedule = cheapest_schedule(problem)?;
        let Some(limit) = deadline(problem, run) else {
            return Ok(schedule);
        };
        let mut solution = Solution::of_schedule(problem, &schedule);
        // Every step shortens the schedule, so there are not many; the stop bounds them on huge problems.
        while schedule.makespan() > limit && !(run.stop)() {
            match faster(problem, &solution, &schedule) {
                Some((better, shorter)) => (solution, schedule) = (better, shorter),
                None => break,
            }
        }
        within_deadline(schedule, limit)
    }
}

/// The first task from the end backwards that has a machine which shortens the schedule: the cheapest of these
/// machines.
fn faster(problem: &Problem, solution: &Solution, schedule: &Schedule) -> Option<(Solution, Schedule)> {
    for task in waiting_chain(problem, schedule) {
        let now = solution.machines[task.index()];
        let others = problem.machines().filter(|machine| *machine != now && problem.can_run(task, *machine));
        let shorter = others.filter_map(|machine| {
            let mut changed = solution.clone();
            changed.machines[task.index()] = machine;
            let decoded = changed.decode(problem);
            let value = PlanValue::of(problem, &decoded);
            let valid = value.makespan < schedule.makespan() * (1.0 - 1e-9)
                && crate::validate::validate(problem, &decoded).is_ok();
            valid.then_some((Ordered(value.money), changed, decoded))
        });
        let best = shorter.min_by_key(|(money, ..)| *money);
        if let Some((_, changed, decoded)) = best {
            return Some((changed, decoded));
        }
    }
    None
}

/// The last task and what it waited for, one after the other: the parent or the task of its machine that ended last.
fn waiting_chain(problem: &Problem, schedule: &Schedule) -> Vec<TaskId> {
    let finish = |task: &TaskId| Ordered(schedule.placement(*task).finish);
    let mut chain = Vec::new();
    let mut next = problem.tasks().max_by_key(finish);
    while let Some(task) = next {
        chain.push(task);
        let placement = schedule.placement(task);
        let parents = problem.workflow().parents(task).iter().map(|edge| edge.task);
        let before = problem.tasks().filter(|other| {
            let other_placement = schedule.placement(*other);
            *other != task
                && other_placement.machine == placement.machine
                && other_placement.finish <= placement.start
                && other_placement.finish < placement.finish
        });
        next = parents.chain(before).max_by_key(finish);
        if chain.len() > problem.task_count() {
            break;
        }
    }
    chain
}
