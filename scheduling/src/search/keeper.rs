//! The best solution of a search so far, and what the caller hears of it.

use super::solution::Solution;
use crate::just_in_time::MinMin;
use crate::list::Heft;
use crate::objective::Score;
use crate::planner::{PlanError, Planner, Progress, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::timeline::Fill;

/// The best solution of a search so far.
pub(super) struct Keeper<'r, 'a, 'p> {
    pub(super) problem: &'p Problem,
    pub(super) run: &'r mut Run<'a>,
    best: Option<(Score, Solution)>,
    rounds: u64,
}

impl<'r, 'a, 'p> Keeper<'r, 'a, 'p> {
    pub(super) fn new(problem: &'p Problem, run: &'r mut Run<'a>) -> Self {
        Self { problem, run, best: None, rounds: 0 }
    }

    /// Solutions of HEFT and Min-Min, which no search should be worse than. They become the best so far.
    pub(super) fn start(&mut self) -> Result<Vec<Solution>, PlanError> {
        let planners: [&dyn Planner; 3] = [&MinMin, &Heft { fill: Fill::Append }, &Heft { fill: Fill::Insert }];
        let mut solutions = Vec::new();
        let mut failed = None;
        for planner in planners {
            match planner.plan(self.problem, self.run) {
                Ok(schedule) => solutions.push(Solution::of_schedule(self.problem, &schedule)),
                Err(error) => failed = Some(error),
            }
        }
        for solution in &solutions {
            let score = solution.score(self.problem, self.run.objective);
            self.offer(solution, score);
        }
        match failed {
            Some(error) if solutions.is_empty() => Err(error),
            _ => Ok(solutions),
        }
    }

    /// Keeps a solution if it is the best so far, and says so.
    pub(super) fn offer(&mut self, solution: &Solution, score: Score) -> bool {
        if self.best.as_ref().is_some_and(|(best, _)| !score.beats(best)) {
            return false;
        }
        self.best = Some((score, solution.clone()));
        self.report(score);
        true
    }

    pub(super) fn best(&self) -> Option<&(Score, Solution)> {
        self.best.as_ref()
    }

    /// Counts a round and tells of it now and then.
    pub(super) fn round(&mut self) {
        self.rounds += 1;
        if let Some((score, _)) = &self.best
            && self.rounds.is_multiple_of(1024)
        {
            self.report(*score);
        }
    }

    fn report(&mut self, best: Score) {
        (self.run.progress)(Progress { rounds: self.rounds, best });
    }

    pub(super) fn stopped(&self) -> bool {
        (self.run.stop)()
    }

    /// The schedule of the best solution.
    pub(super) fn finish(self) -> Result<Schedule, PlanError> {
        match self.best {
            Some((_, solution)) => Ok(solution.decode(self.problem)),
            None => Ok(Schedule::of_tasks(self.problem, Vec::new())),
        }
    }
}
