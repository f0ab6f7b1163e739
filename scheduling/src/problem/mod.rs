//! A scheduling problem: a workflow, a platform, the cost model that joins both, and limits.

mod builder;
mod cost;
mod error;
mod limits;
mod machine;
mod network;
mod workflow;

pub use builder::WorkflowBuilder;
pub use cost::{CostModel, GpuRule, Rounding, Transfers};
pub use error::ProblemError;
pub use limits::Limits;
pub use machine::{Billing, Machine, Platform};
pub use network::Network;
pub use workflow::{Edge, Work, Workflow};

use crate::formats::text::shorten;
use crate::id::{FileId, MachineId, TaskId};

/// At most this many machines: tables over pairs of machines grow with the square.
pub const MAX_MACHINES: usize = 10_000;

/// A workflow on a platform.
#[derive(Debug, Clone)]
pub struct Problem {
    workflow: Workflow,
    platform: Platform,
    model: CostModel,
    limits: Limits,
    durations: Option<Vec<f64>>,
}

impl Problem {
    /// Joins a workflow and a platform. Files that are said to lie on machines must name machines of the platform.
    pub fn new(workflow: Workflow, platform: Platform, model: CostModel) -> Result<Self, ProblemError> {
        platform.check()?;
        for file in workflow.files() {
            for machine in workflow.copies(file) {
                if machine.index() >= platform.machines.len() {
                    return Err(ProblemError::UnknownMachine {
                        what: format!("file {}", shorten(workflow.file_name(file))),
                        machine: *machine,
                    });
                }
            }
        }
        Ok(Self { workflow, platform, model, limits: Limits::default(), durations: None })
    }

    /// Replaces the speeds of machines by a table: seconds of each task on each machine, row by row. Infinity says that
    /// a task cannot run on a machine.
    pub fn with_durations(mut self, durations: Vec<f64>) -> Result<Self, ProblemError> {
        if durations.len() != self.task_count() * self.machine_count() {
            return Err(ProblemError::WrongTable {
                expected: self.task_count() * self.machine_count(),
                found: durations.len(),
            });
        }
        if let Some(bad) = durations.iter().find(|seconds| seconds.is_nan() || **seconds < 0.0) {
            return Err(ProblemError::BadNumber { what: "duration".into(), value: *bad });
        }
        self.durations = Some(durations);
        Ok(self)
    }

    /// Sets the limits of the workflow and of single tasks.
    pub fn with_limits(mut self, limits: Limits) -> Result<Self, ProblemError> {
        limits.check(self.task_count(), self.machine_count())?;
        self.limits = limits;
        Ok(self)
    }

    /// The tasks, files and edges.
    pub fn workflow(&self) -> &Workflow {
        &self.workflow
    }

    /// The machines and the network.
    pub fn platform(&self) -> &Platform {
        &self.platform
    }

    /// How durations and transfers are computed.
    pub fn model(&self) -> CostModel {
        self.model
    }

    /// The limits of the workflow and of single tasks.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// How many tasks there are.
    pub fn task_count(&self) -> usize {
        self.workflow.task_count()
    }

    /// How many machines there are.
    pub fn machine_count(&self) -> usize {
        self.platform.machines.len()
    }

    /// All machines.
    pub fn machines(&self) -> impl ExactSizeIterator<Item = MachineId> + use<> {
        (0..self.machine_count()).map(MachineId::new)
    }

    /// All tasks.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = TaskId> + use<> {
        self.workflow.tasks()
    }

    /// A machine.
    pub fn machine(&self, machine: MachineId) -> &Machine {
        &self.platform.machines[machine.index()]
    }

    /// Seconds that the task computes on the machine, without transfers; infinity if it cannot run there.
    pub fn compute_seconds(&self, task: TaskId, machine: MachineId) -> f64 {
        let node = &self.platform.machines[machine.index()];
        if self.workflow.cores(task) > node.cores || !self.limits.allows(task, machine) {
            return f64::INFINITY;
        }
        if let Some(table) = &self.durations {
            return table[task.index() * self.platform.machines.len() + machine.index()];
        }
        let cpu = self.workflow.cpu_seconds(task) * node.slowdown;
        let gpu = self.gpu_seconds(task, node);
        self.model.round(match self.model.gpu {
            GpuRule::Always if gpu.is_finite() => gpu,
            GpuRule::Always => cpu,
            GpuRule::Faster => cpu.min(gpu),
        })
    }

    fn gpu_seconds(&self, task: TaskId, node: &Machine) -> f64 {
        if node.gpus == 0 { f64::INFINITY } else { self.workflow.gpu_seconds(task) * node.gpu_slowdown }
    }

    /// Whether the task computes on a GPU when it runs on this machine.
    pub fn uses_gpu(&self, task: TaskId, machine: MachineId) -> bool {
        let node = self.machine(machine);
        let gpu = self.gpu_seconds(task, node);
        self.durations.is_none()
            && gpu.is_finite()
            && match self.model.gpu {
                GpuRule::Always => true,
                GpuRule::Faster => gpu < self.workflow.cpu_seconds(task) * node.slowdown,
            }
    }

    /// Whether a table gives the seconds of each task on each machine.
    pub fn has_duration_table(&self) -> bool {
        self.durations.is_some()
    }

    /// Whether the task can run on the machine.
    pub fn can_run(&self, task: TaskId, machine: MachineId) -> bool {
        self.compute_seconds(task, machine).is_finite()
    }

    /// Seconds that data need between two machines when transfers run beside the computation.
    pub fn transfer_seconds(&self, bytes: f64, from: MachineId, to: MachineId) -> f64 {
        if from == to { 0.0 } else { self.model.round(self.platform.network.seconds(bytes, from, to)) }
    }

    /// Seconds to move a file between a machine that stores it and a machine that reads or writes it.
    pub fn access_seconds(&self, file: FileId, machine: MachineId, stored_on: MachineId) -> f64 {
        if machine == stored_on {
            return self.model.local_seconds();
        }
        self.model.round(self.platform.network.seconds(self.workflow.file_bytes(file), machine, stored_on))
    }

    /// Seconds to read a file that the workflow finds in place: from the copy that is nearest. A file without copies is
    /// taken to be on every machine.
    pub fn placed_access_seconds(&self, file: FileId, machine: MachineId) -> f64 {
        let copies = self.workflow.copies(file);
        if copies.is_empty() || copies.contains(&machine) {
            return self.model.local_seconds();
        }
        copies.iter().map(|copy| self.access_seconds(file, machine, *copy)).fold(f64::INFINITY, f64::min)
    }

    /// Whether reads and writes occupy the machine of the task, one after the other, and files have a place of their
    /// own.
    pub fn places_files(&self) -> bool {
        matches!(self.model.transfers, Transfers::Inline { .. })
    }
}
