//! Lower bounds: no schedule of a problem ends earlier or costs less.
//!
//! Time: the longest chain of tasks on their fastest machines without transfers, and the area of all tasks (and of
//! those that cannot start early, and of those that cannot end late) spread over all cores. The area weighs machines by
//! dual prices: for all weights y, the least `Σ min_j y_j·d_ij / Σ y_j·cores_j` is a bound (the dual of the fractional
//! assignment), and some steps of multiplicative weights search good ones.

use crate::id::TaskId;
use crate::objective::{Objective, PlanValue};
use crate::problem::{Problem, Transfers};

/// Rounds that search for better weights of machines; each looks at every task on every machine.
const WEIGHT_ROUNDS: usize = 30;

/// More entries of tasks times machines are not searched for better weights.
const MAX_WEIGHED_ENTRIES: usize = 2_000_000;

/// Lower bounds of a problem.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LowerBounds {
    /// The longest chain of tasks.
    pub critical_path: f64,
    /// All tasks spread over all cores.
    pub area: f64,
    /// The better one.
    pub makespan: f64,
    /// The cheapest machine for each task.
    pub money: f64,
}

impl LowerBounds {
    /// Computes the bounds.
    pub fn of(problem: &Problem) -> Self {
        let least: Vec<_> = problem.tasks().map(|task| least_seconds(problem, task)).collect();
        let (heads, tails) = heads_and_tails(problem, &least);
        let ends = problem.tasks().map(|task| heads[task.index()] + tails[task.index()]);
        let critical_path = ends.fold(0.0, f64::max);
        let area = area(problem, &heads, &tails, &least);
        Self { critical_path, area, makespan: critical_path.max(area), money: least_money(problem) }
    }

    /// The least value of an objective.
    pub fn value(&self, objective: Objective) -> f64 {
        objective.score(PlanValue { makespan: self.makespan, money: self.money }).value
    }
}

/// Seconds that the task occupies a machine at least. Transfers inline count for fixed files, whose places no planner
/// chooses.
fn occupied_seconds(problem: &Problem, task: TaskId, machine: crate::MachineId) -> f64 {
    let compute = problem.compute_seconds(task, machine);
    let Transfers::Inline { local_seconds } = problem.model().transfers else {
        return compute;
    };
    let workflow = problem.workflow();
    let access = |file: &crate::FileId| {
        if workflow.is_fixed(*file) {
            problem.placed_access_seconds(*file, machine)
        } else {
            // An empty file takes no time from another machine, and a very fast network may beat the local access.
            let rate = problem.platform().network.best_rate(problem.machine_count());
            problem.model().round(workflow.file_bytes(*file) / rate).min(local_seconds)
        }
    };
    let transfers = |files: &[crate::FileId]| {
        if files.is_empty() { local_seconds } else { files.iter().map(access).sum() }
    };
    compute + transfers(workflow.inputs(task)) + transfers(workflow.outputs(task))
}

fn least_seconds(problem: &Problem, task: TaskId) -> f64 {
    problem.machines().map(|machine| occupied_seconds(problem, task, machine)).fold(f64::INFINITY, f64::min)
}

/// The earliest start of each task, and the least time from its start to the end of the workflow.
fn heads_and_tails(problem: &Problem, least: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let workflow = problem.workflow();
    let machines = problem.platform().machines.iter();
    let start_up = machines.map(|machine| machine.start_up).fold(f64::INFINITY, f64::min);
    let mut heads = vec![start_up; least.len()];
    let mut tails = least.to_vec();
    for task in workflow.order() {
        for edge in workflow.parents(*task) {
            let ready = heads[edge.task.index()] + least[edge.task.index()];
            heads[task.index()] = heads[task.index()].max(ready);
        }
    }
    for task in workflow.order().iter().rev() {
        for edge in workflow.children(*task) {
            tails[task.index()] = tails[task.index()].max(least[task.index()] + tails[edge.task.index()]);
        }
    }
    (heads, tails)
}

/// Each task's part of the weighed area of all machines.
struct Weighed {
    parts: Vec<f64>,
    capacity: f64,
}

impl Weighed {
    fn bound(&self) -> f64 {
        self.parts.iter().sum::<f64>() / self.capacity
    }
}

fn area(problem: &Problem, heads: &[f64], tails: &[f64], least: &[f64]) -> f64 {
    let weighed = best_weights(problem);
    let share: Vec<_> = weighed.parts.iter().map(|part| part / weighed.capacity).collect();
    let after: Vec<_> = (0..tails.len()).map(|task| tails[task] - least[task]).collect();
    // Tasks that start at `head` or later fit into what follows it; likewise for the least time after the ends.
    staircase(heads, &share).max(staircase(&after, &share))
}

