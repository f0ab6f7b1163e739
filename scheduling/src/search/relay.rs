//! Our own search, which takes turns: descents from every list planner and from many randomised constructions fill a
//! pool of good solutions; then annealing improves one after the other, each time with more steps, and iterated local
//! search ends each turn.
//!
//! Constructions find the right places for large files, which single changes hardly find; annealing crosses the
//! plateaus on which descents end; perturbations move a task's outputs together with the tasks that read them. Steps
//! double when the whole pool had its turn, so the search needs no time limit in advance. No result is worse than that
//! of any list planner or just-in-time planner.

use super::annealing::Annealing;
use super::construct::construct;
use super::evaluator::{Change, Evaluator};
use super::grasp_ils::perturb;
use super::keeper::Keeper;
use super::local_search::descend;
use super::solution::{Solution, random_machine};
use crate::id::TaskId;
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
    /// Rounds of iterated local search of the first turn.
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
        Self { constructions: 30, pool: 4, rounds: 30, steps: 50_000, doublings: 6, first: 0.01, last: 0.000_1 }
    }
}

/// The parts of all triples among which constructions choose, in turn.
const ALPHAS: [f64; 4] = [0.2, 0.05, 0.1, 0.01];

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
        let mut pool: Vec<(Score, Solution)> = Vec::new();
        for number in 0..starts.len() + self.constructions {
            if keeper.stopped() {
                break;
            }
            let alpha = ALPHAS[number % ALPHAS.len()];
            let start = match starts.pop() {
                Some(start) => start,
                None => construct(problem, objective, alpha, &mut random),
            };
            let mut evaluator = Evaluator::new(problem, objective, start);
            descend(&mut evaluator, stop);
            keeper.offer(evaluator.solution(), evaluator.score());
            self.enter(&mut pool, evaluator.score(), evaluator.solution());
        }
        self.turns(&mut keeper, pool, &mut random);
        keeper.finish()
    }
}

impl Relay {
    /// Keeps the best solutions with different scores, best first.
    fn enter(&self, pool: &mut Vec<(Score, Solution)>, score: Score, solution: &Solution) {
        let place = pool.iter().position(|(other, _)| !other.beats(&score)).unwrap_or(pool.len());
        let same = pool.get(place).is_some_and(|(other, _)| !score.beats(other));
        if !same {
            pool.insert(place, (score, solution.clone()));
            pool.truncate(self.pool.max(1));
        }
    }

    fn turns(&self, keeper: &mut Keeper<'_, '_, '_>, mut pool: Vec<(Score, Solution)>, random: &mut Random) {
        let (problem, objective, stop) = (keeper.problem, keeper.run.objective, keeper.run.stop);
        for doubling in 0..self.doublings {
            let turn =
                Annealing { steps: self.steps << doubling.min(40), descents: 1, first: self.first, last: self.last };
            for (score, solution) in &mut pool {
                if keeper.stopped() {
                    return;
                }
                let evaluator = Evaluator::new(problem, objective, solution.clone());
                let mut ended = turn.descend(keeper, evaluator, random);
                descend(&mut ended, stop);
                keeper.offer(ended.solution(), ended.score());
                iterate(keeper, &mut ended, self.rounds << doubling.min(20), random);
                if ended.score().beats(score) {
                    *score = ended.score();
                    solution.clone_from(ended.solution());
                }
            }
        }
    }
}

/// Rounds of perturbation and descent; what is not worse stays.
fn iterate(keeper: &mut Keeper<'_, '_, '_>, current: &mut Evaluator<'_>, rounds: u64, random: &mut Random) {
    let stop = keeper.run.stop;
    for _ in 0..rounds {
        if keeper.stopped() {
            return;
        }
        let before = (current.score(), current.solution().clone());
        if random.chance(0.5) {
            move_family(current, random);
        } else {
            perturb(current, 0.05, random);
        }
        descend(current, stop);
        keeper.offer(current.solution(), current.score());
        if before.0.beats(&current.score()) {
            current.replace(before.1);
        }
    }
}

/// Moves the outputs of a random task to a random machine, and some of the tasks that read them.
fn move_family(evaluator: &mut Evaluator<'_>, random: &mut Random) {
    let problem = evaluator.problem();
    let workflow = problem.workflow();
    let task = TaskId::new(random.below(problem.task_count()));
    let machine = random_machine(problem, task, random);
    for file in workflow.outputs(task) {
        evaluator.force(Change::Home(*file, machine));
    }
    let part = random.unit();
    for edge in workflow.children(task) {
        if random.chance(part) {
            evaluator.force(Change::MachineAndFiles(edge.task, machine));
        }
    }
}
