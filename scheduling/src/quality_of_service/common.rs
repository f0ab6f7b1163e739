//! Limits, cheapest schedules and deadlines of tasks, which these planners share.

use crate::id::{MachineId, TaskId};
use crate::objective::{Objective, PlanValue};
use crate::ordered::Ordered;
use crate::partial_schedule::{Candidate, Partial};
use crate::planner::{PlanError, Run};
use crate::problem::Problem;
use crate::rank::Ranks;
use crate::schedule::Schedule;
use crate::search::solution::{Solution, duration};
use crate::timeline::Fill;

/// The budget of the objective, or else of the problem.
pub(super) fn budget(problem: &Problem, run: &Run<'_>) -> Option<f64> {
    match run.objective {
        Objective::MakespanWithinBudget { budget } => Some(budget),
        _ => problem.limits().budget,
    }
}

/// The deadline of the objective, or else of the problem.
pub(super) fn deadline(problem: &Problem, run: &Run<'_>) -> Option<f64> {
    match run.objective {
        Objective::MoneyWithinDeadline { deadline } => Some(deadline),
        _ => problem.limits().deadline,
    }
}

/// The schedule if it keeps the limit.
pub(super) fn within_deadline(schedule: Schedule, deadline: f64) -> Result<Schedule, PlanError> {
    if schedule.makespan() <= deadline * (1.0 + 1e-9) {
        Ok(schedule)
    } else {
        Err(PlanError::LimitMissed { what: "deadline", limit: deadline })
    }
}

/// Places all tasks by rank; `choose` picks among the machines.
pub(super) fn by_rank(
    problem: &Problem,
    mut choose: impl FnMut(&Partial<'_>, TaskId, &[Candidate]) -> Option<Candidate>,
) -> Result<Schedule, PlanError> {
    let mut partial = Partial::new(problem);
    for task in Ranks::of(problem).order(problem) {
        let candidates: Vec<_> =
            problem.machines().filter_map(|machine| partial.candidate(task, machine, Fill::Insert)).collect();
        let candidate = choose(&partial, task, &candidates).ok_or_else(|| partial.impossible(task))?;
        partial.place(task, candidate);
    }
    partial.into_schedule()
}

/// The candidate that adds least to the bill; among equals the one that ends first.
pub(super) fn cheapest(partial: &Partial<'_>, task: TaskId, candidates: &[Candidate]) -> Option<Candidate> {
    let key = |candidate: &&Candidate| (Ordered(partial.added_money(task, candidate)), Ordered(candidate.finish));
    candidates.iter().min_by_key(key).copied()
}

/// The candidate that ends first.
pub(super) fn earliest(candidates: &[Candidate]) -> Option<Candidate> {
    candidates.iter().min_by_key(|candidate| Ordered(candidate.finish)).copied()
}

/// Every task on the machine that is cheapest for it.
pub(super) fn cheapest_schedule(problem: &Problem) -> Result<Schedule, PlanError> {
    by_rank(problem, cheapest)
}

/// The least seconds of each task on any machine.
pub(super) fn least_seconds(problem: &Problem) -> Vec<f64> {
    let least =
        |task| problem.machines().map(|machine| problem.compute_seconds(task, machine)).fold(f64::INFINITY, f64::min);
    problem.tasks().map(least).collect()
}

/// A part of the deadline for each task: as much of it as the longest way to the end of the task, with least seconds
/// and mean transfers, is of the longest way of all.
pub(super) fn task_deadlines(problem: &Problem, deadline: f64) -> Vec<f64> {
    let (workflow, ranks) = (problem.workflow(), Ranks::of(problem));
    let least = least_seconds(problem);
    let mut ends = vec![0.0f64; problem.task_count()];
    for task in workflow.order() {
        let ready = workflow.parents(*task).iter().map(|edge| ends[edge.task.index()] + ranks.transfer(edge.bytes));
        ends[task.index()] = ready.fold(0.0, f64::max) + least[task.index()];
    }
    // What follows a task counts, too, so that tasks aside of the critical path get their slack.
    let mut tails = vec![0.0f64; problem.task_count()];
    for task in workflow.order().iter().rev() {
        let after = workflow
            .children(*task)
            .iter()
            .map(|edge| ranks.transfer(edge.bytes) + least[edge.task.index()] + tails[edge.task.index()]);
        tails[task.index()] = after.fold(0.0, f64::max);
    }
    let part = |task: TaskId| {
        let (end, tail) = (ends[task.index()], tails[task.index()]);
        if end + tail > 0.0 { deadline * end / (end + tail) } else { deadline }
    };
    problem.tasks().map(part).collect()
}

/// A task on another machine: how much longer it takes there, and how much less it costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reassignment {
    pub(super) task: TaskId,
    pub(super) machine: MachineId,
    pub(super) more_seconds: f64,
    pub(super) less_money: f64,
}

/// All reassignments of a solution that change the money of the task alone.
pub(super) fn reassignments(problem: &Problem, solution: &Solution) -> Vec<Reassignment> {
    let cost = |task: TaskId, machine: MachineId| {
        let seconds = duration(problem, task, machine, &solution.homes);
        (seconds, seconds * problem.machine(machine).price)
    };
    let mut all = Vec::new();
    for task in problem.tasks() {
        let now = solution.machines[task.index()];
        let (seconds, money) = cost(task, now);
        for machine in problem.machines().filter(|machine| *machine != now && problem.can_run(task, *machine)) {
            let (other_seconds, other_money) = cost(task, machine);
            let (more_seconds, less_money) = (other_seconds - seconds, money - other_money);
            all.push(Reassignment { task, machine, more_seconds, less_money });
        }
    }
    all
}

/// Makes reassignments in order while `wanted` says so of the value before and after each; those that are not wanted
/// are skipped.
pub(super) fn reassign(
    problem: &Problem,
    mut solution: Solution,
    moves: &[Reassignment],
    done: impl Fn(&PlanValue) -> bool,
    wanted: impl Fn(&PlanValue, &PlanValue) -> bool,
) -> Schedule {
    let mut schedule = solution.decode(problem);
    let mut value = PlanValue::of(problem, &schedule);
    for change in moves {
        if done(&value) {
            break;
        }
        let before = std::mem::replace(&mut solution.machines[change.task.index()], change.machine);
        let changed = solution.decode(problem);
        let after = PlanValue::of(problem, &changed);
        if wanted(&value, &after) && crate::validate::validate(problem, &changed).is_ok() {
            (schedule, value) = (changed, after);
        } else {
            solution.machines[change.task.index()] = before;
        }
    }
    schedule
}
