//! Finish times, tails and tables of a solution, so that a change is judged by the part of the order that it touches.

use super::model::Model;
use super::solution::Solution;
use crate::id::TaskId;
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
    /// Positions that were computed so far: a measure of time that repeats itself on every machine.
    pub(super) work: u64,
    /// Finish times of the tasks in a changed window.
    scratch: Vec<f64>,
    free: Vec<f64>,
    pub(super) room: Option<Vec<f64>>,
    critical: Vec<TaskId>,
    critical_is_old: bool,
}

pub(super) fn tight(problem: &Problem) -> bool {
    let workflow = problem.workflow();
    let total: f64 = workflow.files().map(|file| workflow.file_bytes(file)).sum();
    problem.platform().machines.iter().any(|node| node.storage < total)
}

impl Tables {
    pub(super) fn new(problem: &Problem, tight: bool) -> Self {
        let (tasks, machines) = (problem.task_count(), problem.machine_count());
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
            work: 0,
            scratch: vec![0.0; tasks],
            free: vec![0.0; machines],
            room: tight.then(Vec::new),
            critical: Vec::new(),
            critical_is_old: true,
        }
    }

    /// Computes everything for a solution of which all is new.
    pub(super) fn rebuild(&mut self, problem: &Problem, model: &Model, solution: &Solution) {
        for (place, task) in solution.order.iter().enumerate() {
            self.position[task.index()] = place as u32;
            self.duration[task.index()] = model.duration(*task, solution);
        }
        for (machine, node) in problem.platform().machines.iter().enumerate() {
            self.free_before[machine] = node.start_up;
        }
        let price = |task: &TaskId| self.duration[task.index()] * model.prices[solution.machines[task.index()].index()];
        self.money = solution.order.iter().map(price).sum();
        self.rebuild_room(problem, solution);
        if !solution.order.is_empty() {
            self.rebuild_window(problem, model, solution, 0, solution.order.len() - 1);
        }
    }

    /// Finish times from the first position on, and tails from the last position backwards, each until nothing changes
    /// any more.
    pub(super) fn rebuild_window(
        &mut self,
        problem: &Problem,
        model: &Model,
        solution: &Solution,
        first: usize,
        last: usize,
    ) {
        self.critical_is_old = true;
        self.rebuild_finish(problem, model, solution, first, last);
        self.rebuild_tails(problem, model, solution, first, last);
        let sinks = model.sinks.iter().map(|task| self.finish[task.index()]);
        self.makespan = sinks.fold(0.0, |latest, finish| if finish > latest { finish } else { latest });
    }

    fn rebuild_finish(&mut self, problem: &Problem, model: &Model, solution: &Solution, first: usize, last: usize) {
        let (workflow, machines) = (problem.workflow(), self.machines);
        self.free.copy_from_slice(&self.free_before[first * machines..][..machines]);
        // The last position that has to be computed anew, as far as is known.
        let mut reach = last;
        for (place, task) in solution.order.iter().enumerate().skip(first) {
            self.work += 1;
            let machine = solution.machines[task.index()];
            let mut start = model.release(*task, machine).max(self.free[machine.index()]);
            for edge in workflow.parents(*task) {
                let way = model.delay(edge.bytes, solution.machines[edge.task.index()], machine);
                start = start.max(self.finish[edge.task.index()] + way);
            }
            let finish = start + self.duration[task.index()];
            let before = std::mem::replace(&mut self.finish[task.index()], finish);
            self.free[machine.index()] = finish;
            // A new machine changes the ways to children even if the task ends when it did.
            if finish != before || (place <= last && !model.inline()) {
                let children = workflow.children(*task).iter().map(|edge| self.position[edge.task.index()] as usize);
                reach = children.fold(reach, usize::max);
            }
            let next = &mut self.free_before[(place + 1) * machines..][..machines];
            if place >= reach && *next == self.free {
                return;
            }
            next.copy_from_slice(&self.free);
        }
    }

    fn rebuild_tails(&mut self, problem: &Problem, model: &Model, solution: &Solution, first: usize, last: usize) {
        let (workflow, machines) = (problem.workflow(), self.machines);
        self.free.copy_from_slice(&self.next_tail[(last + 1) * machines..][..machines]);
        // The first position that has to be computed anew, as far as is known.
        let mut reach = first;
        for (place, task) in solution.order.iter().enumerate().take(last + 1).rev() {
            self.work += 1;
            let machine = solution.machines[task.index()];
            let mut after: f64 = self.free[machine.index()];
            for edge in workflow.children(*task) {
                let way = model.delay(edge.bytes, machine, solution.machines[edge.task.index()]);
                after = after.max(way + self.tail[edge.task.index()]);
            }
            let tail = self.duration[task.index()] + after;
            let before = std::mem::replace(&mut self.tail[task.index()], tail);
            self.free[machine.index()] = tail;
            if tail != before || (place >= first && !model.inline()) {
                let parents = workflow.parents(*task).iter().map(|edge| self.position[edge.task.index()] as usize);
                reach = parents.fold(reach, usize::min);
            }
            let row = &mut self.next_tail[place * machines..][..machines];
            if place <= reach && *row == self.free {
                return;
            }
            row.copy_from_slice(&self.free);
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

    /// Tasks that cannot take longer without a later end of the workflow.
    pub(super) fn critical(&mut self, solution: &Solution) -> &[TaskId] {
        if self.critical_is_old {
            self.critical_is_old = false;
            self.critical.clear();
            for task in &solution.order {
                if self.is_critical(*task) {
                    self.critical.push(*task);
                }
            }
        }
        &self.critical
    }

    pub(super) fn is_critical(&self, task: TaskId) -> bool {
        let index = task.index();
        self.finish[index] - self.duration[index] + self.tail[index] >= self.makespan * (1.0 - 1e-9)
    }

    /// A lower bound of the makespan from the window and the edges that leave it; stops when it reaches the limit.
    pub(super) fn window_makespan(
        &mut self,
        problem: &Problem,
        model: &Model,
        solution: &Solution,
        window: (usize, usize),
        limit: f64,
    ) -> f64 {
        // With files inside the durations, edges have no ways: the loop without them takes half the time.
        if model.inline() {
            self.bound_window(problem, model, solution, window, limit, |_, _, _| 0.0)
        } else {
            self.bound_window(problem, model, solution, window, limit, |bytes, from, to| {
                model.delay(bytes, solution.machines[from.index()], solution.machines[to.index()])
            })
        }
    }

    #[inline]
    fn bound_window(
        &mut self,
        problem: &Problem,
        model: &Model,
        solution: &Solution,
        (first, last): (usize, usize),
        limit: f64,
        way: impl Fn(f64, TaskId, TaskId) -> f64,
    ) -> f64 {
        let (workflow, machines) = (problem.workflow(), self.machines);
        self.free.copy_from_slice(&self.free_before[first * machines..][..machines]);
        let later = |one: f64, other: f64| if other > one { other } else { one };
        let mut makespan = 0.0f64;
        for (place, task) in solution.order[first..=last].iter().copied().enumerate() {
            let machine = solution.machines[task.index()];
            let mut start = later(model.release(task, machine), self.free[machine.index()]);
            for edge in workflow.parents(task) {
                let parent = edge.task.index();
                let inside = self.position[parent] as usize >= first;
                let finish = if inside { self.scratch[parent] } else { self.finish[parent] };
                start = later(start, finish + way(edge.bytes, edge.task, task));
            }
            let finish = start + self.duration[task.index()];
            self.scratch[task.index()] = finish;
            self.free[machine.index()] = finish;
            makespan = later(makespan, finish);
            for edge in workflow.children(task) {
                let child = edge.task.index();
                if self.position[child] as usize > last {
                    makespan = later(makespan, finish + way(edge.bytes, task, edge.task) + self.tail[child]);
                }
            }
            if makespan >= limit {
                self.work += place as u64 + 1;
                return makespan;
            }
        }
        self.work += (last + 1 - first) as u64;
        let next = &self.next_tail[(last + 1) * machines..][..machines];
        for (free, tail) in self.free.iter().zip(next) {
            if *tail > 0.0 {
                makespan = makespan.max(free + tail);
            }
        }
        makespan
    }
}
