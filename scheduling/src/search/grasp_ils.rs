//! GRASP-ILS of Stockinger 2020, chapters 3 and 4, for CPUs and GPUs with places of files: randomised construction,
//! variable neighbourhood descent, then rounds of perturbation and descent.
//!
//! Where text and published runs differ, the values are options: the text perturbs a tenth of the tasks and walks on
//! from whatever comes, the runs perturbed a twentieth and kept the old solution unless the new one was better. HEFT
//! and Min-Min are improved first, so the result is never worse than these.

use super::construct::construct;
use super::evaluator::{Change, Evaluator};
use super::keeper::Keeper;
use super::local_search::descend;
use super::solution::random_machine;
use crate::id::{FileId, MachineId, TaskId};
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::random::Random;
use crate::schedule::Schedule;

/// Which solution the next round of iterated local search starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    /// The new one if it is not worse, else the old one.
    NotWorse,
    /// The new one, as in Algorithm 10.
    Always,
}

/// The GRASP-ILS planner.
#[derive(Debug, Clone, Copy)]
pub struct GraspIls {
    /// The part of all triples among which the construction chooses.
    pub alpha: f64,
    /// Constructions, at most.
    pub constructions: u64,
    /// Rounds of iterated local search after each construction.
    pub rounds: u64,
    /// The part of the tasks that a perturbation touches.
    pub perturbation: f64,
    /// Which solution the next round starts from.
    pub acceptance: Acceptance,
}

impl Default for GraspIls {
    fn default() -> Self {
        Self { alpha: 0.2, constructions: 100, rounds: 130, perturbation: 0.05, acceptance: Acceptance::NotWorse }
    }
}

impl Planner for GraspIls {
    fn name(&self) -> &'static str {
        "grasp-ils"
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let (seed, objective, stop) = (run.seed, run.objective, run.stop);
        let mut random = Random::new(seed);
        let mut keeper = Keeper::new(problem, run);
        for start in keeper.start()? {
            let mut current = Evaluator::new(problem, objective, start);
            descend(&mut current, stop);
            keeper.offer(current.solution(), current.score());
        }
        for _ in 0..self.constructions {
            let constructed = construct(problem, objective, self.alpha, &mut random);
            let mut current = Evaluator::new(problem, objective, constructed);
            descend(&mut current, stop);
            keeper.offer(current.solution(), current.score());
            for _ in 0..self.rounds {
                if keeper.stopped() {
                    return keeper.finish();
                }
                let before = (current.score(), current.solution().clone());
                perturb(&mut current, self.perturbation, &mut random);
                descend(&mut current, stop);
                keeper.offer(current.solution(), current.score());
                if self.acceptance == Acceptance::NotWorse && before.0.beats(&current.score()) {
                    current.replace(before.1);
                }
                keeper.round();
            }
        }
        keeper.finish()
    }
}

/// Random machines for random tasks, and random places for random files, with even chances.
pub(super) fn perturb(evaluator: &mut Evaluator<'_>, part: f64, random: &mut Random) {
    let problem = evaluator.problem();
    let workflow = problem.workflow();
    let changes = ((part * problem.task_count() as f64) as usize).max(1);
    for _ in 0..changes {
        if problem.places_files() && workflow.file_count() > 0 && random.chance(0.5) {
            let file = FileId::new(random.below(workflow.file_count()));
            evaluator.force(Change::Home(file, MachineId::new(random.below(problem.machine_count()))));
        } else {
            let task = TaskId::new(random.below(problem.task_count().max(1)));
            evaluator.force(Change::Machine(task, random_machine(problem, task, random)));
        }
    }
}