/// The most of `limit + area of all tasks whose limit is at least that`.
fn staircase(limits: &[f64], share: &[f64]) -> f64 {
    let mut tasks: Vec<_> = (0..limits.len()).collect();
    tasks.sort_by(|a, b| limits[*b].total_cmp(&limits[*a]));
    let (mut sum, mut most) = (0.0, 0.0f64);
    for task in tasks {
        sum += share[task];
        most = most.max(limits[task] + sum);
    }
    most
}

fn weigh(problem: &Problem, weights: &[f64], mut load: Option<&mut [f64]>) -> Weighed {
    let mut parts = Vec::with_capacity(problem.task_count());
    for task in problem.tasks() {
        let cores = f64::from(problem.workflow().cores(task));
        let weighed = problem.machines().map(|machine| {
            let seconds = occupied_seconds(problem, task, machine) * cores;
            (seconds * weights[machine.index()], seconds, machine)
        });
        let best = weighed.min_by(|a, b| a.0.total_cmp(&b.0));
        let (part, seconds, machine) = best.unwrap_or((0.0, 0.0, crate::MachineId(0)));
        parts.push(part);
        if let Some(load) = &mut load {
            load[machine.index()] += seconds;
        }
    }
    let machines = problem.platform().machines.iter();
    let capacity = machines.zip(weights).map(|(machine, weight)| f64::from(machine.cores) * weight).sum();
    Weighed { parts, capacity }
}

/// Machines that get more than their share of the load become dearer, the others cheaper.
fn best_weights(problem: &Problem) -> Weighed {
    let machines = problem.machine_count();
    let speeds: Vec<_> = problem.platform().machines.iter().map(|machine| 1.0 / machine.slowdown).collect();
    let mut best = weigh(problem, &vec![1.0; machines], None);
    if machines * problem.task_count() > MAX_WEIGHED_ENTRIES {
        let related = weigh(problem, &speeds, None);
        return if related.bound() > best.bound() { related } else { best };
    }
    let mut weights = speeds;
    for round in 0..WEIGHT_ROUNDS {
        let mut load = vec![0.0; machines];
        let weighed = weigh(problem, &weights, Some(&mut load));
        let per_core = |machine: usize| load[machine] / f64::from(problem.platform().machines[machine].cores);
        let mean = (0..machines).map(per_core).sum::<f64>() / machines as f64;
        if weighed.bound() > best.bound() {
            best = weighed;
        }
        if mean <= 0.0 || !mean.is_finite() {
            break;
        }
        let step = 0.3 / (1.0 + round as f64 / 5.0);
        for (machine, weight) in weights.iter_mut().enumerate() {
            *weight *= 1.0 + step * (per_core(machine) / mean - 1.0).clamp(-0.9, 2.0);
        }
    }
    best
}

/// Every billing counts at least the seconds in which tasks occupy the machine, each with its share of the cores.
fn least_money(problem: &Problem) -> f64 {
    let task_money = |task: TaskId| {
        let on = problem.machines().map(|machine| {
            let node = problem.machine(machine);
            let share = f64::from(problem.workflow().cores(task)) / f64::from(node.cores);
            let seconds = occupied_seconds(problem, task, machine);
            if seconds.is_finite() { seconds * share * node.price } else { f64::INFINITY }
        });
        on.fold(f64::INFINITY, f64::min)
    };
    problem.tasks().map(task_money).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{CostModel, Machine, Platform, Work, WorkflowBuilder};

    #[test]
    fn independent_tasks_fill_all_machines_by_their_speed() {
        let mut builder = WorkflowBuilder::new();
        for _ in 0..30 {
            builder.task("t", Work::cpu(3.0));
        }
        let machines = vec![Machine::with_speed("slow", 1.0), Machine::with_speed("fast", 2.0)];
        let platform = Platform::new(machines);
        let problem = Problem::new(builder.build().unwrap(), platform, CostModel::overlapped()).unwrap();
        let bounds = LowerBounds::of(&problem);
        assert!((bounds.area - 30.0).abs() < 1e-9, "{bounds:?}");
        assert_eq!(bounds.critical_path, 1.5);
        assert_eq!(bounds.makespan, bounds.area);
    }

    #[test]
    fn what_can_only_start_late_adds_to_its_earliest_start() {
        let mut builder = WorkflowBuilder::new();
        let first = builder.task("first", Work::cpu(10.0));
        for _ in 0..8 {
            let task = builder.task("t", Work::cpu(2.0));
            builder.edge(first, task);
        }
        let platform = Platform::new(vec![Machine::with_speed("a", 1.0), Machine::with_speed("b", 1.0)]);
        let problem = Problem::new(builder.build().unwrap(), platform, CostModel::overlapped()).unwrap();
        assert!((LowerBounds::of(&problem).makespan - 18.0).abs() < 1e-9);
    }
}
