//! TANH (task duplication-based scheduling for networks of heterogeneous systems) after Bajaj and Agrawal, IEEE TPDS
//! 15(2), 2004, as outlined in Aguilar 2014, A.1.8: favourite predecessors form clusters; if there are more clusters
//! than machines they share machines, otherwise tasks run twice where that saves a transfer.
//!
//! The outline leaves out the rules, so these are ours: the favourite predecessor is the parent whose data arrive last
//! with mean times; clusters grow from the ends of the workflow backwards; large clusters choose their machine first,
//! the one with the least load after it. Transfers inline have no duplicates.

use crate::id::{MachineId, TaskId};
use crate::partial_schedule::{Candidate, Partial};
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::rank::Ranks;
use crate::schedule::Schedule;
use crate::timeline::Fill;

/// The TANH planner.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tanh;

impl Planner for Tanh {
    fn name(&self) -> &'static str {
        "tanh"
    }

    fn plan(&self, problem: &Problem, _: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let ranks = Ranks::of(problem);
        let favourites = favourites(problem, &ranks);
        let clusters = clusters(problem, &ranks, &favourites);
        let machines = assign(problem, &clusters);
        let duplicate = clusters.len() < problem.machine_count() && !problem.places_files();
        let mut partial = Partial::new(problem);
        for task in ranks.order(problem) {
            let own = partial.candidate(task, machines[task.index()], Fill::Insert);
            let mut candidate = match own {
                Some(candidate) => candidate,
                None => partial.earliest_finish(task, Fill::Insert)?,
            };
            if let Some(favourite) = favourites[task.index()].filter(|_| duplicate) {
                candidate = with_duplicate(&mut partial, task, favourite, candidate);
            }
            partial.place(task, candidate);
        }
        partial.into_schedule()
    }
}

/// The parent of each task whose data arrive last.
fn favourites(problem: &Problem, ranks: &Ranks) -> Vec<Option<TaskId>> {
    let workflow = problem.workflow();
    let arrival = |edge: &crate::problem::Edge| {
        let parent = edge.task.index();
        ranks.downward[parent] + ranks.compute[parent] + ranks.transfer(edge.bytes)
    };
    let favourite = |task: TaskId| workflow.parents(task).iter().max_by(|a, b| arrival(a).total_cmp(&arrival(b)));
    problem.tasks().map(|task| favourite(task).map(|edge| edge.task)).collect()
}

/// Chains of favourite predecessors, from the tasks near the end of the workflow backwards.
fn clusters(problem: &Problem, ranks: &Ranks, favourites: &[Option<TaskId>]) -> Vec<Vec<TaskId>> {
    let mut taken = vec![false; problem.task_count()];
    let mut clusters = Vec::new();
    for last in ranks.order(problem).into_iter().rev() {
        let mut cluster = Vec::new();
        let mut next = Some(last);
        while let Some(task) = next.filter(|task| !taken[task.index()]) {
            taken[task.index()] = true;
            cluster.push(task);
            next = favourites[task.index()];
        }
        if !cluster.is_empty() {
            clusters.push(cluster);
        }
    }
    clusters
}

/// The machine of each task. A machine that cannot run a task of the cluster does not count its seconds.
fn assign(problem: &Problem, clusters: &[Vec<TaskId>]) -> Vec<MachineId> {
    let finite = |seconds: f64| if seconds.is_finite() { seconds } else { 0.0 };
    let seconds = |cluster: &[TaskId], machine: MachineId| {
        let impossible = cluster.iter().filter(|task| !problem.can_run(**task, machine)).count();
        let sum: f64 = cluster.iter().map(|task| finite(problem.compute_seconds(*task, machine))).sum();
        (impossible, sum / f64::from(problem.machine(machine).cores))
    };
    let mut order: Vec<_> = clusters.iter().collect();
    order.sort_by_key(|cluster| std::cmp::Reverse(cluster.len()));
    let mut load = vec![0.0; problem.machine_count()];
    let mut machines = vec![MachineId(0); problem.task_count()];
    for cluster in order {
        let key = |machine: &MachineId| {
            let (impossible, seconds) = seconds(cluster, *machine);
            (impossible, crate::ordered::Ordered(load[machine.index()] + seconds))
        };
        let Some(machine) = problem.machines().min_by_key(key) else {
            continue;
        };
        load[machine.index()] += seconds(cluster, machine).1;
        cluster.iter().for_each(|task| machines[task.index()] = machine);
    }
    machines
}

/// Runs the favourite once more on the machine of the task if the task can start earlier then.
fn with_duplicate(partial: &mut Partial<'_>, task: TaskId, favourite: TaskId, candidate: Candidate) -> Candidate {
    let elsewhere = partial.placement(favourite).is_some_and(|placement| placement.machine != candidate.machine);
    if !elsewhere {
        return candidate;
    }
    let Some(copy) = partial.candidate(favourite, candidate.machine, Fill::Insert) else {
        return candidate;
    };
    if copy.finish >= candidate.start {
        return candidate;
    }
    let mut trial = partial.clone();
    trial.duplicate(favourite, copy);
    match trial.candidate(task, candidate.machine, Fill::Insert) {
        Some(better) if better.finish < candidate.finish => {
            *partial = trial;
            better
        }
        _ => candidate,
    }
}
