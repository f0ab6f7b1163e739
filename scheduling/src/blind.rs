//! The blind planner of Aguilar 2016, chapter 3: it says how many machines of which kind to rent, and plans on them.
//!
//! Tasks of equal depth form a segment. A dynamic programme packs the tasks of each segment into machines: tasks by
//! descending work, kinds of machine by descending speed, and the next tasks share a machine as far as its cores go.
//! The number of machines of a kind is the most that any segment needs; the k-th machine of a kind is the same in all
//! segments.
//!
//! The pseudocode in print never adds the cost of a packing, has no base case, and returns nothing; here is what it
//! means. The text allows idle cores, the code does not: both are options. There are no transfers and no start-up
//! times.

use crate::id::{MachineId, TaskId};
use crate::ordered::Ordered;
use crate::problem::{Billing, CostModel, Machine, Platform, Problem, ProblemError, Workflow};
use crate::schedule::{Placement, Schedule};

/// What the packing of a segment makes small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlindCost {
    /// The price of each machine for the longest of its tasks.
    Money,
    /// The longest task of each machine.
    Time,
}

/// Whether a packing may leave cores of a machine without a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdleCores {
    /// It may, as in the text.
    Allowed,
    /// Every core gets a task, as in the code, unless no kind of machine is small enough for the last tasks of a
    /// segment.
    Avoided,
}

/// A machine to rent.
#[derive(Debug, Clone, PartialEq)]
pub struct RentedMachine {
    /// Its kind, as an index.
    pub kind: usize,
    /// Its used cores, each of which is a machine of the problem.
    pub cores: Vec<MachineId>,
}

/// What to rent, and the plan on it.
#[derive(Debug, Clone)]
pub struct Rental {
    /// The workflow on the rented cores. Every used core is a machine of its own, paid from time 0 to its last use.
    pub problem: Problem,
    /// The plan: each task starts when its core and its parents are done.
    pub schedule: Schedule,
    /// The rented machines.
    pub machines: Vec<RentedMachine>,
    pub(crate) prices: Vec<f64>,
}

impl Rental {
    /// How many machines of a kind to rent.
    pub fn count(&self, kind: usize) -> usize {
        self.machines.iter().filter(|machine| machine.kind == kind).count()
    }

    /// What a schedule on the rented cores costs if each machine is paid from its first to its last use: the text of
    /// the thesis. [`crate::objective::money`] gives the cost of its code, in which each core is paid from time 0 on.
    pub fn machine_money(&self, schedule: &Schedule) -> f64 {
        let mut owner = vec![0; self.problem.machine_count()];
        for (index, machine) in self.machines.iter().enumerate() {
            machine.cores.iter().for_each(|core| owner[core.index()] = index);
        }
        let mut uses = vec![(f64::INFINITY, 0.0f64); self.machines.len()];
        for (_, placement) in schedule.runs() {
            let (first, last) = &mut uses[owner[placement.machine.index()]];
            *first = first.min(placement.start);
            *last = last.max(placement.finish);
        }
        let rented = uses.iter().zip(&self.machines).filter(|((first, _), _)| first.is_finite());
        rented.map(|((first, last), machine)| (last - first) * self.prices[machine.kind]).sum()
    }
}

