//! Incremental evaluation of solutions.
//!
//! A change of a solution touches a window of its order. Before the window nothing changes. After it the longest ways
//! to the end of the workflow are known. So the window and the edges that leave it give a lower bound of the new
//! makespan, and most changes are refused without looking at the rest. This works for machines with one core that are
//! paid by busy seconds (or not at all); other problems are decoded in full for each change.

use std::sync::Arc;

use super::model::Model;
use super::solution::Solution;
use super::tables::{Tables, tight};
use crate::id::{FileId, MachineId, TaskId};
use crate::objective::{Objective, PlanValue, Score};
use crate::problem::{Billing, Problem};

/// More entries of tasks times machines are not kept for incremental evaluation.
const MAX_TABLE_ENTRIES: usize = 20_000_000;

/// More pairs of machines are not kept for incremental evaluation.
const MAX_PAIRS: usize = 4_000_000;

/// A change of a solution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A task runs on another machine.
    Machine(TaskId, MachineId),
    /// Two tasks exchange their machines.
    Exchange(TaskId, TaskId),
    /// A file is stored on another machine.
    Home(FileId, MachineId),
    /// The task at the first position goes to the second one; those between move up or down.
    Move(usize, usize),
    /// A task runs on another machine, and all its output files are stored there.
    MachineAndFiles(TaskId, MachineId),
}

/// A solution with everything that makes changes cheap.
#[derive(Debug, Clone)]
pub struct Evaluator<'p> {
    problem: &'p Problem,
    objective: Objective,
    solution: Solution,
    score: Score,
    fast: Option<Fast>,
    decoded: u64,
    undo: ChangeUndo,
}

/// What incremental evaluation needs.
#[derive(Debug, Clone)]
struct Fast {
    model: Arc<Model>,
    tables: Tables,
}

/// What the last changes replaced. Kept between changes, so that its lists need no allocation.
#[derive(Debug, Clone, Default)]
struct ChangeUndo {
    machines: Vec<(TaskId, MachineId)>,
    homes: Vec<(FileId, MachineId)>,
    moved: Vec<(usize, usize)>,
    durations: Vec<(TaskId, f64)>,
    money: f64,
}

impl<'p> Evaluator<'p> {
    /// Evaluates a solution.
    pub fn new(problem: &'p Problem, objective: Objective, solution: Solution) -> Self {
        let nodes = &problem.platform().machines;
        let machines = nodes.len();
        let simple =
            nodes.iter().all(|node| node.cores == 1 && (node.billing == Billing::Busy || !objective.needs_money()));
        let unlimited = matches!(objective, Objective::Makespan | Objective::Money | Objective::Weighted { .. });
        let small = problem.task_count() * machines <= MAX_TABLE_ENTRIES && machines * machines <= MAX_PAIRS;
        let tight = tight(problem);
        let fast = (simple && unlimited && small && (!tight || problem.places_files()))
            .then(|| Fast { model: Arc::new(Model::new(problem)), tables: Tables::new(problem, tight) });
        let score = Score::WORST;
        let undo = ChangeUndo::default();
        let mut evaluator = Self { problem, objective, solution: solution.clone(), score, fast, decoded: 0, undo };
        evaluator.replace(solution);
        evaluator
    }

