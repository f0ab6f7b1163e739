//! Randomised construction of Stockinger 2020, Algorithms 5 and 11: of all triples of a ready task, a machine and a
//! machine for its output files, one of the best is taken at random.
//!
//! The cost of a triple is the objective of the partial schedule with it. The paper's Algorithm 12 adds increments to
//! the objective instead of to the money, which cannot be meant.

use super::solution::Solution;
use crate::id::{FileId, MachineId, TaskId};
use crate::objective::{Objective, PlanValue};
use crate::problem::Problem;
use crate::seeded_random::SeededRandom;

/// More triples than this, and outputs stay with their task.
const MAX_TRIPLES: usize = 100_000;

/// A task, its machine, the machine of its outputs, and the value of the partial schedule with them.
#[derive(Clone, Copy)]
struct Triple {
    cost: f64,
    task: TaskId,
    machine: MachineId,
    home: MachineId,
    start: f64,
    finish: f64,
}

struct Construction<'p> {
    problem: &'p Problem,
    objective: Objective,
    free: Vec<f64>,
    finish: Vec<f64>,
    homes: Vec<Option<MachineId>>,
    machines: Vec<MachineId>,
    order: Vec<TaskId>,
    makespan: f64,
    money: f64,
}

/// Constructs a solution; `alpha` is the part of all triples among which one is taken. Cores beyond the first of a
/// machine are not seen here; the decoded schedule uses them.
pub(super) fn construct(problem: &Problem, objective: Objective, alpha: f64, random: &mut SeededRandom) -> Solution {
    let workflow = problem.workflow();
    let mut state = Construction {
        problem,
        objective,
        free: problem.platform().machines.iter().map(|node| node.start_up).collect(),
        finish: vec![0.0; problem.task_count()],
        homes: vec![None; workflow.file_count()],
        machines: vec![MachineId(0); problem.task_count()],
        order: Vec::with_capacity(problem.task_count()),
        makespan: 0.0,
        money: 0.0,
    };
    let mut waits: Vec<_> = problem.tasks().map(|task| workflow.parents(task).len()).collect();
    let mut ready: Vec<_> = problem.tasks().filter(|task| waits[task.index()] == 0).collect();
    let mut triples = Vec::new();
    while !ready.is_empty() {
        triples.clear();
        let machines = problem.machine_count();
        let free_homes = problem.places_files() && ready.len() * machines * machines <= MAX_TRIPLES;
        for task in &ready {
            state.triples_of(*task, free_homes, &mut triples);
        }
        if triples.is_empty() {
            break;
        }
        let among = ((alpha * triples.len() as f64) as usize).max(1);
        let taken = random.below(among);
        let (_, triple, _) = triples.select_nth_unstable_by(taken, |a, b| {
            a.cost.total_cmp(&b.cost).then((b.task, b.machine, b.home).cmp(&(a.task, a.machine, a.home)))
        });
        let triple = *triple;
        state.take(triple);
        ready.retain(|task| *task != triple.task);
        for edge in workflow.children(triple.task) {
            waits[edge.task.index()] -= 1;
            if waits[edge.task.index()] == 0 {
                ready.push(edge.task);
            }
        }
    }
    Solution {
        order: state.order,
        machines: state.machines,
        homes: state.homes.into_iter().map(|home| home.unwrap_or(MachineId(0))).collect(),
    }
}

impl Construction<'_> {
    fn triples_of(&self, task: TaskId, free_homes: bool, triples: &mut Vec<Triple>) {
        let (problem, workflow) = (self.problem, self.problem.workflow());
        for machine in problem.machines() {
            let compute = problem.compute_seconds(task, machine);
            if !compute.is_finite() {
                continue;
            }
            let mut start = self.free[machine.index()].max(super::solution::release(problem, task, machine));
            for edge in workflow.parents(task) {
                let from = self.machines[edge.task.index()];
                let way =
                    if problem.places_files() { 0.0 } else { problem.transfer_seconds(edge.bytes, from, machine) };
                start = start.max(self.finish[edge.task.index()] + way);
            }
            let reads = self.transfers(workflow.inputs(task), machine, machine);
            let price = problem.machine(machine).price;
            let homes = if free_homes { 0..problem.machine_count() } else { machine.index()..machine.index() + 1 };
            for home in homes.map(MachineId::new) {
                let finish = start + reads + compute + self.transfers(workflow.outputs(task), machine, home);
                let value =
                    PlanValue { makespan: self.makespan.max(finish), money: self.money + (finish - start) * price };
                let cost = self.objective.score(value).scalar();
                triples.push(Triple { cost, task, machine, home, start, finish });
            }
        }
    }

    fn transfers(&self, files: &[FileId], machine: MachineId, home: MachineId) -> f64 {
        let problem = self.problem;
        if !problem.places_files() {
            return 0.0;
        }
        if files.is_empty() {
            return problem.model().local_seconds();
        }
        let access = |file: &FileId| {
            if problem.workflow().is_fixed(*file) {
                problem.placed_access_seconds(*file, machine)
            } else {
                problem.access_seconds(*file, machine, self.homes[file.index()].unwrap_or(home))
            }
        };
        files.iter().map(access).sum()
    }

    fn take(&mut self, triple: Triple) {
        let workflow = self.problem.workflow();
        let Triple { task, machine, home, start, finish, .. } = triple;
        // The first one that touches a file decides its place.
        for (files, place) in [(workflow.inputs(task), machine), (workflow.outputs(task), home)] {
            for file in files.iter().filter(|file| !workflow.is_fixed(**file)) {
                self.homes[file.index()].get_or_insert(place);
            }
        }
        self.free[machine.index()] = finish;
        self.finish[task.index()] = finish;
        self.machines[task.index()] = machine;
        self.order.push(task);
        self.makespan = self.makespan.max(finish);
        self.money += (finish - start) * self.problem.machine(machine).price;
    }
}
