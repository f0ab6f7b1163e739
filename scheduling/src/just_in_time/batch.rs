//! The loop that Min-Min, Max-Min and Sufferage share: form the ready set, empty it task by task, form the next one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::id::{MachineId, TaskId};
use crate::ordered::Ordered;
use crate::partial_schedule::{Candidate, Partial};
use crate::planner::PlanError;
use crate::problem::Problem;
use crate::schedule::Schedule;
use crate::timeline::Fill;

/// Which task of a batch goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BatchRule {
    /// The one that can end first.
    MinMin,
    /// The one whose best end is the latest.
    MaxMin,
    /// The one with the largest difference between its second best and its best end.
    Sufferage,
}

pub(super) fn plan(problem: &Problem, rule: BatchRule) -> Result<Schedule, PlanError> {
    let workflow = problem.workflow();
    let mut partial = Partial::new(problem);
    let mut waits: Vec<_> = problem.tasks().map(|task| workflow.parents(task).len()).collect();
    let mut batch: Vec<_> = problem.tasks().filter(|task| waits[task.index()] == 0).collect();
    while !batch.is_empty() {
        schedule_batch(&mut partial, &batch, rule)?;
        let mut next = Vec::new();
        for edge in batch.iter().flat_map(|task| workflow.children(*task)) {
            waits[edge.task.index()] -= 1;
            if waits[edge.task.index()] == 0 {
                next.push(edge.task);
            }
        }
        next.sort_unstable();
        batch = next;
    }
    partial.into_schedule()
}

/// More entries of tasks times machines are computed anew each time instead of kept.
const MAX_KEPT_ENTRIES: usize = 16_000_000;

/// Schedules tasks that do not depend on each other.
pub(crate) fn schedule_batch(partial: &mut Partial<'_>, batch: &[TaskId], rule: BatchRule) -> Result<(), PlanError> {
    ReadySet::new(partial, batch, rule).run()
}

/// The best and the second best end of a task.
#[derive(Clone, Copy)]
struct Best {
    candidate: Candidate,
    second: f64,
    second_machine: MachineId,
}

/// A key, a second key, a place in the batch, and the version of the keys.
type Entry = Reverse<(Ordered, Ordered, usize, u32)>;

struct ReadySet<'b, 'p> {
    partial: &'b mut Partial<'p>,
    tasks: &'b [TaskId],
    rule: BatchRule,
    machines: usize,
    /// Ready times and durations of each task on each machine, row by row; empty if there are too many.
    kept: Vec<(f64, f64)>,
    best: Vec<Option<Best>>,
    /// Tasks by the key of their best end, with the version of that key. Older versions are skipped.
    heap: BinaryHeap<Entry>,
    versions: Vec<u32>,
    /// For each machine the tasks whose best or second best end was there.
    interested: Vec<Vec<usize>>,
    /// The tasks of the batch with their places, by task.
    places: Vec<(TaskId, usize)>,
}

impl<'b, 'p> ReadySet<'b, 'p> {
    fn new(partial: &'b mut Partial<'p>, tasks: &'b [TaskId], rule: BatchRule) -> Self {
        let machines = partial.problem().machine_count();
        let mut places: Vec<_> = tasks.iter().enumerate().map(|(place, task)| (*task, place)).collect();
        places.sort_unstable();
        Self {
            partial,
            tasks,
            rule,
            machines,
            kept: Vec::new(),
            best: vec![None; tasks.len()],
            heap: BinaryHeap::with_capacity(tasks.len()),
            versions: vec![0; tasks.len()],
            interested: vec![Vec::new(); machines],
            places,
        }
    }

    fn run(mut self) -> Result<(), PlanError> {
        if self.tasks.len() * self.machines <= MAX_KEPT_ENTRIES && !self.partial.is_tight() {
            self.kept = vec![(0.0, 0.0); self.tasks.len() * self.machines];
            (0..self.tasks.len()).for_each(|place| self.keep(place));
        }
        for place in 0..self.tasks.len() {
            self.update(place)?;
        }
        while let Some(Reverse((_, _, place, version))) = self.heap.pop() {
            if self.versions[place] != version || self.best[place].is_none() {
                continue;
            }
            // Ends only become later, so an end that is still right is the least one.
            if self.rule == BatchRule::MinMin && self.is_stale(place) {
                self.update(place)?;
                continue;
            }
            let Some(best) = self.best[place].take() else {
                continue;
            };
            self.partial.place(self.tasks[place], best.candidate);
            self.after(best.candidate.machine)?;
        }
        Ok(())
    }

