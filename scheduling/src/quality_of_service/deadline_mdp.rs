//! Deadline-MDP after Yu, Buyya and Tham 2005: the workflow is cut into chains; each chain gets a part of the deadline,
//! and a decision process over its tasks finds the cheapest machines that keep it. Single tasks are chains of one.
//!
//! Time is cut into steps of a chain's part, rounded up, so a chain that fits by steps fits in time.

use super::common::{
    by_rank, cheapest, cheapest_schedule, deadline, earliest, least_seconds, task_deadlines, within_deadline,
};
use crate::id::{MachineId, TaskId};
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;

/// Steps of a chain's part of the deadline.
const STEPS: usize = 200;

/// The Deadline-MDP planner. Without a deadline it makes the cheapest schedule.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeadlineMdp;

impl Planner for DeadlineMdp {
    fn name(&self) -> &'static str {
        "deadline-mdp"
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let Some(limit) = deadline(problem, run) else {
            return cheapest_schedule(problem);
        };
        let parts = task_deadlines(problem, limit);
        let chosen = machines(problem, &parts);
        let schedule = by_rank(problem, |partial, task, candidates| {
            let wanted = candidates.iter().find(|candidate| Some(candidate.machine) == chosen[task.index()]).copied();
            let in_time = |candidate: &crate::partial_schedule::Candidate| candidate.finish <= parts[task.index()];
            if let Some(candidate) = wanted.filter(in_time) {
                return Some(candidate);
            }
            // The machine is busy: the cheapest one that is in time, or the first one to end.
            let others: Vec<_> = candidates.iter().copied().filter(in_time).collect();
            if others.is_empty() { earliest(candidates) } else { cheapest(partial, task, &others) }
        })?;
        within_deadline(schedule, limit)
    }
}

/// Chains of tasks that have one child whose only parent they are.
fn chains(problem: &Problem) -> Vec<Vec<TaskId>> {
    let workflow = problem.workflow();
    let follower = |task: TaskId| match workflow.children(task) {
        [edge] if workflow.parents(edge.task).len() == 1 => Some(edge.task),
        _ => None,
    };
    let begins = |task: &TaskId| match workflow.parents(*task) {
        [edge] => follower(edge.task) != Some(*task),
        _ => true,
    };
    let chain = |first| std::iter::successors(Some(first), |task| follower(*task)).collect();
    problem.tasks().filter(begins).map(chain).collect()
}

fn machines(problem: &Problem, parts: &[f64]) -> Vec<Option<MachineId>> {
    let least = least_seconds(problem);
    let mut chosen = vec![None; problem.task_count()];
    for chain in chains(problem) {
        let (Some(first), Some(last)) = (chain.first(), chain.last()) else {
            continue;
        };
        let parents = problem.workflow().parents(*first).iter().map(|edge| parts[edge.task.index()]);
        let begin = parents.fold(0.0, f64::max);
        let needed: f64 = chain.iter().map(|task| least[task.index()]).sum();
        let seconds = (parts[last.index()] - begin).max(needed);
        for (task, machine) in chain.iter().zip(decide(problem, &chain, seconds)) {
            chosen[task.index()] = Some(machine);
        }
    }
    chosen
}

/// The cheapest machines for a chain within some seconds; empty if there are none.
fn decide(problem: &Problem, chain: &[TaskId], seconds: f64) -> Vec<MachineId> {
    let step = (seconds / STEPS as f64).max(f64::MIN_POSITIVE);
    // For each task from the last one backwards and each number of steps left: the least cost, and the machine that has
    // it.
    let mut cost = vec![0.0; STEPS + 1];
    let mut decisions: Vec<Vec<Option<(MachineId, usize)>>> = Vec::new();
    for task in chain.iter().rev() {
        let options: Vec<_> = problem
            .machines()
            .filter(|machine| problem.can_run(*task, *machine))
            .map(|machine| {
                let seconds = problem.compute_seconds(*task, machine);
                (machine, (seconds / step).ceil() as usize, seconds * problem.machine(machine).price)
            })
            .collect();
        let (mut next, mut decided) = (vec![f64::INFINITY; STEPS + 1], vec![None; STEPS + 1]);
        for left in 0..=STEPS {
            for (machine, steps, money) in options.iter().filter(|option| option.1 <= left) {
                let total = money + cost[left - steps];
                if total < next[left] {
                    next[left] = total;
                    decided[left] = Some((*machine, *steps));
                }
            }
        }
        cost = next;
        decisions.push(decided);
    }
    let mut left = STEPS;
    let mut machines = Vec::with_capacity(chain.len());
    for decided in decisions.iter().rev() {
        let Some((machine, steps)) = decided[left] else {
            return Vec::new();
        };
        machines.push(machine);
        left -= steps;
    }
    machines
}
