//! GRASP of Aguilar 2014, A.3.2, after Blythe and others 2005: each ready task gets a random machine of its restricted
//! candidate list; a local search improves the result; the best of many rounds wins.
//!
//! The thesis leaves the list, the local search and the end open. Here the list holds the machines on which the task
//! ends at most `alpha` of the way from its earliest to its latest end, all ready tasks are assigned before the next
//! ready set is formed, and the local search is the descent of GRASP-ILS.

use super::evaluator::Evaluator;
use super::keeper::Keeper;
use super::local_search::descend;
use super::solution::Solution;
use crate::partial_schedule::{Candidate, Partial};
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::seeded_random::SeededRandom;
use crate::timeline::Fill;

/// The GRASP planner.
#[derive(Debug, Clone, Copy)]
pub struct Grasp {
    /// How far from the earliest to the latest end candidates may end.
    pub alpha: f64,
    /// Rounds.
    pub rounds: u64,
}

impl Default for Grasp {
    fn default() -> Self {
        Self { alpha: 0.3, rounds: 100 }
    }
}

impl Planner for Grasp {
    fn name(&self) -> &'static str {
        "grasp"
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let (objective, stop) = (run.objective, run.stop);
        let mut random = SeededRandom::new(run.seed);
        let mut keeper = Keeper::new(problem, run);
        keeper.start()?;
        for _ in 0..self.rounds {
            if keeper.stopped() {
                break;
            }
            let Ok(schedule) = self.construct(problem, &mut random) else {
                continue;
            };
            let mut evaluator = Evaluator::new(problem, objective, Solution::of_schedule(problem, &schedule));
            descend(&mut evaluator, stop);
            keeper.offer(evaluator.solution(), evaluator.score());
            keeper.round();
        }
        keeper.finish()
    }
}

impl Grasp {
    fn construct(&self, problem: &Problem, random: &mut SeededRandom) -> Result<Schedule, PlanError> {
        let workflow = problem.workflow();
        let mut partial = Partial::new(problem);
        let mut waits: Vec<_> = problem.tasks().map(|task| workflow.parents(task).len()).collect();
        let mut batch: Vec<_> = problem.tasks().filter(|task| waits[task.index()] == 0).collect();
        while !batch.is_empty() {
            random.shuffle(&mut batch);
            let mut next = Vec::new();
            for task in batch {
                let ends = |candidate: &Candidate| candidate.finish;
                let mut list: Vec<_> =
                    problem.machines().filter_map(|machine| partial.candidate(task, machine, Fill::Append)).collect();
                let first = list.iter().map(ends).fold(f64::INFINITY, f64::min);
                let last = list.iter().map(ends).fold(0.0, f64::max);
                list.retain(|candidate| candidate.finish <= first + self.alpha * (last - first));
                let Some(candidate) = list.get(random.below(list.len())).copied() else {
                    return Err(partial.impossible(task));
                };
                partial.place(task, candidate);
                for edge in workflow.children(task) {
                    waits[edge.task.index()] -= 1;
                    if waits[edge.task.index()] == 0 {
                        next.push(edge.task);
                    }
                }
            }
            batch = next;
        }
        partial.into_schedule()
    }
}
