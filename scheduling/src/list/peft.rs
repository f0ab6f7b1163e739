//! PEFT (predict earliest finish time) of Arabnejad and Barbosa, IEEE TPDS 25(3), 2014: a table says for each task and
//! machine how long the rest of the workflow takes at least (optimistically) after the task ran there. Ready tasks go
//! by the mean of their row, each on the machine with the least sum of its end and its entry.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::id::MachineId;
use crate::ordered::Ordered;
use crate::partial_schedule::{Candidate, Partial};
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::rank::Ranks;
use crate::schedule::Schedule;
use crate::timeline::Fill;

/// The table has an entry for each task and machine; more are refused.
const MAX_ENTRIES: usize = 200_000_000;

/// The PEFT planner.
#[derive(Debug, Clone, Copy, Default)]
pub struct Peft;

impl Planner for Peft {
    fn name(&self) -> &'static str {
        "peft"
    }

    fn plan(&self, problem: &Problem, _: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let (workflow, machines) = (problem.workflow(), problem.machine_count());
        let size = problem.task_count() * machines;
        if size > MAX_ENTRIES {
            return Err(PlanError::TooLarge { size, limit: MAX_ENTRIES });
        }
        let table = optimistic_costs(problem);
        let row = |task: crate::TaskId| &table[task.index() * machines..][..machines];
        let rank = |task: crate::TaskId| row(task).iter().sum::<f64>() / machines as f64;
        let mut waits: Vec<_> = problem.tasks().map(|task| workflow.parents(task).len()).collect();
        let roots = problem.tasks().filter(|task| waits[task.index()] == 0);
        let mut ready: BinaryHeap<_> = roots.map(|task| (Ordered(rank(task)), Reverse(task))).collect();
        let mut partial = Partial::new(problem);
        while let Some((_, Reverse(task))) = ready.pop() {
            let candidates = problem.machines().filter_map(|machine| partial.candidate(task, machine, Fill::Insert));
            let total = |candidate: &Candidate| Ordered(candidate.finish + row(task)[candidate.machine.index()]);
            let best = candidates.min_by_key(total).ok_or_else(|| partial.impossible(task))?;
            partial.place(task, best);
            for edge in workflow.children(task) {
                waits[edge.task.index()] -= 1;
                if waits[edge.task.index()] == 0 {
                    ready.push((Ordered(rank(edge.task)), Reverse(edge.task)));
                }
            }
        }
        partial.into_schedule()
    }
}

/// `max over children of min over machines of (the child's entry + its seconds + the mean transfer if the machine
/// changes)`.
fn optimistic_costs(problem: &Problem) -> Vec<f64> {
    let (workflow, machines) = (problem.workflow(), problem.machine_count());
    let ranks = Ranks::of(problem);
    let mut table = vec![0.0f64; problem.task_count() * machines];
    // Of each child: its costs on each machine, and the least of them.
    let mut costs = vec![f64::INFINITY; machines];
    for task in workflow.order().iter().rev() {
        for edge in workflow.children(*task) {
            let child = edge.task.index() * machines;
            for machine in 0..machines {
                let seconds = problem.compute_seconds(edge.task, MachineId::new(machine));
                costs[machine] = table[child + machine] + seconds;
            }
            let least = costs.iter().copied().fold(f64::INFINITY, f64::min) + ranks.transfer(edge.bytes);
            let row = &mut table[task.index() * machines..][..machines];
            for (entry, cost) in row.iter_mut().zip(&costs) {
                *entry = entry.max(cost.min(least));
            }
        }
    }
    table
}
