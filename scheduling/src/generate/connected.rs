//! The random workflows of Aguilar 2016, chapter 5: 1 to 50 tasks with a complexity from 50 to 100; random edges are
//! added until the graph is weakly connected. Edges that exist already, loops and edges that close a cycle are skipped.
//! Machines compute complexity divided by speed hours; there are no transfers.

use crate::id::TaskId;
use crate::problem::{Billing, Machine, ProblemError, Work, Workflow, WorkflowBuilder};
use crate::seeded_random::SeededRandom;

const HOUR: f64 = 3600.0;

/// A kind of machine of Aguilar 2016, Table 5.1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Configuration {
    /// Its name.
    pub name: &'static str,
    /// Cores of a machine, each with the full speed.
    pub cores: u32,
    /// Complexity that a core computes in an hour.
    pub speed: f64,
    /// The price of a machine for an hour.
    pub price_per_hour: f64,
}

/// The four kinds of machine.
pub const CONFIGURATIONS: [Configuration; 4] = [
    Configuration { name: "Small", cores: 1, speed: 100.0, price_per_hour: 2.3 },
    Configuration { name: "Medium", cores: 2, speed: 200.0, price_per_hour: 4.0 },
    Configuration { name: "Large", cores: 6, speed: 400.0, price_per_hour: 7.0 },
    Configuration { name: "ExtraLarge", cores: 8, speed: 800.0, price_per_hour: 10.0 },
];

impl Configuration {
    /// A machine of this kind, paid from its first to its last use, as the text of the thesis has it.
    pub fn machine(&self, number: usize) -> Machine {
        Machine {
            cores: self.cores,
            price: self.price_per_hour / HOUR,
            billing: Billing::Rental,
            ..Machine::with_slowdown(format!("{}-{number}", self.name), HOUR / self.speed)
        }
    }
}

/// A workflow with a random number of tasks from 1 to 50. The work of a task is its complexity.
pub fn workflow(seed: u64) -> Result<Workflow, ProblemError> {
    let mut random = SeededRandom::new(seed);
    let tasks = 1 + random.below(50);
    workflow_of(tasks, &mut random)
}

/// A workflow with this many tasks.
pub fn workflow_of(tasks: usize, random: &mut SeededRandom) -> Result<Workflow, ProblemError> {
    let mut builder = WorkflowBuilder::new();
    for task in 0..tasks {
        builder.task(format!("t{task}"), Work::cpu(random.between(50.0, 100.0)));
    }
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); tasks];
    let mut part: Vec<_> = (0..tasks).collect();
    let mut parts = tasks;
    while parts > 1 {
        let (from, to) = (random.below(tasks), random.below(tasks));
        if from == to || children[from].contains(&to) || reaches(&children, to, from) {
            continue;
        }
        children[from].push(to);
        builder.edge(TaskId::new(from), TaskId::new(to));
        let (kept, merged) = (part[from], part[to]);
        if kept != merged {
            part.iter_mut().filter(|part| **part == merged).for_each(|part| *part = kept);
            parts -= 1;
        }
    }
    builder.build()
}

fn reaches(children: &[Vec<usize>], from: usize, to: usize) -> bool {
    let mut seen = vec![false; children.len()];
    let mut open = vec![from];
    while let Some(task) = open.pop() {
        if task == to {
            return true;
        }
        if !std::mem::replace(&mut seen[task], true) {
            open.extend(&children[task]);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workflows_have_the_size_and_the_mean_depth_of_the_experiment() {
        let mut depth = 0.0;
        for seed in 0..200 {
            let workflow = workflow(seed).unwrap();
            assert!((1..=50).contains(&workflow.task_count()));
            assert!(workflow.edge_count() + 1 >= workflow.task_count());
            depth += workflow.critical_path(|_| 1.0) / 200.0;
        }
        // The reading of the thesis' code gave a mean depth of 11.
        assert!((9.0..13.0).contains(&depth), "{depth}");
    }
}
