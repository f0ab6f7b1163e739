//! A schedule: where and when each task runs, and where its files are stored.

use crate::id::{FileId, MachineId, TaskId};
use crate::problem::Problem;

/// Where and when a task runs. With transfers inline, reads and writes lie between start and finish.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Placement {
    /// The machine.
    pub machine: MachineId,
    /// When the task begins to occupy it.
    pub start: f64,
    /// When the task ceases to occupy it.
    pub finish: f64,
}

/// A second run of a task on another machine, which saves a transfer. Only planners for overlapped transfers make them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Duplicate {
    /// The task.
    pub task: TaskId,
    /// Where and when it runs once more.
    pub placement: Placement,
}

/// Where and when each task runs, and where its files are stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// The run of each task.
    pub tasks: Vec<Placement>,
    /// The machine that stores each file, with transfers inline; nothing for files that are fixed.
    pub files: Vec<Option<MachineId>>,
    /// Further runs of tasks.
    pub duplicates: Vec<Duplicate>,
}

impl Schedule {
    /// A schedule without stored files and duplicates.
    pub fn of_tasks(problem: &Problem, tasks: Vec<Placement>) -> Self {
        Self { tasks, files: vec![None; problem.workflow().file_count()], duplicates: Vec::new() }
    }

    /// The run of a task.
    pub fn placement(&self, task: TaskId) -> Placement {
        self.tasks[task.index()]
    }

    /// The machine that stores a file.
    pub fn stored_on(&self, file: FileId) -> Option<MachineId> {
        self.files[file.index()]
    }

    /// When the last task ends. Duplicates that nobody needs do not count, for a planner has no reason to make them.
    pub fn makespan(&self) -> f64 {
        self.tasks.iter().map(|placement| placement.finish).fold(0.0, f64::max)
    }

    /// All runs of all tasks, duplicates last.
    pub fn runs(&self) -> impl Iterator<Item = (TaskId, Placement)> + '_ {
        let tasks = self.tasks.iter().enumerate().map(|(task, placement)| (TaskId::new(task), *placement));
        tasks.chain(self.duplicates.iter().map(|duplicate| (duplicate.task, duplicate.placement)))
    }
}
