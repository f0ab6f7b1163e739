//! Branch and bound: the next task, its machine, the places of its output files; everything that cannot beat the best
//! schedule so far is cut off.
//!
//! Every schedule in which each task starts as early as its order on the machine allows is reached by one of these
//! choices, and one of them is best for every objective that never improves by waiting. Two tasks in a row on different
//! machines that have nothing to do with each other are tried in one order only.

use crate::id::{FileId, MachineId, TaskId};
use crate::objective::{Objective, PlanValue, Score};
use crate::problem::Problem;
use crate::search::solution::Solution;
use crate::timeline::Fill;
use crate::timeline::Timeline;

/// What the search may choose.
#[derive(Debug, Clone)]
pub struct Scope<'s> {
    /// The tasks to place, by descending priority. Parents of each come before it or are placed already.
    pub tasks: &'s [TaskId],
    /// Machines that each task may run on; all if there is no entry.
    pub domains: &'s [Option<Vec<MachineId>>],
    /// Whether all orders are tried, or the one of priorities alone.
    pub all_orders: bool,
    /// The search gives up after this many nodes.
    pub max_nodes: u64,
}

/// The state of a search.
pub struct Branch<'p> {
    problem: &'p Problem,
    objective: Objective,
    timelines: Vec<Timeline>,
    finish: Vec<Option<f64>>,
    machines: Vec<MachineId>,
    homes: Vec<Option<MachineId>>,
    order: Vec<TaskId>,
    money: f64,
    /// Least seconds of each task, and of everything from its start on.
    least: Vec<f64>,
    tails: Vec<f64>,
    /// Least money of each task.
    least_money: Vec<f64>,
    heads: Vec<f64>,
    best: Option<(Score, Solution)>,
    nodes: u64,
    gave_up: bool,
}

/// One way to place a task.
#[derive(Clone)]
struct SearchChoice {
    machine: MachineId,
    homes: Vec<(FileId, MachineId)>,
    start: f64,
    finish: f64,
}

impl<'p> Branch<'p> {
    /// Nothing is placed. `incumbent` is a solution to beat.
    pub fn new(problem: &'p Problem, objective: Objective, incumbent: Option<Solution>) -> Self {
        let workflow = problem.workflow();
        let tasks = problem.task_count();
        let nodes = &problem.platform().machines;
        let least: Vec<_> = problem.tasks().map(|task| least_seconds(problem, task)).collect();
        let mut tails = least.clone();
        for task in workflow.order().iter().rev() {
            let after = workflow.children(*task).iter().map(|edge| tails[edge.task.index()]);
            tails[task.index()] = least[task.index()] + after.fold(0.0, f64::max);
        }
        Self {
            problem,
            objective,
            timelines: nodes.iter().map(|node| Timeline::new(node.cores, node.gpus, node.start_up)).collect(),
            finish: vec![None; tasks],
            machines: vec![MachineId(0); tasks],
            homes: vec![None; workflow.file_count()],
            order: Vec::with_capacity(tasks),
            money: 0.0,
            least_money: problem.tasks().map(|task| least_money(problem, task)).collect(),
            least,
            tails,
            heads: vec![0.0; tasks],
            best: incumbent.map(|solution| (solution.score(problem, objective), solution)),
            nodes: 0,
            gave_up: false,
        }
    }

    /// Files stay where a solution has them.
    pub fn with_homes(mut self, solution: &Solution) -> Self {
        self.homes = solution.homes.iter().map(|home| Some(*home)).collect();
        self
    }

    /// The best solution so far.
    pub fn best(&self) -> Option<&(Score, Solution)> {
        self.best.as_ref()
    }

