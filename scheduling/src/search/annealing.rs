//! Simulated annealing, after Young and others 2003 as cited by Aguilar 2014, A.3.3, who leaves it open. Random changes
//! of machines, positions and places of files; worse solutions are accepted with a probability that falls with the
//! temperature, which falls geometrically. The search starts from the best of HEFT and Min-Min.

use super::evaluator::{Change, Evaluator};
use super::keeper::Keeper;
use super::solution::random_machine;
use crate::id::{FileId, MachineId, TaskId};
use crate::objective::Score;
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::random::Random;
use crate::schedule::Schedule;

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
        let mut random = Random::new(run.seed);
        let mut keeper = Keeper::new(problem, run);
        keeper.start()?;
        for _ in 0..self.descents {
            let Some((_, start)) = keeper.best().cloned() else {
                break;
            };
            let evaluator = Evaluator::new(problem, objective, start);
            self.descend(&mut keeper, evaluator, &mut random);
            if keeper.stopped() {
                break;
            }
        }
        keeper.finish()
    }
}

impl Annealing {
    /// One fall of the temperature; where it ends. A stop ends it at once.
    pub(super) fn descend<'e>(
        &self,
        keeper: &mut Keeper<'_, '_, '_>,
        mut current: Evaluator<'e>,
        random: &mut Random,
    ) -> Evaluator<'e> {
        let scale = current.score().value.max(f64::MIN_POSITIVE);
        let ratio = (self.last / self.first).ln();
        let mut temperature = self.first * scale;
        for step in 0..self.steps {
            if step % STOP_INTERVAL == 0 {
                if keeper.stopped() {
                    return current;
                }
                temperature = self.first * scale * (ratio * step as f64 / self.steps as f64).exp();
            }
            let change = random_change(&current, random);
            // Drawing the chance first turns it into a limit of the score, and limits are cheap to check.
            let slack = -temperature * (1.0 - random.unit()).ln() + 1e-9 * scale;
            let limit = Score { value: current.score().value + slack, ..current.score() };
            if current.accept_below(change, limit) {
                keeper.offer(current.solution(), current.score());
            }
            keeper.round();
        }
        current
    }
}

/// A random change of any kind.
pub(super) fn random_change(evaluator: &Evaluator<'_>, random: &mut Random) -> Change {
    let problem = evaluator.problem();
    let tasks = problem.task_count().max(1);
    let task = TaskId::new(random.below(tasks));
    let files = problem.workflow().file_count();
    match random.below(if problem.places_files() && files > 0 { 10 } else { 6 }) {
        0..2 => Change::Exchange(task, TaskId::new(random.below(tasks))),
        2..4 => Change::Machine(task, random_machine(problem, task, random)),
        4..6 => random_move(evaluator, task, random),
        6..8 => Change::MachineAndFiles(task, random_machine(problem, task, random)),
        _ => Change::Home(FileId::new(random.below(files)), MachineId::new(random.below(problem.machine_count()))),
    }
}

/// A random position between the parents and the children of a task.
fn random_move(evaluator: &Evaluator<'_>, task: TaskId, random: &mut Random) -> Change {
    let workflow = evaluator.problem().workflow();
    let from = evaluator.position(task);
    let low = workflow.parents(task).iter().map(|edge| evaluator.position(edge.task) + 1).max().unwrap_or(0);
    let last = evaluator.solution().order.len();
    let high = workflow.children(task).iter().map(|edge| evaluator.position(edge.task)).min().unwrap_or(last);
    Change::Move(from, low + random.below(high - low))
}
