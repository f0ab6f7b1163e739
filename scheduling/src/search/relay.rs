//! Our own search, which takes turns: descents from every list planner and from some randomised constructions fill a
//! pool of good solutions. Then annealing improves one after the other, and after each of these turns GRASP-ILS makes
//! and improves a new solution, which enters the pool if it is good enough.
//!
//! Annealing crosses the plateaus on which descents end; constructions find the right places for large files, which
//! single changes hardly find. The first temperature differs from turn to turn, since no single one suits all problems.
//! Annealing steps double when the whole pool had its turn, so the search needs no time limit in advance. No result is
//! worse than that of any list planner or just-in-time planner that the search begins with.

use super::annealing::Annealing;
use super::construct::construct;
use super::evaluator::Evaluator;
use super::grasp_ils::GraspIls;
use super::keeper::Keeper;
use super::local_search::descend;
use super::solution::Solution;
use crate::just_in_time::{MaxMin, Myopic, Sufferage};
use crate::list::{Cpop, Hybrid, Peft};
use crate::objective::Score;
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::random::Random;
use crate::schedule::Schedule;

/// The relay planner.
#[derive(Debug, Clone, Copy)]
pub struct Relay {
    /// Randomised constructions.
    pub constructions: usize,
    /// Solutions of the pool.
    pub pool: usize,
    /// Rounds of iterated local search after each construction of a turn.
    pub rounds: u64,
    /// Annealing steps of the first turn.
    pub steps: u64,
    /// How often the steps double, at most.
    pub doublings: u32,
    /// The first temperature, relative to the score of the start.
    pub first: f64,
    /// The last temperature, relative to the score of the start.
    pub last: f64,
}

impl Default for Relay {
    fn default() -> Self {
        Self { constructions: 8, pool: 4, rounds: 30, steps: 200_000, doublings: 3, first: 0.01, last: 0.000_1 }
    }
}

/// The parts of all triples among which constructions choose, in turn.
const ALPHAS: [f64; 4] = [0.2, 0.05, 0.1, 0.01];

/// Factors of the first temperature, in turn.
const HEATS: [f64; 3] = [1.0, 5.0, 0.2];

impl Planner for Relay {
    fn name(&self) -> &'static str {
        "relay"
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let (objective, stop) = (run.objective, run.stop);
        let mut random = Random::new(run.seed);
        let others: [&dyn Planner; 6] = [&MaxMin, &Sufferage, &Myopic::default(), &Cpop, &Peft, &Hybrid];
        let planned: Vec<_> = others.iter().filter_map(|planner| planner.plan(problem, run).ok()).collect();
        let mut keeper = Keeper::new(problem, run);
        let mut starts = keeper.start()?;
        starts.extend(planned.iter().map(|schedule| Solution::of_schedule(problem, schedule)));
        for start in &starts {
            keeper.offer(start, start.score(problem, objective));
        }
        let Some(first) = starts.first().cloned() else {
            return keeper.finish();
        };
        let mut current = Evaluator::new(problem, objective, first);
        let mut pool = Pool { limit: self.pool.max(1), members: Vec::new() };
        for number in 0..starts.len() + self.constructions {
            if keeper.stopped() {
                break;
            }
            let alpha = ALPHAS[number % ALPHAS.len()];
            current.replace(starts.pop().unwrap_or_else(|| construct(problem, objective, alpha, &mut random)));
            descend(&mut current, stop);
            keeper.offer(current.solution(), current.score());
            pool.enter(current.score(), current.solution());
        }
        self.turns(&mut keeper, current, pool, &mut random);
        keeper.finish()
    }
}

impl Relay {
    fn turns<'e>(
        &self,
        keeper: &mut Keeper<'_, '_, '_>,
        mut current: Evaluator<'e>,
        mut pool: Pool,
        random: &mut Random,
    ) {
        let (problem, objective, stop) = (keeper.problem, keeper.run.objective, keeper.run.stop);
        let grasp_ils = GraspIls { rounds: self.rounds, ..GraspIls::default() };
        let mut turn = 0;
        for doubling in 0..self.doublings {
            let steps = self.steps << doubling.min(40);
            for place in 0..pool.limit {
                let Some((_, member)) = pool.members.get(place).cloned() else {
                    break;
                };
                if keeper.stopped() {
                    return;
                }
                current.replace(member);
                let first = self.first * HEATS[turn % HEATS.len()];
                let annealing = Annealing { steps, descents: 1, first, last: self.last };
                current = annealing.descend(keeper, current, random);
                descend(&mut current, stop);
                keeper.offer(current.solution(), current.score());
                pool.improve(place, current.score(), current.solution());
                let alpha = ALPHAS[turn % ALPHAS.len()];
                current.replace(construct(problem, objective, alpha, random));
                grasp_ils.iterate(keeper, &mut current, random);
                pool.enter(current.score(), current.solution());
                turn += 1;
            }
        }
    }
}

/// Solutions with different scores, best first.
struct Pool {
    limit: usize,
    members: Vec<(Score, Solution)>,
}

impl Pool {
    /// Takes a solution if it is good enough and its score is new.
    fn enter(&mut self, score: Score, solution: &Solution) {
        let place = self.members.iter().position(|(other, _)| !other.beats(&score)).unwrap_or(self.members.len());
        let same = self.members.get(place).is_some_and(|(other, _)| !score.beats(other));
        if !same {
            self.members.insert(place, (score, solution.clone()));
            self.members.truncate(self.limit);
        }
    }

    /// Replaces a member by a better solution.
    fn improve(&mut self, place: usize, score: Score, solution: &Solution) {
        if score.beats(&self.members[place].0) {
            self.members.remove(place);
            self.enter(score, solution);
        }
    }
}