    /// The problem.
    pub fn problem(&self) -> &'p Problem {
        self.problem
    }

    /// The current solution.
    pub fn solution(&self) -> &Solution {
        &self.solution
    }

    /// Its score.
    pub fn score(&self) -> Score {
        self.score
    }

    /// How much was computed so far: the positions of tasks whose times were. It measures the effort of a search without
    /// a clock.
    pub fn work(&self) -> u64 {
        self.fast.as_ref().map_or(self.decoded, |fast| fast.tables.work)
    }

    /// The position of a task in the order.
    pub fn position(&self, task: TaskId) -> usize {
        match &self.fast {
            Some(fast) => fast.tables.position[task.index()] as usize,
            None => self.solution.order.iter().position(|other| *other == task).unwrap_or_default(),
        }
    }

    /// Tasks that cannot take longer without a later end of the workflow; all tasks if that is not known.
    pub fn critical(&mut self) -> &[TaskId] {
        match &mut self.fast {
            Some(fast) => fast.tables.critical(&self.solution),
            None => &self.solution.order,
        }
    }

    /// Whether the task cannot take longer without a later end of the workflow; true if that is not known.
    pub fn is_critical(&self, task: TaskId) -> bool {
        self.fast.as_ref().is_none_or(|fast| fast.tables.is_critical(task))
    }

    /// Whether only changes of critical tasks can improve the score.
    pub fn only_time_counts(&self) -> bool {
        self.fast.is_some() && self.objective == Objective::Makespan
    }

    /// Replaces the solution.
    pub fn replace(&mut self, solution: Solution) {
        self.solution = solution;
        if let Some(fast) = &mut self.fast {
            fast.tables.rebuild(self.problem, &fast.model, &self.solution);
        }
        self.evaluate(None);
    }

    /// The first and the last position that the task can move to without passing a parent or a child.
    pub fn range(&self, task: TaskId) -> (usize, usize) {
        let workflow = self.problem.workflow();
        let low = workflow.parents(task).iter().map(|edge| self.position(edge.task) + 1).max().unwrap_or(0);
        let end = self.solution.order.len();
        let high = workflow.children(task).iter().map(|edge| self.position(edge.task)).min().unwrap_or(end);
        (low, high - 1)
    }

    /// Whether a task can move from one position to another without passing a parent or a child.
    pub fn can_move(&self, from: usize, to: usize) -> bool {
        let workflow = self.problem.workflow();
        let task = self.solution.order[from];
        if to > from {
            workflow.children(task).iter().all(|edge| self.position(edge.task) > to)
        } else {
            workflow.parents(task).iter().all(|edge| self.position(edge.task) < to)
        }
    }

    /// Makes a change if it improves the score.
    pub fn improve(&mut self, change: Change) -> bool {
        self.accept_below(&[change], self.score)
    }

    /// Makes changes, one after the other, if the new score beats the limit. Changes that are impossible or change
    /// nothing are left out; if all are, the answer is no.
    pub fn accept_below(&mut self, changes: &[Change], limit: Score) -> bool {
        if !self.alter(changes) {
            return false;
        }
        let window = self.window();
        if let Some(window) = window {
            let bound = self.bound(window, limit.value);
            if !bound.beats(&limit) {
                self.revert();
                return false;
            }
        }
        self.evaluate(window);
        if self.score.beats(&limit) {
            return true;
        }
        self.revert();
        self.evaluate(window);
        false
    }

    /// Makes changes whatever they do to the score, unless all are impossible.
    pub fn force(&mut self, changes: &[Change]) -> bool {
        if !self.alter(changes) {
            return false;
        }
        self.evaluate(self.window());
        true
    }

    /// Changes the solution and durations; false if nothing changed.
    fn alter(&mut self, changes: &[Change]) -> bool {
        self.undo.machines.clear();
        self.undo.homes.clear();
        self.undo.moved.clear();
        self.undo.durations.clear();
        self.undo.money = self.fast.as_ref().map_or(0.0, |fast| fast.tables.money);
        let mut changed = false;
        for change in changes {
            changed |= self.alter_once(*change);
        }
        changed
    }

    fn alter_once(&mut self, change: Change) -> bool {
        match change {
            Change::Machine(task, machine) => self.set_machine(task, machine),
            Change::Exchange(one, other) => {
                let (first, second) = (self.solution.machines[one.index()], self.solution.machines[other.index()]);
                first != second
                    && self.can_run(one, second)
                    && self.can_run(other, first)
                    && self.set_machine(one, second)
                    && self.set_machine(other, first)
            }
            Change::Home(file, machine) => self.set_home(file, machine),
            Change::Move(from, to) => {
                if from == to || !self.can_move(from, to) {
                    return false;
                }
                self.rotate(from, to);
                self.undo.moved.push((from, to));
                true
            }
            Change::MachineAndFiles(task, machine) => {
                let moved = self.set_machine(task, machine);
                if moved && self.problem.places_files() {
                    for file in self.problem.workflow().outputs(task) {
                        self.set_home(*file, machine);
                    }
                }
                moved
            }
        }
    }

    fn can_run(&self, task: TaskId, machine: MachineId) -> bool {
        match &self.fast {
            Some(fast) => fast.model.can_run(task, machine),
            None => self.problem.can_run(task, machine),
        }
    }

    fn set_machine(&mut self, task: TaskId, machine: MachineId) -> bool {
        let old = self.solution.machines[task.index()];
        if old == machine || !self.can_run(task, machine) {
            return false;
        }
        self.undo.machines.push((task, old));
        if let Some(Fast { model, tables }) = &mut self.fast {
            tables.money -= tables.duration[task.index()] * model.prices[old.index()];
        }
        self.solution.machines[task.index()] = machine;
        if let Some(Fast { model, tables }) = &mut self.fast {
            let new = model.duration(task, &self.solution);
            let before = std::mem::replace(&mut tables.duration[task.index()], new);
            self.undo.durations.push((task, before));
            tables.money += new * model.prices[machine.index()];
        }
        true
    }

    fn set_home(&mut self, file: FileId, machine: MachineId) -> bool {
        let old = self.solution.homes[file.index()];
        let workflow = self.problem.workflow();
        if old == machine || workflow.is_fixed(file) || !self.problem.places_files() {
            return false;
        }
        if let Some(room) = self.fast.as_mut().and_then(|fast| fast.tables.room.as_mut()) {
            let bytes = workflow.file_bytes(file);
            if room[machine.index()] < bytes {
                return false;
            }
            room[machine.index()] -= bytes;
            room[old.index()] += bytes;
        }
        self.undo.homes.push((file, old));
        self.solution.homes[file.index()] = machine;
        if let Some(Fast { model, tables }) = &mut self.fast {
            for task in model.users.row(file.index()) {
                let new = model.duration(*task, &self.solution);
                let before = std::mem::replace(&mut tables.duration[task.index()], new);
                if new != before {
                    self.undo.durations.push((*task, before));
                    tables.money += (new - before) * model.prices[self.solution.machines[task.index()].index()];
                }
            }
        }
        true
    }

    fn rotate(&mut self, from: usize, to: usize) {
        let (low, high) = (from.min(to), from.max(to));
        let part = &mut self.solution.order[low..=high];
        if from < to {
            part.rotate_left(1)
        } else {
            part.rotate_right(1)
        }
        if let Some(fast) = &mut self.fast {
            for (place, task) in part.iter().enumerate() {
                fast.tables.position[task.index()] = (low + place) as u32;
            }
        }
    }

    /// Takes the last changes back. Finish times and tails are those of before, if only the bound was computed.
    fn revert(&mut self) {
        let undo = std::mem::take(&mut self.undo);
        for (task, machine) in undo.machines.iter().rev() {
            self.solution.machines[task.index()] = *machine;
        }
        for (file, old) in undo.homes.iter().rev() {
            let now = std::mem::replace(&mut self.solution.homes[file.index()], *old);
            if let Some(room) = self.fast.as_mut().and_then(|fast| fast.tables.room.as_mut()) {
                let bytes = self.problem.workflow().file_bytes(*file);
                room[now.index()] += bytes;
                room[old.index()] -= bytes;
            }
        }
        for (from, to) in undo.moved.iter().rev() {
            self.rotate(*to, *from);
        }
        if let Some(Fast { tables, .. }) = &mut self.fast {
            for (task, duration) in undo.durations.iter().rev() {
                tables.duration[task.index()] = *duration;
            }
            tables.money = undo.money;
        }
        // The window of the change is still that of its reversal.
        self.undo = undo;
    }

    /// The first and the last position that the change touches; nothing if no time changes.
    fn window(&self) -> Option<(usize, usize)> {
        let fast = self.fast.as_ref()?;
        let mut window = (usize::MAX, 0);
        for (from, to) in &self.undo.moved {
            window = (window.0.min(*from).min(*to), window.1.max(*from).max(*to));
        }
        let machines = self.undo.machines.iter().map(|(task, _)| task);
        for task in machines.chain(self.undo.durations.iter().map(|(task, _)| task)) {
            let position = fast.tables.position[task.index()] as usize;
            window = (window.0.min(position), window.1.max(position));
        }
        (window.0 <= window.1).then_some(window)
    }

    /// A score that the changed solution does not beat.
    fn bound(&mut self, window: (usize, usize), limit: f64) -> Score {
        let objective = self.objective;
        let Some(Fast { model, tables }) = &mut self.fast else {
            return Score { excess: 0.0, value: f64::NEG_INFINITY };
        };
        let limit = makespan_limit(objective, limit, tables.money);
        let makespan = tables.window_makespan(self.problem, model, &self.solution, window, limit);
        objective.score(PlanValue { makespan, money: tables.money })
    }

    /// Computes the score after a change that touches a window.
    fn evaluate(&mut self, window: Option<(usize, usize)>) {
        match &mut self.fast {
            Some(Fast { model, tables }) => {
                if let Some((first, last)) = window {
                    tables.rebuild_window(self.problem, model, &self.solution, first, last);
                }
                self.score = self.objective.score(PlanValue { makespan: tables.makespan, money: tables.money });
                if let Some(room) = &tables.room {
                    self.score.excess += room.iter().map(|free| (-free).max(0.0)).sum::<f64>();
                }
            }
            None => {
                self.decoded += self.solution.order.len() as u64;
                self.score = self.solution.score(self.problem, self.objective);
            }
        }
    }
}

