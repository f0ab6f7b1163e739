//! Particle swarm optimisation after Pandey and others 2010 and Wu and others 2010, in the form of random keys: a
//! particle has a number for the machine of each task, the place of each file and the priority of each task; it is
//! drawn to its own best position and to the best one of all.

use super::keeper::Keeper;
use super::solution::{Solution, order_by};
use crate::id::MachineId;
use crate::objective::Score;
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::seeded_random::SeededRandom;

/// The particle swarm planner.
#[derive(Debug, Clone, Copy)]
pub struct ParticleSwarm {
    /// Particles.
    pub particles: usize,
    /// Steps of the swarm.
    pub steps: u64,
    /// How much of its speed a particle keeps.
    pub inertia: f64,
    /// How strongly a particle is drawn to each of both best positions.
    pub attraction: f64,
}

impl Default for ParticleSwarm {
    fn default() -> Self {
        Self { particles: 40, steps: 300, inertia: 0.72, attraction: 1.49 }
    }
}

struct Particle {
    at: Vec<f64>,
    speed: Vec<f64>,
    best_at: Vec<f64>,
    best: Score,
}

impl Planner for ParticleSwarm {
    fn name(&self) -> &'static str {
        "particle-swarm"
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let objective = run.objective;
        let mut random = SeededRandom::new(run.seed);
        let mut keeper = Keeper::new(problem, run);
        let starts = keeper.start()?;
        let size = 2 * problem.task_count() + problem.workflow().file_count();
        let mut swarm: Vec<_> = (0..self.particles.max(1))
            .map(|index| {
                let at = match starts.get(index) {
                    Some(start) => encode(problem, start),
                    None => (0..size).map(|_| random.unit()).collect::<Vec<_>>(),
                };
                let speed = (0..size).map(|_| random.between(-0.1, 0.1)).collect();
                Particle { best_at: at.clone(), at, speed, best: Score::WORST }
            })
            .collect();
        let mut leader = swarm[0].at.clone();
        for step in 0..self.steps {
            for particle in &mut swarm {
                if keeper.stopped() {
                    return keeper.finish();
                }
                if step > 0 {
                    self.fly(particle, &leader, &mut random);
                }
                let solution = decode_keys(problem, &particle.at);
                let score = solution.score(problem, objective);
                if score.beats(&particle.best) {
                    particle.best = score;
                    particle.best_at.clone_from(&particle.at);
                }
                if keeper.offer(&solution, score) {
                    leader.clone_from(&particle.at);
                }
            }
            keeper.round();
        }
        keeper.finish()
    }
}

impl ParticleSwarm {
    fn fly(&self, particle: &mut Particle, leader: &[f64], random: &mut SeededRandom) {
        for (place, at) in particle.at.iter_mut().enumerate() {
            let own = self.attraction * random.unit() * (particle.best_at[place] - *at);
            let common = self.attraction * random.unit() * (leader[place] - *at);
            let speed = (self.inertia * particle.speed[place] + own + common).clamp(-0.5, 0.5);
            particle.speed[place] = speed;
            *at = (*at + speed).clamp(0.0, 1.0 - f64::EPSILON);
        }
    }
}

/// Numbers from 0 to 1: machines of tasks, priorities of tasks, places of files.
fn encode(problem: &Problem, solution: &Solution) -> Vec<f64> {
    let machines = problem.machine_count() as f64;
    let key = |machine: &MachineId| (machine.index() as f64 + 0.5) / machines;
    let mut keys: Vec<_> = solution.machines.iter().map(key).collect();
    let mut priorities = vec![0.0; problem.task_count()];
    for (place, task) in solution.order.iter().enumerate() {
        priorities[task.index()] = (place as f64 + 0.5) / priorities.len() as f64;
    }
    keys.extend(priorities);
    keys.extend(solution.homes.iter().map(key));
    keys
}

fn decode_keys(problem: &Problem, keys: &[f64]) -> Solution {
    let (tasks, machines) = (problem.task_count(), problem.machine_count());
    let machine = |key: f64| MachineId::new(((key * machines as f64) as usize).min(machines - 1));
    let able = |task: crate::TaskId| {
        let first = machine(keys[task.index()]);
        let others = (0..machines).map(|step| MachineId::new((first.index() + step) % machines));
        others.into_iter().find(|machine| problem.can_run(task, *machine)).unwrap_or(first)
    };
    Solution {
        order: order_by(problem, |task| keys[tasks + task.index()]),
        machines: problem.tasks().map(able).collect(),
        homes: keys[2 * tasks..].iter().map(|key| machine(*key)).collect(),
    }
}
