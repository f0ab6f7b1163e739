//! Limits that users set: for the workflow and for single tasks.

use std::collections::BTreeMap;

use super::ProblemError;
use crate::id::{MachineId, TaskId};

/// Limits of the workflow and of single tasks. By default there are none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Limits {
    /// The workflow must end within this many seconds.
    pub deadline: Option<f64>,
    /// The workflow must not cost more than this.
    pub budget: Option<f64>,
    /// Tasks that must end within this many seconds from the start of the workflow.
    pub task_deadlines: BTreeMap<TaskId, f64>,
    /// Tasks that may run on these machines only.
    pub allowed: BTreeMap<TaskId, Vec<MachineId>>,
}

impl Limits {
    pub(crate) fn allows(&self, task: TaskId, machine: MachineId) -> bool {
        self.allowed.is_empty() || self.allowed.get(&task).is_none_or(|machines| machines.contains(&machine))
    }

    pub(super) fn check(&self, tasks: usize, machines: usize) -> Result<(), ProblemError> {
        let number = |what: &str, value: f64| {
            if value.is_nan() || value < 0.0 {
                Err(ProblemError::BadNumber { what: what.into(), value })
            } else {
                Ok(())
            }
        };
        self.deadline.map_or(Ok(()), |deadline| number("deadline", deadline))?;
        self.budget.map_or(Ok(()), |budget| number("budget", budget))?;
        for (task, deadline) in &self.task_deadlines {
            number("deadline of a task", *deadline)?;
            known(*task, tasks)?;
        }
        for (task, allowed) in &self.allowed {
            known(*task, tasks)?;
            if let Some(machine) = allowed.iter().find(|machine| machine.index() >= machines) {
                return Err(ProblemError::UnknownMachine { what: format!("task {}", task.0), machine: *machine });
            }
        }
        Ok(())
    }
}

fn known(task: TaskId, tasks: usize) -> Result<(), ProblemError> {
    if task.index() < tasks { Ok(()) } else { Err(ProblemError::UnknownTask { what: "a limit", task: task.0 }) }
}
