//! Myopic: the first ready task goes to the machine that looks best at that moment. After Ramamritham and others 1990.
//!
//! The papers mean different rules by this name, so all of them are here: Aguilar 2014, A.1.1, takes the machine on
//! which the task ends first; Monge and others take the fastest machine (among all, or among those that are idle: they
//! do not say); the code of Aguilar 2016 takes the machine that is free first, whatever its speed. No paper says which
//! ready task goes first: here the one that became ready first, then the one that was defined first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::id::TaskId;
use crate::ordered::Ordered;
use crate::partial_schedule::{Candidate, Partial};
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::timeline::Fill;

/// Which machine looks best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MyopicRule {
    /// The one on which the task ends first.
    #[default]
    EarliestFinish,
    /// The fastest one by its nominal speed, whatever the task: all tasks go to one machine if it can run them.
    Fastest,
    /// The fastest one by its nominal speed among those that could start the task at once; if there is none, among
    /// those that could start it first.
    FastestIdle,
    /// The one that is free first.
    FirstFree,
}

/// The Myopic planner.
#[derive(Debug, Clone, Copy, Default)]
pub struct Myopic {
    /// Which machine looks best.
    pub rule: MyopicRule,
}

impl Planner for Myopic {
    fn name(&self) -> &'static str {
        match self.rule {
            MyopicRule::EarliestFinish => "myopic",
            MyopicRule::Fastest => "myopic-fastest",
            MyopicRule::FastestIdle => "myopic-fastest-idle",
            MyopicRule::FirstFree => "myopic-first-free",
        }
    }

    fn plan(&self, problem: &Problem, _: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let workflow = problem.workflow();
        let mut partial = Partial::new(problem);
        let mut waits: Vec<_> = problem.tasks().map(|task| workflow.parents(task).len()).collect();
        let roots = problem.tasks().filter(|task| waits[task.index()] == 0);
        let mut ready: BinaryHeap<_> = roots.map(|task| Reverse((Ordered(0.0), task))).collect();
        while let Some(Reverse((Ordered(arrival), task))) = ready.pop() {
            let candidate = self.choose(&partial, task, arrival)?;
            partial.place(task, candidate);
            for edge in workflow.children(task) {
                waits[edge.task.index()] -= 1;
                if waits[edge.task.index()] == 0 {
                    let ends = workflow.parents(edge.task).iter().filter_map(|edge| partial.placement(edge.task));
                    let arrival = ends.map(|placement| placement.finish).fold(0.0, f64::max);
                    ready.push(Reverse((Ordered(arrival), edge.task)));
                }
            }
        }
        partial.into_schedule()
    }
}

impl Myopic {
    fn choose(&self, partial: &Partial<'_>, task: TaskId, arrival: f64) -> Result<Candidate, PlanError> {
        let problem = partial.problem();
        let slowdown = |candidate: &Candidate| problem.machine(candidate.machine).slowdown;
        let free = |candidate: &Candidate| partial.start(task, candidate.machine, 0.0, 0.0, Fill::Append);
        let key = |candidate: &Candidate| match self.rule {
            MyopicRule::EarliestFinish => (candidate.finish, 0.0),
            MyopicRule::Fastest => (slowdown(candidate), 0.0),
            MyopicRule::FastestIdle => (free(candidate).max(arrival), slowdown(candidate)),
            MyopicRule::FirstFree => (free(candidate), 0.0),
        };
        let candidates = problem.machines().filter_map(|machine| partial.candidate(task, machine, Fill::Append));
        let order = |candidate: &Candidate| {
            let (first, second) = key(candidate);
            (Ordered(first), Ordered(second), candidate.machine)
        };
        candidates.min_by_key(order).ok_or_else(|| partial.impossible(task))
    }
}