    /// Nodes of the search so far.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Whether the search gave up before it had seen everything.
    pub fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// Searches all choices for the tasks of a scope, which must be all tasks that are not placed yet.
    pub fn search(&mut self, scope: &Scope<'_>, stop: &dyn Fn() -> bool) {
        self.nodes += 1;
        if self.nodes > scope.max_nodes || (self.nodes.is_multiple_of(256) && stop()) {
            self.gave_up = true;
        }
        if self.gave_up {
            return;
        }
        if self.order.len() == self.problem.task_count() {
            self.leaf();
            return;
        }
        if !self.promising() {
            return;
        }
        let ready = scope.tasks.iter().copied().filter(|task| self.is_ready(*task));
        let ready: Vec<_> = if scope.all_orders { ready.collect() } else { ready.take(1).collect() };
        // All ways of all ready tasks, those that end first first.
        let mut choices: Vec<(TaskId, SearchChoice)> = Vec::new();
        for task in ready {
            let ways = self.choices(task, scope.domains.get(task.index()).and_then(Option::as_deref));
            choices.extend(ways.into_iter().filter(|way| !self.is_mirrored(task, way)).map(|way| (task, way)));
        }
        choices.sort_by(|a, b| a.1.finish.total_cmp(&b.1.finish));
        for (task, choice) in choices {
            let saved = self.place(task, &choice);
            self.search(scope, stop);
            self.unplace(task, &choice, saved);
        }
    }

    fn is_ready(&self, task: TaskId) -> bool {
        let parents = self.problem.workflow().parents(task);
        self.finish[task.index()].is_none() && parents.iter().all(|edge| self.finish[edge.task.index()].is_some())
    }

    /// Whether the task and the one before it could change places without changing anything; then the lower number goes
    /// first.
    fn is_mirrored(&self, task: TaskId, choice: &SearchChoice) -> bool {
        let Some(before) = self.order.last().copied() else {
            return false;
        };
        let workflow = self.problem.workflow();
        let shares_file = || {
            let files = |task| workflow.inputs(task).iter().chain(workflow.outputs(task));
            files(task).any(|file| !workflow.is_fixed(*file) && files(before).any(|other| other == file))
        };
        task < before
            && self.machines[before.index()] != choice.machine
            && !workflow.parents(task).iter().any(|edge| edge.task == before)
            && (!self.problem.places_files() || !shares_file())
    }

    fn choices(&self, task: TaskId, domain: Option<&[MachineId]>) -> Vec<SearchChoice> {
        let (problem, workflow) = (self.problem, self.problem.workflow());
        let mut choices = Vec::new();
        for machine in problem.machines() {
            if domain.is_some_and(|domain| !domain.contains(&machine)) || !problem.can_run(task, machine) {
                continue;
            }
            let mut ready = crate::search::solution::release(problem, task, machine);
            for edge in workflow.parents(task) {
                let from = self.machines[edge.task.index()];
                let way =
                    if problem.places_files() { 0.0 } else { problem.transfer_seconds(edge.bytes, from, machine) };
                ready = ready.max(self.finish[edge.task.index()].unwrap_or(0.0) + way);
            }
            for homes in self.home_choices(task) {
                let seconds = self.seconds(task, machine, &homes);
                let (cores, gpu) = (workflow.cores(task), problem.uses_gpu(task, machine));
                let start = self.timelines[machine.index()].start(ready, seconds, cores, gpu, Fill::Append);
                choices.push(SearchChoice { machine, homes, start, finish: start + seconds });
            }
        }
        choices
    }

    /// All places for the files that the task is the first to touch.
    fn home_choices(&self, task: TaskId) -> Vec<Vec<(FileId, MachineId)>> {
        let workflow = self.problem.workflow();
        let mut all = vec![Vec::new()];
        if !self.problem.places_files() {
            return all;
        }
        let mut files: Vec<_> = workflow.inputs(task).iter().chain(workflow.outputs(task)).copied().collect();
        files.retain(|file| !workflow.is_fixed(*file) && self.homes[file.index()].is_none());
        files.sort_unstable();
        files.dedup();
        for file in files {
            let with = |homes: &Vec<(FileId, MachineId)>, machine| [homes.as_slice(), &[(file, machine)]].concat();
            all =
                all.iter().flat_map(|homes| self.problem.machines().map(move |machine| with(homes, machine))).collect();
        }
        all
    }

