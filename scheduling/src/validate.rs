//! An independent check of schedules. It shares no code with the planners: it computes every duration anew from work,
//! speeds, sizes and rates, and compares.

use thiserror::Error;

use crate::id::{FileId, MachineId, TaskId};
use crate::problem::{GpuRule, Problem, Rounding, Transfers};
use crate::schedule::{Placement, Schedule};

/// At most this many violations are reported: one wrong start time can cause one for every task.
const MAX_VIOLATIONS: usize = 100;

/// What is wrong with a schedule.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Violation {
    /// The schedule is for another problem.
    #[error("the schedule has {found} {what}, the problem {expected}")]
    WrongSize {
        /// Tasks or files.
        what: &'static str,
        /// How many the problem has.
        expected: usize,
        /// How many the schedule has.
        found: usize,
    },
    /// A machine does not exist or cannot run the task.
    #[error("task {} cannot run on machine {}", task.0, machine.0)]
    WrongMachine {
        /// The task.
        task: TaskId,
        /// The machine.
        machine: MachineId,
    },
    /// A task does not take the time that follows from the problem.
    #[error("task {} takes {found} s instead of {expected} s", task.0)]
    WrongDuration {
        /// The task.
        task: TaskId,
        /// The right duration.
        expected: f64,
        /// The duration in the schedule.
        found: f64,
    },
    /// A task starts before its parents, its data or its machine are ready.
    #[error("task {} starts at {start} s, before {ready} s, when {cause} is ready", task.0)]
    TooEarly {
        /// The task.
        task: TaskId,
        /// Its start.
        start: f64,
        /// The earliest possible start.
        ready: f64,
        /// What it must wait for.
        cause: &'static str,
    },
    /// Tasks occupy more cores or GPUs than a machine has.
    #[error("machine {} runs more than its {what} allow at {at} s", machine.0)]
    Overloaded {
        /// The machine.
        machine: MachineId,
        /// Cores or GPUs.
        what: &'static str,
        /// When.
        at: f64,
    },
    /// Files do not fit on a machine.
    #[error("machine {} stores {stored} bytes and has room for {room}", machine.0)]
    StorageExceeded {
        /// The machine.
        machine: MachineId,
        /// The bytes of all its files.
        stored: f64,
        /// Its storage.
        room: f64,
    },
    /// A file that tasks write has no place, or a fixed file has one.
    #[error("file {} must{} have a place in the schedule", file.0, if *expected { "" } else { " not" })]
    WrongFilePlace {
        /// The file.
        file: FileId,
        /// Whether it must have a place.
        expected: bool,
    },
    /// The model has no duplicates.
    #[error("task {} runs twice, which transfers inline do not allow", task.0)]
    Duplicated {
        /// The task.
        task: TaskId,
    },
    /// A task ends after its deadline.
    #[error("task {} ends at {finish} s, after its deadline {deadline} s", task.0)]
    TaskLate {
        /// The task.
        task: TaskId,
        /// Its end.
        finish: f64,
        /// Its deadline.
        deadline: f64,
    },
    /// The workflow ends after its deadline.
    #[error("the workflow ends at {finish} s, after its deadline {deadline} s")]
    Late {
        /// Its end.
        finish: f64,
        /// Its deadline.
        deadline: f64,
    },
    /// The workflow costs more than its budget.
    #[error("the workflow costs {money}, more than its budget {budget}")]
    TooExpensive {
        /// Its cost.
        money: f64,
        /// Its budget.
        budget: f64,
    },
}

/// Whether the second number is at least the first, up to rounding.
fn at_least(low: f64, high: f64) -> bool {
    high >= low - 1e-6 * low.abs().max(1.0)
}

/// Checks that a schedule can be carried out: machines, durations, precedence, transfers, cores, GPUs and storage.
///
/// Deadlines and budgets are wishes of users, not laws of nature: [`validate_limits`] checks them.
pub fn validate(problem: &Problem, schedule: &Schedule) -> Result<(), Vec<Violation>> {
    let workflow = problem.workflow();
    let mut check = ScheduleCheck { problem, schedule, violations: Vec::new() };
    check.size("tasks", workflow.task_count(), schedule.tasks.len());
    check.size("files", workflow.file_count(), schedule.files.len());
    if check.violations.is_empty() {
        check.machines();
    }
    // The rest uses machines and tasks as indices.
    if check.violations.is_empty() {
        check.file_places();
    }
    if check.violations.is_empty() {
        check.durations();
        check.precedence();
        check.capacity();
        check.storage();
    }
    if check.violations.is_empty() { Ok(()) } else { Err(check.violations) }
}

