//! Incremental evaluation of solutions.
//!
//! A change of a solution touches a window of its order. Before the window nothing changes. After it the longest ways
//! to the end of the workflow are known. So the window and the edges that leave it give a lower bound of the new
//! makespan, and most changes are refused without looking at the rest. This works for machines with one core that are
//! paid by busy seconds (or not at all); other problems are decoded in full for each change.

use super::solution::{Solution, duration};
use super::tables::{Tables, tight};
use crate::id::{FileId, MachineId, TaskId};
use crate::objective::{Objective, Score, Value};
use crate::problem::{Billing, Problem};

/// More entries of tasks times machines are not kept for incremental evaluation.
const MAX_TABLE_ENTRIES: usize = 20_000_000;

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
    fast: Option<Tables>,
    undo: Undo,
}

/// What the last change replaced.
#[derive(Debug, Clone, Default)]
struct Undo {
    machines: Vec<(TaskId, MachineId)>,
    homes: Vec<(FileId, MachineId)>,
    moved: Option<(usize, usize)>,
    durations: Vec<(TaskId, f64)>,
    money: f64,
}

impl<'p> Evaluator<'p> {
    /// Evaluates a solution.
    pub fn new(problem: &'p Problem, objective: Objective, solution: Solution) -> Self {
        let nodes = &problem.platform().machines;
        let simple =
            nodes.iter().all(|node| node.cores == 1 && (node.billing == Billing::Busy || !objective.needs_money()));
        let unlimited = matches!(objective, Objective::Makespan | Objective::Money | Objective::Weighted { .. });
        let small = problem.task_count() * problem.machine_count() <= MAX_TABLE_ENTRIES;
        let tight = tight(problem);
        let fast =
            (simple && unlimited && small && (!tight || problem.places_files())).then(|| Tables::new(problem, tight));
        let score = Score::WORST;
        let undo = Undo::default();
        let mut evaluator = Self { problem, objective, solution: solution.clone(), score, fast, undo };
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

    /// The position of a task in the order.
    pub fn position(&self, task: TaskId) -> usize {
        match &self.fast {
            Some(fast) => fast.position[task.index()] as usize,
            None => self.solution.order.iter().position(|other| *other == task).unwrap_or_default(),
        }
    }

    /// Replaces the solution.
    pub fn replace(&mut self, solution: Solution) {
        self.solution = solution;
        if let Some(fast) = &mut self.fast {
            fast.refresh(self.problem, &self.solution);
            fast.rebuild(self.problem, &self.solution);
        }
        self.evaluate(None);
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
        let limit = self.score;
        self.accept_below(change, limit)
    }

    /// Makes a change if the new score beats the limit.
    pub fn accept_below(&mut self, change: Change, limit: Score) -> bool {
        if !self.alter(change) {
            self.revert();
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

    /// Makes a change whatever it does to the score, unless it is impossible.
    pub fn force(&mut self, change: Change) -> bool {
        if !self.alter(change) {
            self.revert();
            return false;
        }
        self.evaluate(self.window());
        true
    }

    /// Changes the solution and durations; false if the change is impossible or changes nothing.
    fn alter(&mut self, change: Change) -> bool {
        self.undo = Undo { money: self.fast.as_ref().map_or(0.0, |fast| fast.money), ..Undo::default() };
        match change {
            Change::Machine(task, machine) => self.set_machine(task, machine),
            Change::Exchange(one, other) => {
                let machines = (self.solution.machines[one.index()], self.solution.machines[other.index()]);
                machines.0 != machines.1 && self.set_machine(one, machines.1) && self.set_machine(other, machines.0)
            }
            Change::Home(file, machine) => self.set_home(file, machine),
            Change::Move(from, to) => {
                if from == to || !self.can_move(from, to) {
                    return false;
                }
                self.rotate(from, to);
                self.undo.moved = Some((from, to));
                true
            }
            Change::MachineAndFiles(task, machine) => {
                let workflow = self.problem.workflow();
                let moved = self.set_machine(task, machine);
                if !moved || !self.problem.places_files() {
                    return moved;
                }
                for file in workflow.outputs(task).iter().filter(|file| !workflow.is_fixed(**file)) {
                    if self.solution.homes[file.index()] != machine && !self.set_home(*file, machine) {
                        return false;
                    }
                }
                true
            }
        }
    }

    fn set_machine(&mut self, task: TaskId, machine: MachineId) -> bool {
        let old = self.solution.machines[task.index()];
        if old == machine || !self.problem.can_run(task, machine) {
            return false;
        }
        self.undo.machines.push((task, old));
        self.charge(task, -1.0);
        self.solution.machines[task.index()] = machine;
        self.refresh(task);
        self.charge(task, 1.0);
        true
    }

    fn set_home(&mut self, file: FileId, machine: MachineId) -> bool {
        let old = self.solution.homes[file.index()];
        let workflow = self.problem.workflow();
        if old == machine || workflow.is_fixed(file) || !self.problem.places_files() {
            return false;
        }
        if let Some(room) = self.fast.as_mut().and_then(|fast| fast.room.as_mut()) {
            let bytes = workflow.file_bytes(file);
            if room[machine.index()] < bytes {
                return false;
            }
            room[machine.index()] -= bytes;
            room[old.index()] += bytes;
        }
        self.undo.homes.push((file, old));
        self.solution.homes[file.index()] = machine;
        let users = self.fast.as_ref().map(|fast| fast.users.row(file.index()).to_vec()).unwrap_or_default();
        for task in users {
            self.charge(task, -1.0);
            self.refresh(task);
            self.charge(task, 1.0);
        }
        true
    }

    fn charge(&mut self, task: TaskId, sign: f64) {
        if let Some(fast) = &mut self.fast {
            let price = self.problem.machine(self.solution.machines[task.index()]).price;
            fast.money += sign * fast.duration[task.index()] * price;
        }
    }

    fn refresh(&mut self, task: TaskId) {
        if let Some(fast) = &mut self.fast {
            let machine = self.solution.machines[task.index()];
            let new = duration(self.problem, task, machine, &self.solution.homes);
            let old = std::mem::replace(&mut fast.duration[task.index()], new);
            self.undo.durations.push((task, old));
        }
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
                fast.position[task.index()] = (low + place) as u32;
            }
        }
    }

    /// Takes the last change back. Finish times and tails are those of before, if only the bound was computed.
    fn revert(&mut self) {
        let undo = std::mem::take(&mut self.undo);
        for (task, machine) in undo.machines.into_iter().rev() {
            self.solution.machines[task.index()] = machine;
        }
        for (file, old) in undo.homes.into_iter().rev() {
            let now = std::mem::replace(&mut self.solution.homes[file.index()], old);
            if let Some(room) = self.fast.as_mut().and_then(|fast| fast.room.as_mut()) {
                let bytes = self.problem.workflow().file_bytes(file);
                room[now.index()] += bytes;
                room[old.index()] -= bytes;
            }
        }
        if let Some((from, to)) = undo.moved {
            self.rotate(to, from);
        }
        if let Some(fast) = &mut self.fast {
            for (task, duration) in undo.durations.into_iter().rev() {
                fast.duration[task.index()] = duration;
            }
            fast.money = undo.money;
        }
    }

    /// The first and the last position that the change touches.
    fn window(&self) -> Option<(usize, usize)> {
        let fast = self.fast.as_ref()?;
        let mut window = self.undo.moved.map_or((usize::MAX, 0), |(from, to)| (from.min(to), from.max(to)));
        let tasks =
            self.undo.machines.iter().map(|(task, _)| task).chain(self.undo.durations.iter().map(|(task, _)| task));
        for task in tasks {
            let position = fast.position[task.index()] as usize;
            window = (window.0.min(position), window.1.max(position));
        }
        (window.0 <= window.1).then_some(window)
    }

    /// A score that the changed solution does not beat.
    fn bound(&mut self, (first, last): (usize, usize), limit: f64) -> Score {
        let objective = self.objective;
        let limit = makespan_limit(objective, limit, self.fast.as_ref().map_or(0.0, |fast| fast.money));
        let Some(fast) = &mut self.fast else {
            return Score { excess: 0.0, value: f64::NEG_INFINITY };
        };
        let makespan = fast.window_makespan(self.problem, &self.solution, first, last, limit);
        objective.score(Value { makespan, money: fast.money })
    }

    /// Computes the score after a change that touches a window.
    fn evaluate(&mut self, window: Option<(usize, usize)>) {
        match &mut self.fast {
            Some(fast) => {
                if let Some((first, last)) = window {
                    fast.rebuild_window(self.problem, &self.solution, first, last);
                }
                self.score = self.objective.score(Value { makespan: fast.makespan, money: fast.money });
                if let Some(room) = &fast.room {
                    self.score.excess += room.iter().map(|free| (-free).max(0.0)).sum::<f64>();
                }
            }
            None => self.score = self.solution.score(self.problem, self.objective),
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
    use crate::random::Random;

    /// The incremental score of every accepted change is the score of the decoded schedule, and refused changes would
    /// not help.
    #[test]
    fn incremental_scores_agree_with_decoded_schedules() {
        for (seed, model) in
            [CostModel::overlapped(), CostModel::inline_cpu(), CostModel::inline_gpu()].into_iter().enumerate()
        {
            let options = layered::Options { model, tasks: 30, ..layered::Options::default() };
            let problem = layered::problem(&options, seed as u64).unwrap();
            let mut random = Random::new(seed as u64);
            let objective = Objective::Weighted { weight: 0.5, time_scale: 300.0, money_scale: 300.0 };
            let mut evaluator = Evaluator::new(&problem, objective, Solution::random(&problem, &mut random));
            assert!(evaluator.fast.is_some());
            let mut improved = 0;
            for _ in 0..3000 {
                let task = |random: &mut Random| TaskId::new(random.below(30));
                let machine = |random: &mut Random| MachineId::new(random.below(4));
                let change = match random.below(5) {
                    0 => Change::Machine(task(&mut random), machine(&mut random)),
                    1 => Change::Exchange(task(&mut random), task(&mut random)),
                    2 => Change::Home(FileId::new(random.below(31)), machine(&mut random)),
                    3 => Change::MachineAndFiles(task(&mut random), machine(&mut random)),
                    _ => Change::Move(random.below(30), random.below(30)),
                };
                let before = evaluator.clone();
                if evaluator.improve(change) {
                    improved += 1;
                    let decoded = evaluator.solution().score(&problem, objective);
                    assert!((decoded.value - evaluator.score().value).abs() < 1e-9, "{change:?}");
                    assert!(evaluator.score().beats(&before.score()));
                } else {
                    assert_eq!(evaluator.solution(), before.solution(), "{change:?}");
                    assert_eq!(evaluator.score(), before.score());
                    let mut forced = before.clone();
                    if forced.force(change) {
                        let decoded = forced.solution().score(&problem, objective);
                        assert!(!decoded.beats(&before.score()), "{change:?}");
                    }
                }
            }
            assert!(improved > 10, "{improved}");
        }
    }
}
