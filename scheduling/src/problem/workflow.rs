//! Workflows: tasks with work, files that they read and write, and edges. Compact arrays, since graphs have 100,000
//! tasks.

use crate::csr::Rows;
use crate::id::{FileId, MachineId, TaskId};

/// Seconds of work on processors of speed 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Seconds on a CPU; nothing if the task needs a GPU.
    pub cpu: Option<f64>,
    /// Seconds on a GPU; nothing if the task cannot use one.
    pub gpu: Option<f64>,
}

impl Work {
    /// Work for a CPU only.
    pub fn cpu(seconds: f64) -> Self {
        Self { cpu: Some(seconds), gpu: None }
    }
}

/// An edge, seen from one of its ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Edge {
    /// The task at the other end.
    pub task: TaskId,
    /// Bytes that the earlier task makes for the later one.
    pub bytes: f64,
}

/// Tasks, files and edges without a cycle.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    pub(super) names: Vec<Box<str>>,
    pub(super) kinds: Vec<Box<str>>,
    pub(super) cpu: Vec<f64>,
    pub(super) gpu: Vec<f64>,
    pub(super) cores: Vec<u32>,
    pub(super) children: Rows<Edge>,
    pub(super) parents: Rows<Edge>,
    pub(super) order: Vec<TaskId>,
    pub(super) file_names: Vec<Box<str>>,
    pub(super) bytes: Vec<f64>,
    pub(super) fixed: Vec<bool>,
    pub(super) copies: Rows<MachineId>,
    pub(super) inputs: Rows<FileId>,
    pub(super) outputs: Rows<FileId>,
    pub(super) readers: Rows<TaskId>,
    pub(super) writers: Rows<TaskId>,
}

impl Workflow {
    /// How many tasks there are.
    pub fn task_count(&self) -> usize {
        self.names.len()
    }

    /// How many files there are.
    pub fn file_count(&self) -> usize {
        self.bytes.len()
    }

    /// How many edges there are.
    pub fn edge_count(&self) -> usize {
        self.children.items().len()
    }

    /// All tasks.
    pub fn tasks(&self) -> impl ExactSizeIterator<Item = TaskId> + use<> {
        (0..self.task_count()).map(TaskId::new)
    }

    /// All files.
    pub fn files(&self) -> impl ExactSizeIterator<Item = FileId> + use<> {
        (0..self.file_count()).map(FileId::new)
    }

    /// All tasks, each after its parents; ties in the order of definition.
    pub fn order(&self) -> &[TaskId] {
        &self.order
    }

    /// The name of a task.
    pub fn name(&self, task: TaskId) -> &str {
        &self.names[task.index()]
    }

    /// The program that a task runs, or the step of the workflow that it belongs to; empty if that is not known.
    pub fn kind(&self, task: TaskId) -> &str {
        &self.kinds[task.index()]
    }

    /// Seconds on a CPU of speed 1; infinity if the task cannot use one.
    pub fn cpu_seconds(&self, task: TaskId) -> f64 {
        self.cpu[task.index()]
    }

    /// Seconds on a GPU of speed 1; infinity if the task cannot use one.
    pub fn gpu_seconds(&self, task: TaskId) -> f64 {
        self.gpu[task.index()]
    }

    /// Cores that the task occupies.
    pub fn cores(&self, task: TaskId) -> u32 {
        self.cores[task.index()]
    }

    /// The tasks that wait for this one.
    pub fn children(&self, task: TaskId) -> &[Edge] {
        self.children.row(task.index())
    }

    /// The tasks that this one waits for.
    pub fn parents(&self, task: TaskId) -> &[Edge] {
        self.parents.row(task.index())
    }

    /// The name of a file.
    pub fn file_name(&self, file: FileId) -> &str {
        &self.file_names[file.index()]
    }

    /// The size of a file.
    pub fn file_bytes(&self, file: FileId) -> f64 {
        self.bytes[file.index()]
    }

    /// Whether the file is in place before the workflow starts, so that no planner chooses its place. A file that no
    /// task writes is always fixed.
    pub fn is_fixed(&self, file: FileId) -> bool {
        self.fixed[file.index()]
    }

    /// Where a fixed file lies. A fixed file without copies is taken to be on every machine.
    pub fn copies(&self, file: FileId) -> &[MachineId] {
        self.copies.row(file.index())
    }

    /// The files that a task reads.
    pub fn inputs(&self, task: TaskId) -> &[FileId] {
        self.inputs.row(task.index())
    }

    /// The files that a task writes.
    pub fn outputs(&self, task: TaskId) -> &[FileId] {
        self.outputs.row(task.index())
    }

    /// The tasks that read a file.
    pub fn readers(&self, file: FileId) -> &[TaskId] {
        self.readers.row(file.index())
    }

    /// The tasks that write a file. Some workflows have several.
    pub fn writers(&self, file: FileId) -> &[TaskId] {
        self.writers.row(file.index())
    }

    /// The longest chain of tasks for which `seconds` gives the duration, without transfers.
    pub fn critical_path(&self, seconds: impl Fn(TaskId) -> f64) -> f64 {
        let mut finish = vec![0.0f64; self.task_count()];
        let mut longest = 0.0f64;
        for task in &self.order {
            let ready = self.parents(*task).iter().map(|edge| finish[edge.task.index()]).fold(0.0, f64::max);
            finish[task.index()] = ready + seconds(*task);
            longest = longest.max(finish[task.index()]);
        }
        longest
    }
}
