//! What a problem says about durations, as flat tables, so that searches do not compute it anew for every change.

use super::solution::{Solution, release};
use crate::csr::Rows;
use crate::id::{FileId, MachineId, TaskId};
use crate::problem::{Problem, Rounding};

/// More entries of files times machines times machines are computed when they are needed.
const MAX_ACCESS_ENTRIES: usize = 4_000_000;

/// Durations of a problem in flat tables.
#[derive(Debug)]
pub(super) struct Model {
    machines: usize,
    inline: bool,
    whole_seconds: bool,
    local_seconds: f64,
    latency: f64,
    /// Seconds of each task on each machine without files that a search can place; infinity if it cannot run there.
    base: Vec<f64>,
    /// When each task can start on each machine because of the machine and of fixed files.
    releases: Vec<f64>,
    /// The files of each task that a search can place: inputs and outputs, some of them twice.
    placed: Rows<FileId>,
    bytes: Vec<f64>,
    /// Bytes per second between machines.
    rates: Vec<f64>,
    /// Seconds to access each file from each machine when it is stored on each machine; empty if there are too many.
    access: Vec<f64>,
    pub(super) prices: Vec<f64>,
    /// Tasks that read or write each file.
    pub(super) users: Rows<TaskId>,
    /// Tasks without children: one of them ends last.
    pub(super) sinks: Vec<TaskId>,
}

impl Model {
    pub(super) fn new(problem: &Problem) -> Self {
        let (workflow, machines) = (problem.workflow(), problem.machine_count());
        let inline = problem.places_files();
        let is_placed = |file: &&FileId| inline && !workflow.is_fixed(**file);
        let local_seconds = problem.model().local_seconds();
        let (mut placed, mut users) = (Rows::default(), Rows::default());
        let mut base = Vec::with_capacity(problem.task_count() * machines);
        let mut releases = Vec::with_capacity(problem.task_count() * machines);
        for task in problem.tasks() {
            let (inputs, outputs) = (workflow.inputs(task), workflow.outputs(task));
            placed.push(inputs.iter().chain(outputs).filter(is_placed).copied());
            for machine in problem.machines() {
                let mut seconds = problem.compute_seconds(task, machine);
                for files in [inputs, outputs].iter().filter(|_| inline) {
                    let fixed = files.iter().filter(|file| workflow.is_fixed(**file));
                    seconds += fixed.map(|file| problem.placed_access_seconds(*file, machine)).sum::<f64>();
                    seconds += if files.is_empty() { local_seconds } else { 0.0 };
                }
                base.push(seconds);
                releases.push(release(problem, task, machine));
            }
        }
        for file in workflow.files() {
            let mut both: Vec<_> = workflow.readers(file).iter().chain(workflow.writers(file)).copied().collect();
            both.sort_unstable();
            both.dedup();
            users.push(both);
        }
        let network = &problem.platform().network;
        let pairs = problem.machines().flat_map(|from| problem.machines().map(move |to| (from, to)));
        let mut model = Self {
            machines,
            inline,
            whole_seconds: problem.model().rounding == Rounding::WholeSeconds,
            local_seconds,
            latency: network.latency(),
            base,
            releases,
            placed,
            bytes: workflow.files().map(|file| workflow.file_bytes(file)).collect(),
            rates: pairs.map(|(from, to)| network.rate(from, to)).collect(),
            access: Vec::new(),
            prices: problem.platform().machines.iter().map(|node| node.price).collect(),
            users,
            sinks: problem.tasks().filter(|task| workflow.children(*task).is_empty()).collect(),
        };
        let entries = workflow.file_count().saturating_mul(machines * machines);
        if inline && entries <= MAX_ACCESS_ENTRIES {
            let mut access = Vec::with_capacity(entries);
            for file in 0..workflow.file_count() {
                for pair in 0..machines * machines {
                    access.push(model.access_seconds(file, pair / machines, pair % machines));
                }
            }
            model.access = access;
        }
        model
    }

    fn transfer_seconds(&self, bytes: f64, from: usize, to: usize) -> f64 {
        if bytes <= 0.0 {
            return 0.0;
        }
        let seconds = self.latency + bytes / self.rates[from * self.machines + to];
        if self.whole_seconds { seconds.ceil() } else { seconds }
    }

    fn access_seconds(&self, file: usize, machine: usize, home: usize) -> f64 {
        if machine == home { self.local_seconds } else { self.transfer_seconds(self.bytes[file], machine, home) }
    }

    /// Whether durations contain all transfers, so that edges take no time.
    #[inline]
    pub(super) fn inline(&self) -> bool {
        self.inline
    }

    /// Seconds between the end of a task and the start of its child because of the bytes between both.
    #[inline]
    pub(super) fn delay(&self, bytes: f64, from: MachineId, to: MachineId) -> f64 {
        if self.inline || from == to { 0.0 } else { self.transfer_seconds(bytes, from.index(), to.index()) }
    }

    /// Whether the task can run on the machine.
    #[inline]
    pub(super) fn can_run(&self, task: TaskId, machine: MachineId) -> bool {
        self.base[task.index() * self.machines + machine.index()].is_finite()
    }

    #[inline]
    pub(super) fn release(&self, task: TaskId, machine: MachineId) -> f64 {
        self.releases[task.index() * self.machines + machine.index()]
    }

    /// Seconds that the task occupies its machine.
    #[inline]
    pub(super) fn duration(&self, task: TaskId, solution: &Solution) -> f64 {
        let machine = solution.machines[task.index()].index();
        let mut seconds = self.base[task.index() * self.machines + machine];
        let files = self.placed.row(task.index());
        if self.access.is_empty() {
            for file in files {
                seconds += self.access_seconds(file.index(), machine, solution.homes[file.index()].index());
            }
        } else {
            for file in files {
                let row = (file.index() * self.machines + machine) * self.machines;
                seconds += self.access[row + solution.homes[file.index()].index()];
            }
        }
        seconds
    }
}
