//! Finish times, tails and tables of a solution, so that a change is judged by the part of the order that it touches.

use super::solution::{Solution, duration, release};
use crate::csr::Rows;
use crate::id::{MachineId, TaskId};
use crate::problem::Problem;

/// What incremental evaluation keeps. All machines have one core.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    machines: usize,
    pub(super) position: Vec<u32>,
    pub(super) duration: Vec<f64>,
    finish: Vec<f64>,
    /// Seconds from the start of each task to the end of the workflow, along edges and machines.
    tail: Vec<f64>,
    /// For each position and machine: when the machine has ended all tasks before it.
    free_before: Vec<f64>,
    /// For each position and machine: the tail of the machine's first task from it on.
    next_tail: Vec<f64>,
    pub(super) makespan: f64,
    pub(super) money: f64,
    scratch: Vec<f64>,
    free: Vec<f64>,
    /// Tasks that read or write each file.
    pub(super) users: Rows<TaskId>,
    pub(super) room: Option<Vec<f64>>,
}

pub(super) fn tight(problem: &Problem) -> bool {
    let workflow = problem.workflow();
    let total: f64 = workflow.files().map(|file| workflow.file_bytes(file)).sum();
    problem.platform().machines.iter().any(|node| node.storage < total)
}

impl Tables {
    pub(super) fn new(problem: &Problem, tight: bool) -> Self {
        let workflow = problem.workflow();
        let (tasks, machines) = (problem.task_count(), problem.machine_count());
        let mut users = Rows::default();
        for file in workflow.files() {
            let mut both: Vec<_> = workflow.readers(file).iter().chain(workflow.writers(file)).copied().collect();
            both.sort_unstable();
            both.dedup();
            users.push(both);
        }
        Self {
            machines,
            position: vec![0; tasks],
            duration: vec![0.0; tasks],
            finish: vec![0.0; tasks],
            tail: vec![0.0; tasks],
            free_before: vec![0.0; (tasks + 1) * machines],
            next_tail: vec![0.0; (tasks + 1) * machines],
            makespan: 0.0,
            money: 0.0,
            scratch: vec![0.0; tasks],
            free: vec![0.0; machines],
            users,
            room: tight.then(Vec::new),
        }
    }

    /// Computes all durations.
    pub(super) fn refresh(&mut self, problem: &Problem, solution: &Solution) {
        for task in problem.tasks() {
            let machine = solution.machines[task.index()];
            self.duration[task.index()] = duration(problem, task, machine, &solution.homes);
        }
    }

    /// Computes everything that follows from durations for a solution of which all is new.
    pub(super) fn rebuild(&mut self, problem: &Problem, solution: &Solution) {
        for (place, task) in solution.order.iter().enumerate() {
            self.position[task.index()] = place as u32;
        }
        for (machine, node) in problem.platform().machines.iter().enumerate() {
            self.free_before[machine] = node.start_up;
        }
        self.money = solution.order.iter().map(|task| self.price(problem, solution, *task)).sum();
        self.rebuild_room(problem, solution);
        if !solution.order.is_empty() {
            self.rebuild_window(problem, solution, 0, solution.order.len() - 1);
        }
    }

    fn price(&self, problem: &Problem, solution: &Solution, task: TaskId) -> f64 {
        self.duration[task.index()] * problem.machine(solution.machines[task.index()]).price
    }