/// Decides what to rent of some kinds of machine. There must be a kind.
pub fn rent(workflow: &Workflow, kinds: &[Machine], cost: BlindCost, idle: IdleCores) -> Result<Rental, ProblemError> {
    if kinds.is_empty() {
        return Err(ProblemError::NoMachines);
    }
    let mut by_speed: Vec<_> = (0..kinds.len()).collect();
    by_speed.sort_by(|a, b| kinds[*a].slowdown.total_cmp(&kinds[*b].slowdown));
    let mut machines: Vec<RentedMachine> = Vec::new();
    let mut core_of = vec![MachineId(0); workflow.task_count()];
    let mut cores = 0;
    for segment in segments(workflow) {
        let mut used = vec![0; kinds.len()];
        for (kind, tasks) in pack(workflow, kinds, &by_speed, &segment, cost, idle) {
            // The k-th machine of a kind is the same in all segments.
            let nth = machines.iter().enumerate().filter(|(_, machine)| machine.kind == kind).nth(used[kind]);
            let index = nth.map_or(machines.len(), |(index, _)| index);
            used[kind] += 1;
            if index == machines.len() {
                machines.push(RentedMachine { kind, cores: Vec::new() });
            }
            for (core, task) in tasks.iter().enumerate() {
                if core == machines[index].cores.len() {
                    machines[index].cores.push(MachineId::new(cores));
                    cores += 1;
                }
                core_of[task.index()] = machines[index].cores[core];
            }
        }
    }
    let mut core_machines = vec![None; cores];
    for (number, machine) in machines.iter().enumerate() {
        for core in &machine.cores {
            let kind = &kinds[machine.kind];
            let name = format!("{}-{number}-{}", kind.name, core.0);
            let node = Machine { name, cores: 1, billing: Billing::RentalFromStart, start_up: 0.0, ..kind.clone() };
            core_machines[core.index()] = Some(node);
        }
    }
    let mut platform: Vec<Machine> = core_machines.into_iter().flatten().collect();
    if platform.is_empty() {
        platform.push(Machine { cores: 1, ..kinds[0].clone() });
    }
    let problem = Problem::new(workflow.clone(), Platform::new(platform), CostModel::overlapped())?;
    let schedule = plan(&problem, &core_of);
    let prices = kinds.iter().map(|kind| kind.price).collect();
    Ok(Rental { problem, schedule, machines, prices })
}

/// Tasks by their depth, each segment by descending work.
fn segments(workflow: &Workflow) -> Vec<Vec<TaskId>> {
    let mut depth = vec![0; workflow.task_count()];
    let mut segments: Vec<Vec<TaskId>> = Vec::new();
    for task in workflow.order() {
        let level = workflow.parents(*task).iter().map(|edge| depth[edge.task.index()] + 1).max().unwrap_or(0);
        depth[task.index()] = level;
        if segments.len() <= level {
            segments.resize(level + 1, Vec::new());
        }
        segments[level].push(*task);
    }
    for segment in &mut segments {
        segment.sort_by_key(|task| (std::cmp::Reverse(Ordered(workflow.cpu_seconds(*task))), *task));
    }
    segments
}

/// Machines for a segment, each with its tasks: `least(i) = min over kinds of (cost of the next tasks there + least(i +
/// cores))`.
fn pack(
    workflow: &Workflow,
    kinds: &[Machine],
    by_speed: &[usize],
    segment: &[TaskId],
    cost: BlindCost,
    idle: IdleCores,
) -> Vec<(usize, Vec<TaskId>)> {
    let mut least = vec![0.0; segment.len() + 1];
    let mut choice = vec![0; segment.len()];
    for first in (0..segment.len()).rev() {
        least[first] = f64::INFINITY;
        let rest = segment.len() - first;
        let full = |kind: &usize| kinds[*kind].cores as usize <= rest;
        let choose_full = idle == IdleCores::Avoided && by_speed.iter().any(full);
        for kind in by_speed.iter().filter(|kind| !choose_full || full(kind)) {
            let node = &kinds[*kind];
            let end = (first + node.cores as usize).min(segment.len());
            // Tasks are sorted, so the first one is the longest.
            let seconds = workflow.cpu_seconds(segment[first]) * node.slowdown;
            let own = if cost == BlindCost::Money { seconds * node.price } else { seconds };
            if own + least[end] < least[first] {
                least[first] = own + least[end];
                choice[first] = *kind;
            }
        }
    }
    let mut packed = Vec::new();
    let mut first = 0;
    while first < segment.len() {
        let kind = choice[first];
        let end = (first + kinds[kind].cores as usize).min(segment.len());
        packed.push((kind, segment[first..end].to_vec()));
        first = end;
    }
    packed
}

fn plan(problem: &Problem, core_of: &[MachineId]) -> Schedule {
    let workflow = problem.workflow();
    let mut free = vec![0.0f64; problem.machine_count()];
    let mut tasks = vec![Placement { machine: MachineId(0), start: 0.0, finish: 0.0 }; problem.task_count()];
    for task in segments(workflow).iter().flatten() {
        let machine = core_of[task.index()];
        let parents = workflow.parents(*task).iter().map(|edge| tasks[edge.task.index()].finish);
        let start = parents.fold(free[machine.index()], f64::max);
        let finish = start + problem.compute_seconds(*task, machine);
        free[machine.index()] = finish;
        tasks[task.index()] = Placement { machine, start, finish };
    }
    Schedule::of_tasks(problem, tasks)
}
