//! The four neighbourhoods of Stockinger 2020, section 3.2.2, and their variable neighbourhood descent.
//!
//! Each neighbourhood is passed once; every change that improves is made. After a pass with an improvement the descent
//! goes back to the first neighbourhood; it ends when all four passes fail.

use super::evaluator::{Change, Evaluator};
use crate::id::{FileId, TaskId};

/// A neighbourhood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Neighbourhood {
    /// Another place for a file ("Fix File Allocation").
    FileHome,
    /// Another position for a task ("Relocate Job", insertion as in the text).
    Position,
    /// Another machine for a task, with or without its output files ("Swap Machine"; the files stay in the paper).
    Machine,
    /// Two tasks exchange machines ("Swap Machine Pair").
    Exchange,
}

/// The order of the paper's text.
pub(super) const ALL: [Neighbourhood; 4] =
    [Neighbourhood::FileHome, Neighbourhood::Position, Neighbourhood::Machine, Neighbourhood::Exchange];

/// Descends until no neighbourhood improves the solution, or until `stopped`.
pub(super) fn descend(evaluator: &mut Evaluator<'_>, stopped: &dyn Fn() -> bool) {
    let mut next = 0;
    while next < ALL.len() && !stopped() {
        if pass(evaluator, ALL[next], stopped) {
            next = 0;
        } else {
            next += 1;
        }
    }
}

/// Tries all changes of a neighbourhood and makes those that improve. Says whether any did.
pub(super) fn pass(evaluator: &mut Evaluator<'_>, neighbourhood: Neighbourhood, stopped: &dyn Fn() -> bool) -> bool {
    let problem = evaluator.problem();
    let mut improved = false;
    match neighbourhood {
        Neighbourhood::FileHome => {
            if problem.places_files() {
                for file in problem.workflow().files().filter(|file| !problem.workflow().is_fixed(*file)) {
                    improved |= best_home(evaluator, file);
                    if stopped() {
                        break;
                    }
                }
            }
        }
        Neighbourhood::Position => {
            for task in problem.tasks() {
                improved |= better_position(evaluator, task);
                if stopped() {
                    break;
                }
            }
        }
        Neighbourhood::Machine => {
            for task in problem.tasks() {
                for machine in problem.machines() {
                    improved |= evaluator.improve(Change::Machine(task, machine));
                    if problem.places_files() {
                        improved |= evaluator.improve(Change::MachineAndFiles(task, machine));
                    }
                }
                if stopped() {
                    break;
                }
            }
        }
        Neighbourhood::Exchange => {
            for one in 0..problem.task_count() {
                for other in one + 1..problem.task_count() {
                    improved |= evaluator.improve(Change::Exchange(TaskId::new(one), TaskId::new(other)));
                }
                if stopped() {
                    break;
                }
            }
        }
    }
    improved
}

/// Every improvement is made, so that the best of all machines remains.
fn best_home(evaluator: &mut Evaluator<'_>, file: FileId) -> bool {
    let mut improved = false;
    for machine in evaluator.problem().machines() {
        improved |= evaluator.improve(Change::Home(file, machine));
    }
    improved
}

/// Moves a task before or after others of its machine. Positions between tasks of other machines change nothing.
fn better_position(evaluator: &mut Evaluator<'_>, task: TaskId) -> bool {
    let workflow = evaluator.problem().workflow();
    let from = evaluator.position(task);
    let machine = evaluator.solution().machines[task.index()];
    let low = workflow.parents(task).iter().map(|edge| evaluator.position(edge.task) + 1).max().unwrap_or(0);
    let last = evaluator.solution().order.len();
    let high = workflow.children(task).iter().map(|edge| evaluator.position(edge.task)).min().unwrap_or(last);
    for to in (low..from).rev().chain(from + 1..high) {
        let there = evaluator.solution().order[to];
        if evaluator.solution().machines[there.index()] == machine && evaluator.improve(Change::Move(from, to)) {
            return true;
        }
    }
    false
}
