//! A genetic algorithm after Yu and Buyya 2006 as cited by Aguilar 2014, A.3.1, who leaves it open: solutions are
//! crossed at a point of the order and of the machines, mutated, and chosen by tournaments. Time, budget and deadline
//! come with the objective: a solution that breaks its limit loses against every one that keeps it.

use super::keeper::Keeper;
use super::solution::{Solution, order_by, random_machine};
use crate::id::{MachineId, TaskId};
use crate::objective::Score;
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::seeded_random::SeededRandom;

/// The genetic planner.
#[derive(Debug, Clone, Copy)]
pub struct Genetic {
    /// Solutions of a generation.
    pub population: usize,
    /// Generations.
    pub generations: u64,
    /// The chance that a child is crossed.
    pub crossover: f64,
    /// The part of the machines and places that a mutation changes.
    pub mutation: f64,
}

impl Default for Genetic {
    fn default() -> Self {
        Self { population: 50, generations: 300, crossover: 0.8, mutation: 0.02 }
    }
}

impl Planner for Genetic {
    fn name(&self) -> &'static str {
        "genetic"
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let objective = run.objective;
        let mut random = SeededRandom::new(run.seed);
        let mut keeper = Keeper::new(problem, run);
        let mut solutions = keeper.start()?;
        while solutions.len() < self.population.max(2) {
            solutions.push(Solution::random(problem, &mut random));
        }
        let scored = |solution: Solution| (solution.score(problem, objective), solution);
        let mut population: Vec<_> = solutions.into_iter().map(scored).collect();
        for _ in 0..self.generations {
            if keeper.stopped() {
                break;
            }
            let mut next: Vec<_> = keeper.best().cloned().into_iter().collect();
            while next.len() < population.len() {
                let (one, other) = (tournament(&population, &mut random), tournament(&population, &mut random));
                let mut child =
                    if random.chance(self.crossover) { cross(problem, one, other, &mut random) } else { one.clone() };
                mutate(problem, &mut child, self.mutation, &mut random);
                let score = child.score(problem, objective);
                keeper.offer(&child, score);
                next.push((score, child));
            }
            population = next;
            keeper.round();
        }
        keeper.finish()
    }
}

/// The better of two random solutions.
pub(super) fn tournament<'s>(population: &'s [(Score, Solution)], random: &mut SeededRandom) -> &'s Solution {
    let one = &population[random.below(population.len())];
    let other = &population[random.below(population.len())];
    if one.0.beats(&other.0) { &one.1 } else { &other.1 }
}

/// The order of one parent up to a point, then the rest as in the other parent; machines and places likewise.
pub(super) fn cross(problem: &Problem, one: &Solution, other: &Solution, random: &mut SeededRandom) -> Solution {
    let point = random.below(one.order.len() + 1);
    let mut taken = vec![false; problem.task_count()];
    let mut order: Vec<TaskId> = one.order[..point].to_vec();
    order.iter().for_each(|task| taken[task.index()] = true);
    order.extend(other.order.iter().filter(|task| !taken[task.index()]));
    let mix = |one: &[MachineId], other: &[MachineId], point: usize| [&one[..point], &other[point..]].concat();
    let (machine_point, home_point) = (random.below(one.machines.len() + 1), random.below(one.homes.len() + 1));
    Solution {
        order,
        machines: mix(&one.machines, &other.machines, machine_point),
        homes: mix(&one.homes, &other.homes, home_point),
    }
}

/// Changes machines, places and a few positions at random.
pub(super) fn mutate(problem: &Problem, solution: &mut Solution, part: f64, random: &mut SeededRandom) {
    for task in problem.tasks() {
        if random.chance(part) {
            solution.machines[task.index()] = random_machine(problem, task, random);
        }
    }
    for home in &mut solution.homes {
        if random.chance(part) {
            *home = MachineId::new(random.below(problem.machine_count()));
        }
    }
    if random.chance(0.5) {
        let mut rank = vec![0.0; problem.task_count()];
        for (place, task) in solution.order.iter().enumerate() {
            let shift = if random.chance(part) { random.between(-10.0, 10.0) } else { 0.0 };
            rank[task.index()] = place as f64 + shift;
        }
        solution.order = order_by(problem, |task| rank[task.index()]);
    }
}