/// Checks the deadlines and the budget of the problem. `money` is what the schedule costs.
pub fn validate_limits(problem: &Problem, schedule: &Schedule, money: f64) -> Result<(), Vec<Violation>> {
    let mut violations = Vec::new();
    let limits = problem.limits();
    for (task, deadline) in &limits.task_deadlines {
        let finish = schedule.tasks[task.index()].finish;
        if !at_least(finish, *deadline) && violations.len() < MAX_VIOLATIONS {
            violations.push(Violation::TaskLate { task: *task, finish, deadline: *deadline });
        }
    }
    let finish = schedule.tasks.iter().map(|placement| placement.finish).fold(0.0, f64::max);
    match limits.deadline {
        Some(deadline) if !at_least(finish, deadline) => violations.push(Violation::Late { finish, deadline }),
        _ => {}
    }
    match limits.budget {
        Some(budget) if !at_least(money, budget) => violations.push(Violation::TooExpensive { money, budget }),
        _ => {}
    }
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

struct ScheduleCheck<'a> {
    problem: &'a Problem,
    schedule: &'a Schedule,
    violations: Vec<Violation>,
}

impl ScheduleCheck<'_> {
    fn report(&mut self, violation: Violation) {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(violation);
        }
    }

    fn size(&mut self, what: &'static str, expected: usize, found: usize) {
        if expected != found {
            self.report(Violation::WrongSize { what, expected, found });
        }
    }

    fn machines(&mut self) {
        let tasks = self.problem.task_count();
        let runs: Vec<_> = self.schedule.runs().collect();
        for (task, placement) in runs {
            if task.index() >= tasks {
                self.report(Violation::WrongSize { what: "tasks", expected: tasks, found: task.index() + 1 });
            } else if placement.machine.index() >= self.problem.machine_count()
                || !self.problem.can_run(task, placement.machine)
            {
                self.report(Violation::WrongMachine { task, machine: placement.machine });
            }
        }
    }

    fn inline(&self) -> Option<f64> {
        match self.problem.model().transfers {
            Transfers::Overlapped => None,
            Transfers::Inline { local_seconds } => Some(local_seconds),
        }
    }

    fn file_places(&mut self) {
        let inline = self.inline().is_some();
        for file in self.problem.workflow().files() {
            let expected = inline && !self.problem.workflow().is_fixed(file);
            let place = self.schedule.files[file.index()];
            if place.is_some() != expected || place.is_some_and(|place| place.index() >= self.problem.machine_count()) {
                self.report(Violation::WrongFilePlace { file, expected });
            }
        }
        if let Some(duplicate) = self.schedule.duplicates.first().filter(|_| inline) {
            self.report(Violation::Duplicated { task: duplicate.task });
        }
    }

    fn round(&self, seconds: f64) -> f64 {
        if self.problem.model().rounding == Rounding::WholeSeconds { seconds.ceil() } else { seconds }
    }

    /// Seconds to move bytes between two places.
    fn transfer(&self, bytes: f64, one: MachineId, other: MachineId, local: f64) -> f64 {
        if one == other {
            return local;
        }
        if bytes == 0.0 {
            return 0.0;
        }
        let network = &self.problem.platform().network;
        self.round(network.latency() + bytes / network.rate(one, other))
    }

    fn access(&self, file: FileId, machine: MachineId, local: f64) -> f64 {
        let workflow = self.problem.workflow();
        let bytes = workflow.file_bytes(file);
        match (self.schedule.files[file.index()], workflow.copies(file)) {
            (Some(place), _) => self.transfer(bytes, machine, place, local),
            (None, []) => local,
            (None, copies) if copies.contains(&machine) => local,
            (None, copies) => {
                copies.iter().map(|copy| self.transfer(bytes, machine, *copy, local)).fold(f64::INFINITY, f64::min)
            }
        }
    }

    fn compute(&self, task: TaskId, machine: MachineId) -> f64 {
        // A table of durations replaces speeds; the problem alone knows it.
        let (workflow, node) = (self.problem.workflow(), self.problem.machine(machine));
        let cpu = workflow.cpu_seconds(task) * node.slowdown;
        let gpu = if node.gpus > 0 { workflow.gpu_seconds(task) * node.gpu_slowdown } else { f64::INFINITY };
        if self.problem.has_duration_table() {
            return self.problem.compute_seconds(task, machine);
        }
        let fastest =
            if self.problem.model().gpu == GpuRule::Always && gpu < f64::INFINITY { gpu } else { cpu.min(gpu) };
        self.round(fastest)
    }

    fn durations(&mut self) {
        let workflow = self.problem.workflow();
        let runs: Vec<_> = self.schedule.runs().collect();
        for (task, placement) in runs {
            let mut expected = self.compute(task, placement.machine);
            if let Some(local) = self.inline() {
                for files in [workflow.inputs(task), workflow.outputs(task)] {
                    let transfers: f64 = files.iter().map(|file| self.access(*file, placement.machine, local)).sum();
                    expected += if files.is_empty() { local } else { transfers };
                }
            }
            let found = placement.finish - placement.start;
            if !at_least(expected, found) || !at_least(found, expected) {
                self.report(Violation::WrongDuration { task, expected, found });
            }
        }
    }

    fn precedence(&mut self) {
        let workflow = self.problem.workflow();
        let mut copies: Vec<Vec<Placement>> = self.schedule.tasks.iter().map(|placement| vec![*placement]).collect();
        for duplicate in &self.schedule.duplicates {
            copies[duplicate.task.index()].push(duplicate.placement);
        }
        let inline = self.inline().is_some();
        let runs: Vec<_> = self.schedule.runs().collect();
        for (task, placement) in runs {
            let start_up = self.problem.machine(placement.machine).start_up;
            let mut waits = vec![(start_up, "its machine")];
            for edge in workflow.parents(task) {
                let arrival = copies[edge.task.index()].iter().map(|parent| {
                    let on_the_way =
                        if inline { 0.0 } else { self.transfer(edge.bytes, parent.machine, placement.machine, 0.0) };
                    parent.finish + on_the_way
                });
                waits.push((arrival.fold(f64::INFINITY, f64::min), "a parent"));
            }
            if !inline {
                for file in workflow.inputs(task).iter().filter(|file| workflow.is_fixed(**file)) {
                    waits.push((self.access(*file, placement.machine, 0.0), "a file"));
                }
            }
            for (ready, cause) in waits {
                if !at_least(ready, placement.start) {
                    self.report(Violation::TooEarly { task, start: placement.start, ready, cause });
                }
            }
        }
    }

    /// Sweeps over starts and ends of each machine.
    fn capacity(&mut self) {
        let mut events: Vec<Vec<(f64, i64, i64)>> = vec![Vec::new(); self.problem.machine_count()];
        for (task, placement) in self.schedule.runs() {
            let cores = i64::from(self.problem.workflow().cores(task));
            let gpus = i64::from(self.problem.uses_gpu(task, placement.machine));
            // Ends are a little early, so that rounding does not make tasks overlap.
            let end = placement.finish - 1e-6 * placement.finish.abs().max(1.0);
            if end > placement.start {
                let list = &mut events[placement.machine.index()];
                list.extend([(placement.start, cores, gpus), (end, -cores, -gpus)]);
            }
        }
        for (machine, mut list) in events.into_iter().enumerate() {
            list.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let node = &self.problem.platform().machines[machine];
            let (mut cores, mut gpus) = (0, 0);
            for (at, more_cores, more_gpus) in list {
                cores += more_cores;
                gpus += more_gpus;
                let machine = MachineId::new(machine);
                if cores > i64::from(node.cores) {
                    self.report(Violation::Overloaded { machine, what: "cores", at });
                }
                if gpus > i64::from(node.gpus) {
                    self.report(Violation::Overloaded { machine, what: "GPUs", at });
                }
            }
        }
    }

    /// Files count for the whole run. With overlapped transfers a machine stores what its tasks read and write.
    fn storage(&mut self) {
        let workflow = self.problem.workflow();
        let mut stored = vec![0.0; self.problem.machine_count()];
        let mut on = Vec::new();
        let mut used_on: Vec<Vec<u32>> = vec![Vec::new(); workflow.file_count()];
        if self.inline().is_none() {
            for (task, placement) in self.schedule.runs() {
                for file in workflow.inputs(task).iter().chain(workflow.outputs(task)) {
                    used_on[file.index()].push(placement.machine.0);
                }
            }
        }
        for file in workflow.files() {
            on.clear();
            on.extend(workflow.copies(file).iter().map(|machine| machine.0));
            on.extend(self.schedule.files[file.index()].map(|machine| machine.0));
            on.extend(&used_on[file.index()]);
            on.sort_unstable();
            on.dedup();
            for machine in &on {
                stored[*machine as usize] += workflow.file_bytes(file);
            }
        }
        for (machine, stored) in stored.into_iter().enumerate() {
            let room = self.problem.platform().machines[machine].storage;
            if !at_least(stored, room) {
                self.report(Violation::StorageExceeded { machine: MachineId::new(machine), stored, room });
            }
        }
    }
}