    /// Finish times from the first position on, and tails from the last position backwards.
    pub(super) fn rebuild_window(&mut self, problem: &Problem, solution: &Solution, first: usize, last: usize) {
        let (workflow, machines, tasks) = (problem.workflow(), self.machines, solution.order.len());
        self.free.copy_from_slice(&self.free_before[first * machines..][..machines]);
        for (place, task) in solution.order.iter().enumerate().skip(first) {
            self.free_before[place * machines..][..machines].copy_from_slice(&self.free);
            let machine = solution.machines[task.index()].index();
            let start = ready(problem, solution, *task, |parent| self.finish[parent.index()]).max(self.free[machine]);
            self.finish[task.index()] = start + self.duration[task.index()];
            self.free[machine] = self.finish[task.index()];
        }
        self.free_before[tasks * machines..].copy_from_slice(&self.free);
        self.makespan = self.finish.iter().copied().fold(0.0, f64::max);
        self.free.copy_from_slice(&self.next_tail[(last + 1) * machines..][..machines]);
        for (place, task) in solution.order.iter().enumerate().take(last + 1).rev() {
            let machine = solution.machines[task.index()];
            let mut after: f64 = self.free[machine.index()];
            for edge in workflow.children(*task) {
                let way = delay(problem, edge.bytes, machine, solution.machines[edge.task.index()]);
                after = after.max(way + self.tail[edge.task.index()]);
            }
            self.tail[task.index()] = self.duration[task.index()] + after;
            self.free[machine.index()] = self.tail[task.index()];
            self.next_tail[place * machines..][..machines].copy_from_slice(&self.free);
        }
    }

    fn rebuild_room(&mut self, problem: &Problem, solution: &Solution) {
        let workflow = problem.workflow();
        if let Some(room) = &mut self.room {
            *room = problem.platform().machines.iter().map(|node| node.storage).collect();
            for file in workflow.files() {
                let bytes = workflow.file_bytes(file);
                workflow.copies(file).iter().for_each(|machine| room[machine.index()] -= bytes);
                if !workflow.is_fixed(file) {
                    room[solution.homes[file.index()].index()] -= bytes;
                }
            }
        }
    }

    /// A lower bound of the makespan from the window and the edges that leave it; stops when it reaches the limit.
    pub(super) fn window_makespan(
        &mut self,
        problem: &Problem,
        solution: &Solution,
        first: usize,
        last: usize,
        limit: f64,
    ) -> f64 {
        let (workflow, machines) = (problem.workflow(), self.machines);
        self.free.copy_from_slice(&self.free_before[first * machines..][..machines]);
        let mut makespan = 0.0f64;
        for place in first..=last {
            let task = solution.order[place];
            let machine = solution.machines[task.index()];
            let finish_of = |parent: TaskId| {
                let inside = self.position[parent.index()] as usize >= first;
                if inside { self.scratch[parent.index()] } else { self.finish[parent.index()] }
            };
            let start = ready(problem, solution, task, finish_of).max(self.free[machine.index()]);
            let finish = start + self.duration[task.index()];
            self.scratch[task.index()] = finish;
            self.free[machine.index()] = finish;
            makespan = makespan.max(finish);
            for edge in workflow.children(task) {
                if self.position[edge.task.index()] as usize > last {
                    let way = delay(problem, edge.bytes, machine, solution.machines[edge.task.index()]);
                    makespan = makespan.max(finish + way + self.tail[edge.task.index()]);
                }
            }
            if makespan >= limit {
                return makespan;
            }
        }
        let next = &self.next_tail[(last + 1) * machines..][..machines];
        for (free, tail) in self.free.iter().zip(next) {
            if *tail > 0.0 {
                makespan = makespan.max(free + tail);
            }
        }
        makespan
    }
}

fn ready(problem: &Problem, solution: &Solution, task: TaskId, finish: impl Fn(TaskId) -> f64) -> f64 {
    let machine = solution.machines[task.index()];
    let mut ready = release(problem, task, machine);
    for edge in problem.workflow().parents(task) {
        let way = delay(problem, edge.bytes, solution.machines[edge.task.index()], machine);
        ready = ready.max(finish(edge.task) + way);
    }
    ready
}

fn delay(problem: &Problem, bytes: f64, from: MachineId, to: MachineId) -> f64 {
    if problem.places_files() { 0.0 } else { problem.transfer_seconds(bytes, from, to) }
}