    fn seconds(&self, task: TaskId, machine: MachineId, new: &[(FileId, MachineId)]) -> f64 {
        let (problem, workflow) = (self.problem, self.problem.workflow());
        let compute = problem.compute_seconds(task, machine);
        if !problem.places_files() {
            return compute;
        }
        let access = |file: &FileId| {
            if workflow.is_fixed(*file) {
                return problem.placed_access_seconds(*file, machine);
            }
            let fresh = new.iter().find(|(other, _)| other == file).map(|(_, home)| *home);
            let home = self.homes[file.index()].or(fresh).unwrap_or(machine);
            problem.access_seconds(*file, machine, home)
        };
        let transfers = |files: &[FileId]| {
            if files.is_empty() { problem.model().local_seconds() } else { files.iter().map(access).sum() }
        };
        compute + transfers(workflow.inputs(task)) + transfers(workflow.outputs(task))
    }

    fn busy_money(&self, task: TaskId, choice: &SearchChoice) -> f64 {
        let node = self.problem.machine(choice.machine);
        let share = f64::from(self.problem.workflow().cores(task)) / f64::from(node.cores);
        (choice.finish - choice.start) * share * node.price
    }

    fn place(&mut self, task: TaskId, choice: &SearchChoice) -> Timeline {
        let (cores, gpu) = (self.problem.workflow().cores(task), self.problem.uses_gpu(task, choice.machine));
        let timeline = &mut self.timelines[choice.machine.index()];
        let saved = timeline.clone();
        timeline.occupy(choice.start, choice.finish, cores, gpu);
        self.finish[task.index()] = Some(choice.finish);
        self.machines[task.index()] = choice.machine;
        choice.homes.iter().for_each(|(file, home)| self.homes[file.index()] = Some(*home));
        self.order.push(task);
        self.money += self.busy_money(task, choice);
        saved
    }

    fn unplace(&mut self, task: TaskId, choice: &SearchChoice, saved: Timeline) {
        self.timelines[choice.machine.index()] = saved;
        self.finish[task.index()] = None;
        choice.homes.iter().for_each(|(file, _)| self.homes[file.index()] = None);
        self.order.pop();
        self.money -= self.busy_money(task, choice);
    }

    /// Whether the least that can come of this node beats the best solution.
    fn promising(&mut self) -> bool {
        let Some((best, _)) = &self.best else {
            return true;
        };
        let workflow = self.problem.workflow();
        let (mut makespan, mut money) = (0.0f64, self.money);
        for task in workflow.order() {
            let index = task.index();
            if let Some(finish) = self.finish[index] {
                makespan = makespan.max(finish);
                continue;
            }
            let ends = workflow.parents(*task).iter().map(|edge| {
                let parent = edge.task.index();
                self.finish[parent].unwrap_or_else(|| self.heads[parent] + self.least[parent])
            });
            self.heads[index] = ends.fold(0.0, f64::max);
            makespan = makespan.max(self.heads[index] + self.tails[index]);
            money += self.least_money[index];
        }
        self.objective.score(PlanValue { makespan, money }).beats(best)
    }

    fn leaf(&mut self) {
        let solution = Solution {
            order: self.order.clone(),
            machines: self.machines.clone(),
            homes: self.homes.iter().map(|home| home.unwrap_or(MachineId(0))).collect(),
        };
        let score = solution.score(self.problem, self.objective);
        if self.best.as_ref().is_none_or(|(best, _)| score.beats(best)) {
            self.best = Some((score, solution));
        }
    }
}

/// The least seconds of a task on any machine. Files that are not fixed cost at least nothing.
fn least_seconds(problem: &Problem, task: TaskId) -> f64 {
    let seconds = |machine| {
        let fixed = problem.workflow().inputs(task).iter().filter(|file| problem.workflow().is_fixed(**file));
        let reads: f64 = if problem.places_files() {
            fixed.map(|file| problem.placed_access_seconds(*file, machine)).sum()
        } else {
            0.0
        };
        problem.compute_seconds(task, machine) + reads
    };
    problem.machines().map(seconds).fold(f64::INFINITY, f64::min)
}

fn least_money(problem: &Problem, task: TaskId) -> f64 {
    let money = |machine| {
        let node = problem.machine(machine);
        let seconds = problem.compute_seconds(task, machine);
        let share = f64::from(problem.workflow().cores(task)) / f64::from(node.cores);
        if seconds.is_finite() { seconds * share * node.price } else { f64::INFINITY }
    };
    problem.machines().map(money).fold(f64::INFINITY, f64::min)
}
