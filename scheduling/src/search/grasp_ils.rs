//! GRASP-ILS of Stockinger 2020, chapters 3 and 4, for CPUs and GPUs with places of files: randomised construction,
//! variable neighbourhood descent, then rounds of perturbation and descent.
//!
//! Where text and published runs differ, the values are options: the text perturbs a tenth of the tasks and walks on
//! from whatever comes, the runs perturbed a twentieth and kept the old solution unless the new one was better. HEFT
//! and Min-Min are improved first, so the result is never worse than these.

use super::construct::construct;
use super::evaluator::{Change, Evaluator};
use super::keeper::Keeper;
use super::local_search::{descend, family};
use super::solution::{Solution, random_machine};
use crate::id::{FileId, MachineId, TaskId};
use crate::objective::Score;
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::seeded_random::SeededRandom;

/// Which solution the next round of iterated local search starts from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Acceptance {
    /// The new one if it is not worse, else the old one.
    NotWorse,
    /// The new one, as in Algorithm 10.
    Always,
    /// The new one if it is worse by at most this part of the old one; the part falls to nothing over the rounds. This
    /// is ours: it leaves valleys from which no descent of single changes leads out.
    Cooling(f64),
}

impl Acceptance {
    /// Whether the search goes on from the new solution. `left` is the part of the rounds that is left.
    fn accepts(self, new: Score, old: Score, left: f64) -> bool {
        match self {
            Self::NotWorse => !old.beats(&new),
            Self::Always => true,
            Self::Cooling(part) => !Score { value: old.value * (1.0 + part * left), ..old }.beats(&new),
        }
    }
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
    /// Whether half of the perturbations move the outputs of a task together with tasks that read them. This is ours.
    pub families: bool,
}

impl Default for GraspIls {
    fn default() -> Self {
        Self {
            alpha: 0.2,
            constructions: 100,
            rounds: 130,
            perturbation: 0.05,
            acceptance: Acceptance::Cooling(0.01),
            families: true,
        }
    }
}

impl Planner for GraspIls {
    fn name(&self) -> &'static str {
        "grasp-ils"
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let (seed, objective) = (run.seed, run.objective);
        let mut keeper = Keeper::new(problem, run);
        let starts = keeper.start()?;
        let Some(first) = starts.first().cloned() else {
            return keeper.finish();
        };
        let current = Evaluator::new(problem, objective, first);
        let mut walk = IlsWalk::new(*self, seed, current, starts);
        while walk.step(&mut keeper) {}
        keeper.finish()
    }
}

/// GRASP-ILS on its way, step by step, so that other searches can take turns with it. With equal seeds and starts it
/// takes the same steps whatever the others do.
pub(super) struct IlsWalk<'p> {
    options: GraspIls,
    random: SeededRandom,
    current: Evaluator<'p>,
    /// They take the place of the first constructions.
    starts: Vec<Solution>,
    constructed: u64,
    /// Rounds since the last construction.
    round: u64,
}

impl<'p> IlsWalk<'p> {
    pub(super) fn new(options: GraspIls, seed: u64, current: Evaluator<'p>, starts: Vec<Solution>) -> Self {
        let round = options.rounds;
        Self { options, random: SeededRandom::new(seed), current, starts, constructed: 0, round }
    }

    pub(super) fn current(&self) -> &Evaluator<'p> {
        &self.current
    }

    /// Constructs and descends, or makes a round of perturbation and descent. False if the walk is over or stopped.
    pub(super) fn step(&mut self, keeper: &mut Keeper<'_, '_, '_>) -> bool {
        if keeper.stopped() {
            return false;
        }
        if self.round >= self.options.rounds {
            if self.constructed >= self.options.constructions {
                return false;
            }
            self.constructed += 1;
            self.round = 0;
            let (problem, objective) = (keeper.problem, keeper.run.objective);
            let start = self.starts.pop();
            let construct = || construct(problem, objective, self.options.alpha, &mut self.random);
            self.current.replace(start.unwrap_or_else(construct));
            descend(&mut self.current, keeper.run.stop);
            keeper.offer(self.current.solution(), self.current.score());
        } else {
            self.perturb_and_descend(keeper);
            self.round += 1;
        }
        true
    }

    fn perturb_and_descend(&mut self, keeper: &mut Keeper<'_, '_, '_>) {
        let Self { options, random, current, round, .. } = self;
        let before = (current.score(), current.solution().clone());
        if options.families && random.chance(0.5) {
            move_family(current, random);
        } else {
            perturb(current, options.perturbation, random);
        }
        descend(current, keeper.run.stop);
        keeper.offer(current.solution(), current.score());
        let left = 1.0 - *round as f64 / options.rounds as f64;
        if !options.acceptance.accepts(current.score(), before.0, left) {
            current.replace(before.1);
        }
        keeper.round();
    }
}

/// Random machines for random tasks, and random places for random files, with even chances.
fn perturb(evaluator: &mut Evaluator<'_>, part: f64, random: &mut SeededRandom) {
    let problem = evaluator.problem();
    let workflow = problem.workflow();
    let most = ((part * problem.task_count() as f64) as usize).max(1);
    let count = 1 + random.below(most);
    let mut changes = Vec::with_capacity(count);
    for _ in 0..count {
        if problem.places_files() && workflow.file_count() > 0 && random.chance(0.3) {
            let file = FileId::new(random.below(workflow.file_count()));
            changes.push(Change::Home(file, MachineId::new(random.below(problem.machine_count()))));
        } else {
            let among = if random.chance(0.5) { evaluator.critical() } else { &evaluator.solution().order };
            let Some(task) = among.get(random.below(among.len())).copied() else {
                continue;
            };
            changes.push(Change::MachineAndFiles(task, random_machine(problem, task, random)));
        }
    }
    evaluator.force(&changes);
}

/// Moves the outputs of a random task to a random machine, and some of the tasks that read them.
fn move_family(evaluator: &mut Evaluator<'_>, random: &mut SeededRandom) {
    let problem = evaluator.problem();
    let task = TaskId::new(random.below(problem.task_count()));
    let machine = random_machine(problem, task, random);
    let part = random.unit();
    let changes = family(evaluator, task, machine, |_, _| random.chance(part));
    evaluator.force(&changes);
}
