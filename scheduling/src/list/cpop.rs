//! CPOP (critical path on a processor) of Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002: ready tasks by upward plus
//! downward rank; the tasks of the critical path run on the one machine that computes them all fastest, the others
//! where they end first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::id::{MachineId, TaskId};
use crate::ordered::Ordered;
use crate::partial_schedule::Partial;
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::rank::Ranks;
use crate::schedule::Schedule;
use crate::timeline::Fill;

/// The CPOP planner.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cpop;

impl Planner for Cpop {
    fn name(&self) -> &'static str {
        "cpop"
    }

    fn plan(&self, problem: &Problem, _: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let workflow = problem.workflow();
        let ranks = Ranks::of(problem);
        let priority = |task: TaskId| ranks.upward[task.index()] + ranks.downward[task.index()];
        let path = critical_path(problem, priority);
        let machine = path_machine(problem, &path);
        let mut critical = vec![false; problem.task_count()];
        path.iter().for_each(|task| critical[task.index()] = true);
        let mut waits: Vec<_> = problem.tasks().map(|task| workflow.parents(task).len()).collect();
        let roots = problem.tasks().filter(|task| waits[task.index()] == 0);
        let mut ready: BinaryHeap<_> = roots.map(|task| (Ordered(priority(task)), Reverse(task))).collect();
        let mut partial = Partial::new(problem);
        while let Some((_, Reverse(task))) = ready.pop() {
            let together = machine.filter(|_| critical[task.index()]);
            let candidate = match together.and_then(|machine| partial.candidate(task, machine, Fill::Insert)) {
                Some(candidate) => candidate,
                None => partial.earliest_finish(task, Fill::Insert)?,
            };
            partial.place(task, candidate);
            for edge in workflow.children(task) {
                waits[edge.task.index()] -= 1;
                if waits[edge.task.index()] == 0 {
                    ready.push((Ordered(priority(edge.task)), Reverse(edge.task)));
                }
            }
        }
        partial.into_schedule()
    }
}

/// One path of tasks with the highest priority. Sums of means differ by rounding, so a child with nearly the priority
/// counts.
fn critical_path(problem: &Problem, priority: impl Fn(TaskId) -> f64) -> Vec<TaskId> {
    let workflow = problem.workflow();
    let roots = problem.tasks().filter(|task| workflow.parents(*task).is_empty());
    let mut path: Vec<TaskId> = Vec::new();
    let mut next = roots.min_by_key(|task| (Reverse(Ordered(priority(*task))), *task));
    while let Some(task) = next {
        path.push(task);
        let least = priority(path[0]) * (1.0 - 1e-9);
        let children = workflow.children(task).iter().map(|edge| edge.task);
        next = children.filter(|child| priority(*child) >= least).min();
    }
    path
}

/// The machine that computes the path fastest, if one can compute all of it.
fn path_machine(problem: &Problem, path: &[TaskId]) -> Option<MachineId> {
    let seconds = |machine: &MachineId| path.iter().map(|task| problem.compute_seconds(*task, *machine)).sum::<f64>();
    let machines = problem.machines().filter(|machine| seconds(machine).is_finite());
    machines.min_by(|a, b| seconds(a).total_cmp(&seconds(b)))
}
