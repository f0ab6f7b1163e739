//! Priorities of tasks from mean durations: the upward and downward ranks of Topcuoglu, Hariri and Wu, IEEE TPDS 13(3),
//! 2002.

use std::cmp::Reverse;

use crate::id::TaskId;
use crate::ordered::Ordered;
use crate::problem::Problem;

/// Mean durations and transfers of a problem, and ranks from them.
#[derive(Debug, Clone)]
pub struct Ranks {
    /// Mean seconds of each task over the machines that can run it.
    pub compute: Vec<f64>,
    /// The longest way from the start of each task to the end of the workflow, with mean durations and transfers.
    pub upward: Vec<f64>,
    /// The longest way from the start of the workflow to the start of each task.
    pub downward: Vec<f64>,
    latency: f64,
    rate: f64,
}

impl Ranks {
    /// Computes the ranks. Transfers between the mean machines have the mean rate of all pairs of machines.
    pub fn of(problem: &Problem) -> Self {
        let workflow = problem.workflow();
        let network = &problem.platform().network;
        let tasks = problem.task_count();
        let mut ranks = Self {
            compute: problem.tasks().map(|task| mean_compute(problem, task)).collect(),
            upward: vec![0.0; tasks],
            downward: vec![0.0; tasks],
            latency: network.latency(),
            rate: network.mean_rate(problem.machine_count()),
        };
        for task in workflow.order().iter().rev() {
            let after = workflow
                .children(*task)
                .iter()
                .map(|edge| ranks.transfer(edge.bytes) + ranks.upward[edge.task.index()]);
            ranks.upward[task.index()] = ranks.compute[task.index()] + after.fold(0.0, f64::max);
        }
        for task in workflow.order() {
            let before = workflow.parents(*task).iter().map(|edge| {
                let parent = edge.task.index();
                ranks.downward[parent] + ranks.compute[parent] + ranks.transfer(edge.bytes)
            });
            ranks.downward[task.index()] = before.fold(0.0, f64::max);
        }
        ranks
    }

    /// Mean seconds of a transfer.
    pub fn transfer(&self, bytes: f64) -> f64 {
        if bytes <= 0.0 || self.rate == f64::INFINITY { 0.0 } else { self.latency + bytes / self.rate }
    }

    /// All tasks by descending upward rank. Among equals parents come before children, then the order of definition
    /// counts.
    pub fn order(&self, problem: &Problem) -> Vec<TaskId> {
        // Ranks never grow along an edge, but tasks without work have the rank of their child.
        let workflow = problem.workflow();
        let mut depth = vec![0u32; problem.task_count()];
        for task in workflow.order() {
            let below = workflow.parents(*task).iter().map(|edge| depth[edge.task.index()] + 1);
            depth[task.index()] = below.max().unwrap_or(0);
        }
        let mut order: Vec<_> = problem.tasks().collect();
        let key = |task: &TaskId| (Reverse(Ordered(self.upward[task.index()])), depth[task.index()], *task);
        order.sort_by_cached_key(key);
        order
    }
}

fn mean_compute(problem: &Problem, task: TaskId) -> f64 {
    let seconds = problem.machines().map(|machine| problem.compute_seconds(task, machine));
    let (sum, count) = seconds
        .filter(|seconds| seconds.is_finite())
        .fold((0.0, 0), |(sum, count), seconds| (sum + seconds, count + 1));
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}
