//! What searches change: the order of tasks, the machine of each task, and the place of each file.

use crate::id::{FileId, MachineId, TaskId};
use crate::objective::{Objective, PlanValue, Score};
use crate::ordered::Ordered;
use crate::problem::Problem;
use crate::schedule::{Placement, Schedule};
use crate::seeded_random::SeededRandom;
use crate::timeline::Fill;
use crate::timeline::Timeline;

/// An order of all tasks with parents before children, the machine of each task, and the place of each file that is not
/// fixed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Solution {
    /// All tasks.
    pub order: Vec<TaskId>,
    /// The machine of each task.
    pub machines: Vec<MachineId>,
    /// The machine that stores each file; of no meaning for fixed files and overlapped transfers.
    pub homes: Vec<MachineId>,
}

impl Solution {
    /// The solution behind a schedule. Decoding it gives a schedule that ends no later. Duplicates are lost.
    pub fn of_schedule(problem: &Problem, schedule: &Schedule) -> Self {
        let mut position = vec![0; problem.task_count()];
        for (place, task) in problem.workflow().order().iter().enumerate() {
            position[task.index()] = place;
        }
        let mut order: Vec<_> = problem.tasks().collect();
        order.sort_by_key(|task| {
            let placement = schedule.placement(*task);
            (Ordered(placement.start), Ordered(placement.finish), position[task.index()])
        });
        Self {
            order,
            machines: schedule.tasks.iter().map(|placement| placement.machine).collect(),
            homes: schedule.files.iter().map(|home| home.unwrap_or(MachineId(0))).collect(),
        }
    }

    /// A random order, random machines that can run their tasks, and each file with its first writer.
    pub fn random(problem: &Problem, random: &mut SeededRandom) -> Self {
        let workflow = problem.workflow();
        let priorities: Vec<_> = problem.tasks().map(|_| random.unit()).collect();
        let order = order_by(problem, |task| priorities[task.index()]);
        let machines: Vec<_> = problem.tasks().map(|task| random_machine(problem, task, random)).collect();
        let home = |file: FileId| workflow.writers(file).first().map_or(MachineId(0), |task| machines[task.index()]);
        Self { order, homes: workflow.files().map(home).collect(), machines }
    }

    /// The schedule: tasks follow each other on their machines in the order of the solution, each as early as possible.
    pub fn decode(&self, problem: &Problem) -> Schedule {
        let workflow = problem.workflow();
        let inline = problem.places_files();
        let nodes = &problem.platform().machines;
        let mut timelines: Vec<_> =
            nodes.iter().map(|node| Timeline::new(node.cores, node.gpus, node.start_up)).collect();
        let nowhere = Placement { machine: MachineId(0), start: 0.0, finish: 0.0 };
        let mut tasks = vec![nowhere; problem.task_count()];
        for task in &self.order {
            let machine = self.machines[task.index()];
            let mut ready = release(problem, *task, machine);
            for edge in workflow.parents(*task) {
                let parent = tasks[edge.task.index()];
                let way = if inline { 0.0 } else { problem.transfer_seconds(edge.bytes, parent.machine, machine) };
                ready = ready.max(parent.finish + way);
            }
            let duration = duration(problem, *task, machine, &self.homes);
            let (cores, gpu) = (workflow.cores(*task), problem.uses_gpu(*task, machine));
            let timeline = &mut timelines[machine.index()];
            let start = timeline.start(ready, duration, cores, gpu, Fill::Append);
            timeline.occupy(start, start + duration, cores, gpu);
            tasks[task.index()] = Placement { machine, start, finish: start + duration };
        }
        let mut schedule = Schedule::of_tasks(problem, tasks);
        if inline {
            for file in workflow.files().filter(|file| !workflow.is_fixed(*file)) {
                schedule.files[file.index()] = Some(self.homes[file.index()]);
            }
        }
        schedule
    }

    /// How good the decoded schedule is. Files that do not fit count as an excess.
    pub fn score(&self, problem: &Problem, objective: Objective) -> Score {
        let schedule = self.decode(problem);
        let mut score = objective.score(PlanValue::of(problem, &schedule));
        score.excess += storage_excess(problem, &schedule);
        score
    }
}

