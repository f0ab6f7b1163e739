//! The hybrid evolutionary algorithm (HEA) of Teylo and others, as told by Stockinger 2020, section 2.3.2: a population
//! from Min-Min, HEFT and chance; local search on the best; path relinking from an elite set; crossover and mutation.
//!
//! Text and published parameters differ in places. Taken are the parameters of chapter 5: 50 solutions, 100 generations
//! without improvement, an elite of 10, mutation 0.1, elitism 0.1, local search on the best 0.3; a solution enters the
//! elite if it differs from all of it in a quarter of its elements.

use super::evaluator::{Change, Evaluator};
use super::genetic::{cross, mutate, tournament};
use super::keeper::Keeper;
use super::local_search::{Neighbourhood, pass};
use super::solution::Solution;
use crate::objective::{Objective, Score};
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::seeded_random::SeededRandom;

/// The HEA planner.
#[derive(Debug, Clone, Copy)]
pub struct Hea {
    /// Solutions of a generation.
    pub population: usize,
    /// The search ends after this many generations without improvement.
    pub patience: u64,
    /// Solutions of the elite set.
    pub elite: usize,
    /// The part of the elements that a mutation changes.
    pub mutation: f64,
    /// The part of a generation that goes on unchanged.
    pub elitism: f64,
    /// The part of a generation that local search improves.
    pub improved: f64,
}

impl Default for Hea {
    fn default() -> Self {
        Self { population: 50, patience: 100, elite: 10, mutation: 0.1, elitism: 0.1, improved: 0.3 }
    }
}

impl Planner for Hea {
    fn name(&self) -> &'static str {
        "hea"
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let (objective, stop) = (run.objective, run.stop);
        let mut random = SeededRandom::new(run.seed);
        let mut keeper = Keeper::new(problem, run);
        let starts = keeper.start()?;
        let mut population = self.first(problem, objective, &starts, &mut random);
        let mut elite: Vec<(Score, Solution)> = Vec::new();
        let mut idle = 0;
        let mut best = Score::WORST;
        while idle < self.patience && !keeper.stopped() {
            sort(&mut population);
            if random.chance(0.5) {
                let count = ((self.improved * population.len() as f64) as usize).max(1);
                for member in population.iter_mut().take(count) {
                    let mut evaluator = Evaluator::new(problem, objective, member.1.clone());
                    for neighbourhood in [
                        Neighbourhood::Exchange,
                        Neighbourhood::Position,
                        Neighbourhood::Machine,
                        Neighbourhood::FileHome,
                    ] {
                        pass(&mut evaluator, neighbourhood, stop);
                    }
                    *member = (evaluator.score(), evaluator.solution().clone());
                }
                sort(&mut population);
            }
            idle += 1;
            if population[0].0.beats(&best) {
                idle = 0;
                let mut leader = population[0].clone();
                for member in &elite {
                    let relinked = relink(problem, objective, &member.1, &leader.1);
                    if relinked.0.beats(&leader.0) {
                        leader = relinked;
                    }
                }
                best = leader.0;
                keeper.offer(&leader.1, leader.0);
                let far = problem.task_count() / 4;
                if elite.iter().all(|member| distance(&member.1, &leader.1) >= far) {
                    elite.push(leader);
                    sort(&mut elite);
                    elite.truncate(self.elite);
                }
            }
            population = self.next(problem, objective, population, &mut random);
            keeper.round();
        }
        keeper.finish()
    }
}

impl Hea {
    /// Two fifths from Min-Min, two fifths from HEFT, each mutated more and more; the rest is random.
    fn first(
        &self,
        problem: &Problem,
        objective: Objective,
        starts: &[Solution],
        random: &mut SeededRandom,
    ) -> Vec<(Score, Solution)> {
        let mut solutions = Vec::new();
        let heuristic = self.population * 4 / 5;
        for index in 0..heuristic.max(starts.len()) {
            let mut solution = starts[index % starts.len()].clone();
            let part = 0.05 + 0.85 * index as f64 / heuristic.max(1) as f64;
            if index >= starts.len() {
                mutate(problem, &mut solution, part, random);
            }
            solutions.push(solution);
        }
        while solutions.len() < self.population.max(2) {
            solutions.push(Solution::random(problem, random));
        }
        solutions.into_iter().map(|solution| (solution.score(problem, objective), solution)).collect()
    }

    /// Children of all, then the best of old and new ones; the rest at random.
    fn next(
        &self,
        problem: &Problem,
        objective: Objective,
        mut population: Vec<(Score, Solution)>,
        random: &mut SeededRandom,
    ) -> Vec<(Score, Solution)> {
        let size = population.len();
        for _ in 0..size {
            let (one, other) = (tournament(&population[..size], random), tournament(&population[..size], random));
            let mut child = cross(problem, one, other, random);
            mutate(problem, &mut child, self.mutation * random.unit(), random);
            population.push((child.score(problem, objective), child));
        }
        sort(&mut population);
        let kept = ((self.elitism * size as f64) as usize).max(1);
        let mut rest = population.split_off(kept);
        random.shuffle(&mut rest);
        population.extend(rest.into_iter().take(size - kept));
        population
    }
}

fn sort(population: &mut [(Score, Solution)]) {
    population.sort_by(|a, b| a.0.excess.total_cmp(&b.0.excess).then(a.0.value.total_cmp(&b.0.value)));
}

/// Differing machines, places and positions.
fn distance(one: &Solution, other: &Solution) -> usize {
    let machines = one.machines.iter().zip(&other.machines).filter(|(a, b)| a != b).count();
    let homes = one.homes.iter().zip(&other.homes).filter(|(a, b)| a != b).count();
    let order = one.order.iter().zip(&other.order).filter(|(a, b)| a != b).count();
    machines + homes + order
}

/// The best solution on the way from one to another: machine by machine, place by place.
fn relink(problem: &Problem, objective: Objective, from: &Solution, to: &Solution) -> (Score, Solution) {
    let mut evaluator = Evaluator::new(problem, objective, from.clone());
    let mut best = (evaluator.score(), from.clone());
    let machines = problem.tasks().map(|task| Change::Machine(task, to.machines[task.index()]));
    let homes = problem.workflow().files().map(|file| Change::Home(file, to.homes[file.index()]));
    for change in machines.chain(homes) {
        if evaluator.force(&[change]) && evaluator.score().beats(&best.0) {
            best = (evaluator.score(), evaluator.solution().clone());
        }
    }
    best
}