/// The makespan from which on a schedule of this cost is no better than `value`.
fn makespan_limit(objective: Objective, value: f64, money: f64) -> f64 {
    match objective {
        Objective::Makespan => value,
        Objective::Weighted { weight, time_scale, money_scale } if weight > 0.0 => {
            (value - (1.0 - weight) * money / money_scale) * time_scale / weight
        }
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::layered;
    use crate::problem::CostModel;
    use crate::seeded_random::SeededRandom;

    /// The incremental score of every accepted change is the score of the decoded schedule, and refused changes would
    /// not help.
    #[test]
    fn incremental_scores_agree_with_decoded_schedules() {
        for (seed, model) in
            [CostModel::overlapped(), CostModel::inline_cpu(), CostModel::inline_gpu()].into_iter().enumerate()
        {
            let options = layered::Options { model, tasks: 30, ..layered::Options::default() };
            let problem = layered::problem(&options, seed as u64).unwrap();
            let mut random = SeededRandom::new(seed as u64);
            let objective = Objective::Weighted { weight: 0.5, time_scale: 300.0, money_scale: 300.0 };
            let mut evaluator = Evaluator::new(&problem, objective, Solution::random(&problem, &mut random));
            assert!(evaluator.fast.is_some());
            let mut improved = 0;
            for _ in 0..3000 {
                let task = |random: &mut SeededRandom| TaskId::new(random.below(30));
                let machine = |random: &mut SeededRandom| MachineId::new(random.below(4));
                let one_change = |random: &mut SeededRandom| match random.below(5) {
                    0 => Change::Machine(task(random), machine(random)),
                    1 => Change::Exchange(task(random), task(random)),
                    2 => Change::Home(FileId::new(random.below(31)), machine(random)),
                    3 => Change::MachineAndFiles(task(random), machine(random)),
                    _ => Change::Move(random.below(30), random.below(30)),
                };
                let changes: Vec<_> = (0..1 + random.below(3)).map(|_| one_change(&mut random)).collect();
                let before = evaluator.clone();
                if evaluator.accept_below(&changes, before.score()) {
                    improved += 1;
                    let decoded = evaluator.solution().score(&problem, objective);
                    assert!((decoded.value - evaluator.score().value).abs() < 1e-9, "{changes:?}");
                    assert!(evaluator.score().beats(&before.score()));
                } else {
                    assert_eq!(evaluator.solution(), before.solution(), "{changes:?}");
                    assert_eq!(evaluator.score(), before.score());
                    let mut forced = before.clone();
                    if forced.force(&changes) {
                        let decoded = forced.solution().score(&problem, objective);
                        assert!(!decoded.beats(&before.score()), "{changes:?}");
                    }
                }
            }
            assert!(improved > 10, "{improved}");
        }
    }
}