/// When the task can start on the machine because of the machine itself and of fixed files.
pub(crate) fn release(problem: &Problem, task: TaskId, machine: MachineId) -> f64 {
    let workflow = problem.workflow();
    let start_up = problem.machine(machine).start_up;
    if problem.places_files() {
        return start_up;
    }
    let fixed = workflow.inputs(task).iter().filter(|file| workflow.is_fixed(**file));
    fixed.map(|file| problem.placed_access_seconds(*file, machine)).fold(start_up, f64::max)
}

/// Seconds that the task occupies the machine when files are stored on `homes`.
pub(crate) fn duration(problem: &Problem, task: TaskId, machine: MachineId, homes: &[MachineId]) -> f64 {
    let compute = problem.compute_seconds(task, machine);
    if !problem.places_files() {
        return compute;
    }
    let workflow = problem.workflow();
    let access = |file: &FileId| {
        if workflow.is_fixed(*file) {
            problem.placed_access_seconds(*file, machine)
        } else {
            problem.access_seconds(*file, machine, homes[file.index()])
        }
    };
    let transfers = |files: &[FileId]| {
        if files.is_empty() { problem.model().local_seconds() } else { files.iter().map(access).sum() }
    };
    compute + transfers(workflow.inputs(task)) + transfers(workflow.outputs(task))
}

/// By how much files exceed the storage of machines, relative to it.
fn storage_excess(problem: &Problem, schedule: &Schedule) -> f64 {
    let workflow = problem.workflow();
    let total: f64 = workflow.files().map(|file| workflow.file_bytes(file)).sum();
    let nodes = &problem.platform().machines;
    if nodes.iter().all(|node| node.storage >= total) {
        return 0.0;
    }
    let mut stored = vec![0.0; nodes.len()];
    let mut present = std::collections::HashSet::new();
    let mut put = |file: FileId, machine: MachineId| {
        if present.insert((file, machine)) {
            stored[machine.index()] += workflow.file_bytes(file);
        }
    };
    for file in workflow.files() {
        workflow.copies(file).iter().for_each(|machine| put(file, *machine));
        schedule.stored_on(file).into_iter().for_each(|machine| put(file, machine));
    }
    if !problem.places_files() {
        for (task, placement) in schedule.runs() {
            let files = workflow.inputs(task).iter().chain(workflow.outputs(task));
            files.for_each(|file| put(*file, placement.machine));
        }
    }
    let excess =
        stored.iter().zip(nodes).map(|(stored, node)| (stored - node.storage).max(0.0) / node.storage.max(1.0));
    excess.sum()
}

/// Tasks in an order with parents before children; among ready tasks the one with the least key goes first.
pub(super) fn order_by(problem: &Problem, key: impl Fn(TaskId) -> f64) -> Vec<TaskId> {
    use std::cmp::Reverse;
    let workflow = problem.workflow();
    let mut waits: Vec<_> = problem.tasks().map(|task| workflow.parents(task).len()).collect();
    let roots = problem.tasks().filter(|task| waits[task.index()] == 0);
    let mut ready: std::collections::BinaryHeap<_> = roots.map(|task| Reverse((Ordered(key(task)), task))).collect();
    let mut order = Vec::with_capacity(problem.task_count());
    while let Some(Reverse((_, task))) = ready.pop() {
        order.push(task);
        for edge in workflow.children(task) {
            waits[edge.task.index()] -= 1;
            if waits[edge.task.index()] == 0 {
                ready.push(Reverse((Ordered(key(edge.task)), edge.task)));
            }
        }
    }
    order
}

/// A random machine that can run the task; some machine if none can.
pub(super) fn random_machine(problem: &Problem, task: TaskId, random: &mut SeededRandom) -> MachineId {
    let machines = problem.machine_count();
    let first = random.below(machines);
    let able = (0..machines).map(|step| MachineId::new((first + step) % machines));
    able.into_iter().find(|machine| problem.can_run(task, *machine)).unwrap_or(MachineId(0))
}
