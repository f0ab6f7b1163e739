//! Simulated annealing, after Young and others 2003 as cited by Aguilar 2014, A.3.3, who leaves it open. Random changes
//! of machines, positions and places of files; worse solutions are accepted with a probability that falls with the
//! temperature, which falls geometrically. The search starts from the best of HEFT and Min-Min.

use super::evaluator::{Change, Evaluator};
use super::keeper::Keeper;
use super::local_search::family;
use super::solution::random_machine;
use crate::id::{MachineId, TaskId};
use crate::objective::Score;
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::seeded_random::SeededRandom;

/// The annealing planner.
#[derive(Debug, Clone, Copy)]
pub struct Annealing {
    /// Changes of one descent from the first to the last temperature.
    pub steps: u64,
    /// How often the temperature falls from the first to the last; each time from the best solution so far.
    pub descents: u64,
    /// The first temperature, relative to the score of the start.
    pub first: f64,
    /// The last temperature, relative to the score of the start.
    pub last: f64,
}

impl Default for Annealing {
    fn default() -> Self {
        Self { steps: 200_000, descents: 1, first: 0.02, last: 0.000_02 }
    }
}

/// The clock is looked at once in this many changes.
const STOP_INTERVAL: u64 = 256;

impl Planner for Annealing {
    fn name(&self) -> &'static str {
        "annealing"
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let objective = run.objective;
        let mut random = SeededRandom::new(run.seed);
        let mut keeper = Keeper::new(problem, run);
        keeper.start()?;
        for _ in 0..self.descents {
            let Some((_, start)) = keeper.best().cloned() else {
                break;
            };
            let mut evaluator = Evaluator::new(problem, objective, start);
            self.descend(&mut keeper, &mut evaluator, &mut random);
            if keeper.stopped() {
                break;
            }
        }
        keeper.finish()
    }
}

impl Annealing {
    /// One fall of the temperature. A stop ends it at once.
    pub(super) fn descend(
        &self,
        keeper: &mut Keeper<'_, '_, '_>,
        current: &mut Evaluator<'_>,
        random: &mut SeededRandom,
    ) {
        let scale = current.score().value.max(f64::MIN_POSITIVE);
        let ratio = (self.last / self.first).ln();
        let mut temperature = self.first * scale;
        let mut changes = Vec::new();
        for step in 0..self.steps {
            if step % STOP_INTERVAL == 0 {
                if keeper.stopped() {
                    return;
                }
                temperature = self.first * scale * (ratio * step as f64 / self.steps as f64).exp();
            }
            random_changes(current, random, &mut changes);
            // Drawing the chance first turns it into a limit of the score, and limits are cheap to check.
            let slack = -temperature * (1.0 - random.unit()).ln() + 1e-9 * scale;
            let limit = Score { value: current.score().value + slack, ..current.score() };
            if current.accept_below(&changes, limit) {
                keeper.offer(current.solution(), current.score());
            }
            keeper.round();
        }
    }
}

/// A random change of any kind, or several that belong together.
pub(super) fn random_changes(evaluator: &mut Evaluator<'_>, random: &mut SeededRandom, changes: &mut Vec<Change>) {
    changes.clear();
    let problem = evaluator.problem();
    let workflow = problem.workflow();
    // Half of the changes concern a critical task, since others hardly shorten the schedule.
    let among = if random.chance(0.5) { evaluator.critical() } else { &evaluator.solution().order };
    let Some(task) = among.get(random.below(among.len())).copied() else {
        return;
    };
    let kinds = if problem.places_files() && workflow.file_count() > 0 { 20 } else { 10 };
    match random.below(kinds) {
        0..3 => changes.push(Change::Exchange(task, TaskId::new(random.below(problem.task_count())))),
        3..5 => changes.push(Change::Machine(task, random_machine(problem, task, random))),
        5..7 => changes.push(random_move(evaluator, task, random)),
        7..10 => {
            changes.push(random_move(evaluator, task, random));
            changes.push(Change::Machine(task, random_machine(problem, task, random)));
        }
        10..13 => {
            changes.push(random_move(evaluator, task, random));
            changes.push(Change::MachineAndFiles(task, random_machine(problem, task, random)));
        }
        13..16 => changes.push(Change::MachineAndFiles(task, random_machine(problem, task, random))),
        16..19 => {
            let files = workflow.inputs(task).len() + workflow.outputs(task).len();
            let mut all = workflow.inputs(task).iter().chain(workflow.outputs(task));
            let file = all.nth(random.below(files)).copied();
            let machine = MachineId::new(random.below(problem.machine_count()));
            changes.extend(file.map(|file| Change::Home(file, machine)));
        }
        _ => {
            let machine = random_machine(problem, task, random);
            let part = random.unit();
            changes.extend(family(evaluator, task, machine, |_, _| random.chance(part)));
        }
    }
}

/// A random position between the parents and the children of a task.
fn random_move(evaluator: &Evaluator<'_>, task: TaskId, random: &mut SeededRandom) -> Change {
    let (low, high) = evaluator.range(task);
    Change::Move(evaluator.position(task), low + random.below(high + 1 - low))
}