    fn keep(&mut self, place: usize) {
        let task = self.tasks[place];
        for machine in self.partial.problem().machines() {
            let duration = self.partial.duration(task, machine);
            let ready = if duration.is_finite() { self.partial.ready(task, machine) } else { f64::INFINITY };
            self.kept[place * self.machines + machine.index()] = (ready, duration);
        }
    }

    fn candidate(&self, place: usize, machine: MachineId) -> Option<Candidate> {
        let task = self.tasks[place];
        if self.kept.is_empty() {
            return self.partial.candidate(task, machine, Fill::Append);
        }
        let (ready, duration) = self.kept[place * self.machines + machine.index()];
        if !(ready + duration).is_finite() {
            return None;
        }
        let start = self.partial.start(task, machine, ready, duration, Fill::Append);
        Some(Candidate { machine, start, finish: start + duration })
    }

    fn is_stale(&self, place: usize) -> bool {
        self.best[place].is_some_and(|best| self.candidate(place, best.candidate.machine) != Some(best.candidate))
    }

    /// Finds the best machines of a task anew.
    fn update(&mut self, place: usize) -> Result<(), PlanError> {
        let mut best: Option<Best> = None;
        for machine in self.partial.problem().machines() {
            let Some(candidate) = self.candidate(place, machine) else {
                continue;
            };
            match &mut best {
                None => best = Some(Best { candidate, second: f64::INFINITY, second_machine: machine }),
                Some(best) if candidate.finish < best.candidate.finish => {
                    *best = Best { candidate, second: best.candidate.finish, second_machine: best.candidate.machine };
                }
                Some(best) if candidate.finish < best.second => {
                    best.second = candidate.finish;
                    best.second_machine = machine;
                }
                Some(_) => {}
            }
        }
        let best = best.ok_or_else(|| self.partial.impossible(self.tasks[place]))?;
        let end = best.candidate.finish;
        let suffers = if best.second.is_finite() { best.second - end } else { 0.0 };
        let (key, then) = match self.rule {
            BatchRule::MinMin => (end, 0.0),
            BatchRule::MaxMin => (-end, 0.0),
            BatchRule::Sufferage => (-suffers, end),
        };
        self.best[place] = Some(best);
        self.versions[place] += 1;
        self.heap.push(Reverse((Ordered(key), Ordered(then), place, self.versions[place])));
        if self.rule != BatchRule::MinMin {
            self.interested[best.candidate.machine.index()].push(place);
            if self.rule == BatchRule::Sufferage && best.second_machine != best.candidate.machine {
                self.interested[best.second_machine.index()].push(place);
            }
        }
        Ok(())
    }

    /// A machine got a task: ends on it are later, and files may have found their place.
    fn after(&mut self, machine: MachineId) -> Result<(), PlanError> {
        let workflow = self.partial.problem().workflow();
        let mut changed = std::mem::take(&mut self.interested[machine.index()]);
        if self.partial.is_tight() {
            changed = (0..self.tasks.len()).collect();
        }
        for file in self.partial.newly_stored().to_vec() {
            for task in workflow.readers(file).iter().chain(workflow.writers(file)) {
                let Ok(found) = self.places.binary_search_by_key(task, |(task, _)| *task) else {
                    continue;
                };
                let place = self.places[found].1;
                if self.best[place].is_some() {
                    if !self.kept.is_empty() {
                        self.keep(place);
                    }
                    changed.push(place);
                }
            }
        }
        changed.sort_unstable();
        changed.dedup();
        for place in changed {
            if self.best[place].is_some() {
                self.update(place)?;
            }
        }
        Ok(())
    }
}
