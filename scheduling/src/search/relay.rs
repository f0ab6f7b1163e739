//! Our own search, in which two searches take turns. GRASP-ILS goes its way as it would alone, with the same seed.
//! Annealing improves the solutions of a pool, one after the other; descents from every list planner and from some
//! randomised constructions fill the pool, and every new best solution of GRASP-ILS enters it.
//!
//! Annealing crosses the plateaus on which descents end; constructions find the right places for large files, which
//! single changes hardly find. No search suits all problems: the one with the better solution so far gets most of the
//! work. The first temperature differs from turn to turn for the same reason. Annealing steps double when the whole pool
//! had its turn, so the search needs no time limit in advance. No result is worse than that of GRASP-ILS with the same
//! constructions and rounds, nor than that of any list planner or just-in-time planner that the search begins with.

use super::annealing::Annealing;
use super::construct::construct;
use super::evaluator::Evaluator;
use super::grasp_ils::{GraspIls, IlsWalk};
use super::keeper::Keeper;
use super::local_search::descend;
use super::solution::Solution;
use crate::just_in_time::{MaxMin, Myopic, Sufferage};
use crate::list::{Cpop, Hybrid, Peft};
use crate::objective::Score;
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::seeded_random::SeededRandom;

/// The relay planner.
#[derive(Debug, Clone, Copy)]
pub struct Relay {
    /// Randomised constructions that may enter the pool.
    pub constructions: usize,
    /// Solutions of the pool.
    pub pool: usize,
    /// The iterated local search that takes turns with annealing.
    pub grasp_ils: GraspIls,
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
        let grasp_ils = GraspIls { constructions: 12, ..GraspIls::default() };
        Self { constructions: 8, pool: 4, grasp_ils, steps: 50_000, doublings: 5, first: 0.01, last: 0.000_1 }
    }
}

/// The parts of all triples among which constructions choose, in turn.
const ALPHAS: [f64; 4] = [0.2, 0.05, 0.1, 0.01];

/// The part of the work that the search with the worse solution gets.
const SHARE_BEHIND: f64 = 0.25;

/// Factors of the first temperature, in turn.
const HEATS: [f64; 3] = [1.0, 5.0, 0.2];

impl Planner for Relay {
    fn name(&self) -> &'static str {
        "relay"
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let (objective, stop) = (run.objective, run.stop);
        let (seed, mut random) = (run.seed, SeededRandom::new(run.seed));
        let others: [&dyn Planner; 6] = [&MaxMin, &Sufferage, &Myopic::default(), &Cpop, &Peft, &Hybrid];
        let planned: Vec<_> = others.iter().filter_map(|planner| planner.plan(problem, run).ok()).collect();
        let mut keeper = Keeper::new(problem, run);
        let mut starts = keeper.start()?;
        let Some(first) = starts.first().cloned() else {
            return keeper.finish();
        };
        let mut current = Evaluator::new(problem, objective, first);
        let walk = IlsWalk::new(self.grasp_ils, seed, current.clone(), starts.clone());
        starts.extend(planned.iter().map(|schedule| Solution::of_schedule(problem, schedule)));
        for start in &starts {
            keeper.offer(start, start.score(problem, objective));
        }
        let mut pool = SolutionPool { limit: self.pool.max(1), members: Vec::new() };
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
        let annealed = pool.members.first().map_or(Score::WORST, |(score, _)| *score);
        let mut turns = Turns { walk, current, pool, walked: Score::WORST, annealed, walks: true };
        self.take_turns(&mut keeper, &mut turns, &mut random);
        keeper.finish()
    }
}

/// Both searches, and the best score that each has found.
struct Turns<'p> {
    walk: IlsWalk<'p>,
    current: Evaluator<'p>,
    pool: SolutionPool,
    walked: Score,
    annealed: Score,
    /// Whether GRASP-ILS is not over.
    walks: bool,
}

impl Turns<'_> {
    /// GRASP-ILS goes on until it has had its share of the work.
    fn walk(&mut self, keeper: &mut Keeper<'_, '_, '_>) {
        while self.walks && !self.walk_has_its_share() {
            self.walk_on(keeper);
        }
    }

    fn walk_on(&mut self, keeper: &mut Keeper<'_, '_, '_>) {
        self.walks = self.walk.step(keeper);
        let found = self.walk.current();
        if found.score().beats(&self.walked) {
            self.walked = found.score();
            self.pool.enter(found.score(), found.solution());
        }
    }

    fn walk_has_its_share(&self) -> bool {
        let share = if self.walked.beats(&self.annealed) {
            1.0 - SHARE_BEHIND
        } else if self.annealed.beats(&self.walked) {
            SHARE_BEHIND
        } else {
            0.5
        };
        let (walked, annealed) = (self.walk.current().work() as f64, self.current.work() as f64);
        walked >= share * (walked + annealed)
    }
}

impl Relay {
    /// The same search, which goes on until it is stopped.
    pub fn endless(self) -> Self {
        let grasp_ils = GraspIls { constructions: u64::MAX, ..self.grasp_ils };
        Self { doublings: u32::MAX, grasp_ils, ..self }
    }

    fn take_turns(&self, keeper: &mut Keeper<'_, '_, '_>, turns: &mut Turns<'_>, random: &mut SeededRandom) {
        let mut turn = 0;
        for doubling in 0..self.doublings {
            let steps = self.steps << doubling.min(40);
            for place in 0..turns.pool.limit {
                turns.walk(keeper);
                let Some((_, member)) = turns.pool.members.get(place).cloned() else {
                    break;
                };
                if keeper.stopped() {
                    return;
                }
                let first = self.first * HEATS[turn % HEATS.len()];
                let annealing = Annealing { steps, descents: 1, first, last: self.last };
                turns.current.replace(member);
                annealing.descend(keeper, &mut turns.current, random);
                descend(&mut turns.current, keeper.run.stop);
                let (score, solution) = (turns.current.score(), turns.current.solution());
                keeper.offer(solution, score);
                turns.pool.improve(place, score, solution);
                if score.beats(&turns.annealed) {
                    turns.annealed = score;
                }
                turn += 1;
            }
        }
        while turns.walks {
            turns.walk_on(keeper);
        }
    }
}

/// Solutions with different scores, best first.
struct SolutionPool {
    limit: usize,
    members: Vec<(Score, Solution)>,
}

impl SolutionPool {
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
