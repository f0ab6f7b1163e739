//! The four neighbourhoods of Stockinger 2020, section 3.2.2, and their variable neighbourhood descent.
//!
//! Each neighbourhood is passed once; every change that improves is made. After a pass with an improvement the descent
//! goes back to the first neighbourhood; it ends when all passes fail. Where only time counts, changes that touch no
//! critical task are left out: they cannot shorten the longest way through the workflow.
//!
//! Two neighbourhoods are ours: a task that changes its machine also finds its best position there, and the outputs of
//! a task move together with the tasks that read them. Single changes find neither, since each step alone is worse.

use super::evaluator::{Change, Evaluator};
use crate::id::{FileId, MachineId, TaskId};

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
    /// Another machine and another position for a task.
    Insertion,
    /// Another place for all outputs of a task, with or without the tasks that read them.
    Family,
}

/// The order of the paper's text, then ours.
pub(super) const ALL: [Neighbourhood; 6] = [
    Neighbourhood::FileHome,
    Neighbourhood::Position,
    Neighbourhood::Machine,
    Neighbourhood::Exchange,
    Neighbourhood::Insertion,
    Neighbourhood::Family,
];

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
    let workflow = problem.workflow();
    let critical_only = evaluator.only_time_counts();
    let mut improved = false;
    if neighbourhood == Neighbourhood::FileHome {
        if problem.places_files() {
            for file in workflow.files().filter(|file| !workflow.is_fixed(*file)) {
                let mut users = workflow.readers(file).iter().chain(workflow.writers(file));
                if !critical_only || users.any(|task| evaluator.is_critical(*task)) {
                    improved |= best_home(evaluator, file);
                }
                if stopped() {
                    break;
                }
            }
        }
        return improved;
    }
    let critical_only = critical_only || neighbourhood == Neighbourhood::Position;
    for task in problem.tasks() {
        if critical_only && !evaluator.is_critical(task) {
            continue;
        }
        improved |= match neighbourhood {
            Neighbourhood::Position => better_position(evaluator, task),
            Neighbourhood::Machine => better_machine(evaluator, task),
            Neighbourhood::Exchange => better_exchange(evaluator, task, critical_only),
            Neighbourhood::Insertion => better_insertion(evaluator, task),
            Neighbourhood::Family => better_family(evaluator, task),
            Neighbourhood::FileHome => false,
        };
        if stopped() {
            break;
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

fn better_machine(evaluator: &mut Evaluator<'_>, task: TaskId) -> bool {
    let mut improved = false;
    for machine in evaluator.problem().machines() {
        improved |= evaluator.improve(Change::Machine(task, machine));
        if evaluator.problem().places_files() {
            improved |= evaluator.improve(Change::MachineAndFiles(task, machine));
        }
    }
    improved
}

/// Each pair is tried once: with critical tasks alone as the first, otherwise with the lower number first.
fn better_exchange(evaluator: &mut Evaluator<'_>, one: TaskId, critical_only: bool) -> bool {
    let first = if critical_only { 0 } else { one.index() + 1 };
    let mut improved = false;
    for other in (first..evaluator.problem().task_count()).map(TaskId::new) {
        improved |= evaluator.improve(Change::Exchange(one, other));
    }
    improved
}

/// Moves a task before or after others of its machine. Positions between tasks of other machines change nothing.
fn better_position(evaluator: &mut Evaluator<'_>, task: TaskId) -> bool {
    let from = evaluator.position(task);
    let machine = evaluator.solution().machines[task.index()];
    let (low, high) = evaluator.range(task);
    for to in (low..from).rev().chain(from + 1..=high) {
        let there = evaluator.solution().order[to];
        if evaluator.solution().machines[there.index()] == machine && evaluator.improve(Change::Move(from, to)) {
            return true;
        }
    }
    false
}

/// Moves a task to another machine, before or after any task there.
fn better_insertion(evaluator: &mut Evaluator<'_>, task: TaskId) -> bool {
    let from = evaluator.position(task);
    let own = evaluator.solution().machines[task.index()];
    let (low, high) = evaluator.range(task);
    for to in (low..from).rev().chain(from + 1..=high) {
        let there = evaluator.solution().order[to];
        let machine = evaluator.solution().machines[there.index()];
        if machine == own {
            continue;
        }
        let limit = evaluator.score();
        let changes = [Change::Move(from, to), Change::MachineAndFiles(task, machine)];
        if evaluator.accept_below(&changes, limit) {
            return true;
        }
    }
    false
}

/// Moves the outputs of a task to another machine: alone, with all tasks that read them, or with those of one machine.
fn better_family(evaluator: &mut Evaluator<'_>, task: TaskId) -> bool {
    let problem = evaluator.problem();
    if !problem.places_files() {
        return false;
    }
    let mut improved = false;
    for machine in problem.machines() {
        for readers_of in std::iter::once(None).chain(problem.machines().map(Some)) {
            let changes = family(evaluator, task, machine, |on, _| Some(on) == readers_of);
            let limit = evaluator.score();
            improved |= changes.len() > 1 && evaluator.accept_below(&changes, limit);
        }
        let changes = family(evaluator, task, machine, |_, _| true);
        let limit = evaluator.score();
        improved |= changes.len() > 1 && evaluator.accept_below(&changes, limit);
    }
    improved
}

/// The changes that store all outputs of a task on a machine, and run there the children that are `wanted` by their
/// machine and number.
pub(super) fn family(
    evaluator: &Evaluator<'_>,
    task: TaskId,
    machine: MachineId,
    mut wanted: impl FnMut(MachineId, TaskId) -> bool,
) -> Vec<Change> {
    let workflow = evaluator.problem().workflow();
    let mut changes: Vec<_> = workflow.outputs(task).iter().map(|file| Change::Home(*file, machine)).collect();
    for edge in workflow.children(task) {
        if wanted(evaluator.solution().machines[edge.task.index()], edge.task) {
            changes.push(Change::MachineAndFiles(edge.task, machine));
        }
    }
    changes
}
