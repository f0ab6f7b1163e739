//! Just-in-time planners at work: they decide when tasks become ready, and know only what has happened until then.
//!
//! A planner sees the planned durations of tasks that run, and the real ones of tasks that have ended. A task that runs
//! longer than planned is expected to end at any moment. Tasks of a machine run in the order of their decisions.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::options::{MAX_ATTEMPTS, Options, SimulatedRun, noise};
use crate::id::{FileId, MachineId, TaskId};
use crate::just_in_time::MyopicRule;
use crate::objective::money;
use crate::ordered::Ordered;
use crate::planner::PlanError;
use crate::problem::Problem;
use crate::schedule::{Placement, Schedule};

/// Which ready task goes first, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnlineRule {
    /// The task that was defined first, on the machine that the rule prefers.
    Myopic(MyopicRule),
    /// The task that can end first.
    MinMin,
    /// The task whose best end is the latest.
    MaxMin,
    /// The task that would lose most without its best machine.
    Sufferage,
}

impl OnlineRule {
    /// The rule of the planner with this name; nothing if it does not decide just in time.
    pub fn of(planner: &str) -> Option<Self> {
        Some(match planner {
            "myopic" => Self::Myopic(MyopicRule::EarliestFinish),
            "myopic-fastest" => Self::Myopic(MyopicRule::Fastest),
            "myopic-fastest-idle" => Self::Myopic(MyopicRule::FastestIdle),
            "myopic-first-free" => Self::Myopic(MyopicRule::FirstFree),
            "min-min" => Self::MinMin,
            "max-min" => Self::MaxMin,
            "sufferage" => Self::Sufferage,
            _ => return None,
        })
    }
}

/// Runs a workflow whose tasks are placed when they become ready. Storage is not limited.
pub fn simulate_online(problem: &Problem, rule: OnlineRule, options: &Options) -> Result<SimulatedRun, PlanError> {
    let mut online = Online::new(problem, rule, options);
    let workflow = problem.workflow();
    let mut waits: Vec<_> = problem.tasks().map(|task| workflow.parents(task).len()).collect();
    let mut ready: Vec<_> = problem.tasks().filter(|task| waits[task.index()] == 0).collect();
    let mut ends = BinaryHeap::new();
    let mut now = 0.0;
    loop {
        for task in online.decide(now, &ready)? {
            ends.push(Reverse((Ordered(online.placements[task.index()].finish), task)));
        }
        ready.clear();
        // All tasks that end together make one ready set.
        while let Some(Reverse((Ordered(end), task))) = ends.peek().copied() {
            if !ready.is_empty() && end > now {
                break;
            }
            now = end;
            ends.pop();
            online.events += 1;
            for edge in workflow.children(task) {
                waits[edge.task.index()] -= 1;
                if waits[edge.task.index()] == 0 {
                    ready.push(edge.task);
                }
            }
        }
        if ready.is_empty() {
            break;
        }
        ready.sort_unstable();
    }
    Ok(online.outcome())
}

/// When each core or GPU of a machine is free: really, and as the planner sees it.
#[derive(Debug, Clone)]
struct Units {
    real: Vec<f64>,
    seen: Vec<f64>,
}

impl Units {
    fn new(count: u32, from: f64) -> Self {
        Self { real: vec![from; count as usize], seen: vec![from; count as usize] }
    }

    /// What the planner learns until now.
    fn look(&mut self, now: f64) {
        for (real, seen) in self.real.iter().zip(&mut self.seen) {
            *seen = if *real <= now { *real } else { seen.max(now) };
        }
    }

    /// When this many are free.
    fn free(times: &[f64], count: usize) -> f64 {
        if count == 1 {
            return times.iter().copied().fold(f64::INFINITY, f64::min);
        }
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        count.checked_sub(1).map_or(0.0, |place| sorted.get(place).copied().unwrap_or(f64::INFINITY))
    }

    /// Occupies the ones that are really free first.
    fn occupy(&mut self, count: usize, real: f64, seen: f64) {
        for _ in 0..count {
            let first = (0..self.real.len()).min_by(|a, b| self.real[*a].total_cmp(&self.real[*b]));
            if let Some(first) = first {
                (self.real[first], self.seen[first]) = (real, seen);
            }
        }
    }
}

/// A machine for a task, as the planner sees it.
#[derive(Debug, Clone, Copy)]
struct OnlineChoice {
    machine: MachineId,
    finish: f64,
}

struct Online<'a> {
    problem: &'a Problem,
    rule: OnlineRule,
    options: &'a Options,
    cores: Vec<Units>,
    gpus: Vec<Units>,
    /// From when on a machine can serve another transfer, with contention.
    ports: Vec<f64>,
    homes: Vec<Option<MachineId>>,
    placements: Vec<Placement>,
    failures: u64,
    events: u64,
}

impl<'a> Online<'a> {
    fn new(problem: &'a Problem, rule: OnlineRule, options: &'a Options) -> Self {
        let machines = &problem.platform().machines;
        let nowhere = Placement { machine: MachineId(0), start: 0.0, finish: 0.0 };
        Self {
            problem,
            rule,
            options,
            cores: machines.iter().map(|machine| Units::new(machine.cores, machine.start_up)).collect(),
            gpus: machines.iter().map(|machine| Units::new(machine.gpus, machine.start_up)).collect(),
            ports: vec![0.0; machines.len()],
            homes: vec![None; problem.workflow().file_count()],
            placements: vec![nowhere; problem.task_count()],
            failures: 0,
            events: 0,
        }
    }

    /// Places all ready tasks, and returns them.
    fn decide(&mut self, now: f64, ready: &[TaskId]) -> Result<Vec<TaskId>, PlanError> {
        self.cores.iter_mut().chain(&mut self.gpus).for_each(|units| units.look(now));
        if let OnlineRule::Myopic(rule) = self.rule {
            for task in ready {
                let machine = self.preferred(now, *task, rule).ok_or_else(|| self.impossible(*task))?;
                self.place(now, *task, machine);
            }
            return Ok(ready.to_vec());
        }
        let mut open = Vec::with_capacity(ready.len());
        for task in ready {
            open.push((*task, self.two_best(now, *task).ok_or_else(|| self.impossible(*task))?));
        }
        while let Some(place) = self.next(&open) {
            let (task, (best, _)) = open.swap_remove(place);
            self.place(now, task, best.machine);
            // Ends only become later, so only choices of the machine that became busier change.
            for (other, choices) in &mut open {
                if [choices.0.machine, choices.1.machine].contains(&best.machine)
                    && let Some(changed) = self.two_best(now, *other)
                {
                    *choices = changed;
                }
            }
        }
        Ok(ready.to_vec())
    }

    fn impossible(&self, task: TaskId) -> PlanError {
        PlanError::NoMachine { task: self.problem.workflow().name(task).to_owned() }
    }

    /// The task that goes first; among equals the one that was defined first.
    fn next(&self, open: &[(TaskId, (OnlineChoice, OnlineChoice))]) -> Option<usize> {
        let key = |(task, (best, second)): &(TaskId, (OnlineChoice, OnlineChoice))| {
            let loss = second.finish - best.finish;
            let (first, then) = match self.rule {
                OnlineRule::MaxMin => (-best.finish, 0.0),
                OnlineRule::Sufferage => (if loss.is_finite() { -loss } else { 0.0 }, best.finish),
                _ => (best.finish, 0.0),
            };
            (Ordered(first), Ordered(then), *task)
        };
        (0..open.len()).min_by_key(|place| key(&open[*place]))
    }

    /// The best and the second best machine.
    fn two_best(&self, now: f64, task: TaskId) -> Option<(OnlineChoice, OnlineChoice)> {
        let none = OnlineChoice { machine: MachineId(u32::MAX), finish: f64::INFINITY };
        let (mut best, mut second) = (none, none);
        for machine in self.problem.machines() {
            let finish = self.expected_finish(now, task, machine);
            let choice = OnlineChoice { machine, finish };
            if finish < best.finish {
                (second, best) = (best, choice);
            } else if finish < second.finish {
                second = choice;
            }
        }
        best.finish.is_finite().then_some((best, second))
    }

    fn preferred(&self, now: f64, task: TaskId, rule: MyopicRule) -> Option<MachineId> {
        let slowdown = |machine: MachineId| self.problem.machine(machine).slowdown;
        let free = |machine: MachineId| {
            let cores = self.problem.workflow().cores(task) as usize;
            Units::free(&self.cores[machine.index()].seen, cores).max(now)
        };
        let key = |machine: &MachineId| {
            let (first, then) = match rule {
                MyopicRule::EarliestFinish => (self.expected_finish(now, task, *machine), 0.0),
                MyopicRule::Fastest => (slowdown(*machine), 0.0),
                MyopicRule::FastestIdle => (free(*machine), slowdown(*machine)),
                MyopicRule::FirstFree => (free(*machine), 0.0),
            };
            (Ordered(first), Ordered(then), *machine)
        };
        let possible = |machine: &MachineId| self.expected_finish(now, task, *machine).is_finite();
        self.problem.machines().filter(possible).min_by_key(key)
    }

    fn expected_finish(&self, now: f64, task: TaskId, machine: MachineId) -> f64 {
        let compute = self.problem.compute_seconds(task, machine);
        if !compute.is_finite() {
            return f64::INFINITY;
        }
        let cores = self.problem.workflow().cores(task) as usize;
        let mut start = Units::free(&self.cores[machine.index()].seen, cores).max(now);
        if self.problem.uses_gpu(task, machine) {
            start = start.max(Units::free(&self.gpus[machine.index()].seen, 1));
        }
        start.max(self.data_ready(task, machine)) + compute + self.transfers(task, machine)
    }

    /// When all data are at the machine, if transfers run beside the computation.
    fn data_ready(&self, task: TaskId, machine: MachineId) -> f64 {
        if self.problem.places_files() {
            return 0.0;
        }
        let workflow = self.problem.workflow();
        let from_parents = workflow.parents(task).iter().map(|edge| {
            let parent = self.placements[edge.task.index()];
            parent.finish + self.problem.transfer_seconds(edge.bytes, parent.machine, machine)
        });
        let fixed = workflow.inputs(task).iter().filter(|file| workflow.is_fixed(**file));
        let from_files = fixed.map(|file| self.problem.placed_access_seconds(*file, machine));
        from_parents.chain(from_files).fold(0.0, f64::max)
    }

    /// Seconds of reads and writes that occupy the machine. Outputs stay where they are made.
    fn transfers(&self, task: TaskId, machine: MachineId) -> f64 {
        if !self.problem.places_files() {
            return 0.0;
        }
        let workflow = self.problem.workflow();
        let access = |file: &FileId| match self.homes[file.index()] {
            Some(home) => self.problem.access_seconds(*file, machine, home),
            None if workflow.is_fixed(*file) => self.problem.placed_access_seconds(*file, machine),
            None => self.problem.model().local_seconds(),
        };
        let all = |files: &[FileId]| match files {
            [] => self.problem.model().local_seconds(),
            files => files.iter().map(access).sum(),
        };
        all(workflow.inputs(task)) + all(workflow.outputs(task))
    }

    /// Carries a decision out.
    fn place(&mut self, now: f64, task: TaskId, machine: MachineId) {
        let problem = self.problem;
        let expected = self.expected_finish(now, task, machine);
        let data = self.real_data_ready(now, task, machine);
        let cores = problem.workflow().cores(task) as usize;
        let uses_gpu = problem.uses_gpu(task, machine);
        let mut start = Units::free(&self.cores[machine.index()].real, cores).max(now).max(data);
        if uses_gpu {
            start = start.max(Units::free(&self.gpus[machine.index()].real, 1));
        }
        let finish = start + self.real_seconds(task, machine);
        self.cores[machine.index()].occupy(cores, finish, expected);
        if uses_gpu {
            self.gpus[machine.index()].occupy(1, finish, expected);
        }
        if problem.places_files() {
            for file in problem.workflow().outputs(task) {
                if !problem.workflow().is_fixed(*file) {
                    self.homes[file.index()].get_or_insert(machine);
                }
            }
        }
        self.placements[task.index()] = Placement { machine, start, finish };
    }

    /// When all data really are at the machine. Data leave for it when the decision is made.
    fn real_data_ready(&mut self, now: f64, task: TaskId, machine: MachineId) -> f64 {
        let problem = self.problem;
        if problem.places_files() {
            return 0.0;
        }
        let mut random = self.options.random(task.index(), MAX_ATTEMPTS);
        let mut ready = 0.0f64;
        for edge in problem.workflow().parents(task) {
            let parent = self.placements[edge.task.index()];
            let seconds = problem.transfer_seconds(edge.bytes, parent.machine, machine);
            if seconds == 0.0 {
                continue;
            }
            let seconds = seconds * noise(self.options.transfer_noise, &mut random);
            let mut begin = parent.finish;
            if self.options.contention {
                let (from, to) = (parent.machine.index(), machine.index());
                begin = begin.max(now).max(self.ports[from]).max(self.ports[to]);
                (self.ports[from], self.ports[to]) = (begin + seconds, begin + seconds);
            }
            ready = ready.max(begin + seconds);
        }
        let workflow = problem.workflow();
        let fixed = workflow.inputs(task).iter().filter(|file| workflow.is_fixed(**file));
        fixed.map(|file| problem.placed_access_seconds(*file, machine)).fold(ready, f64::max)
    }

    /// Seconds that the task really occupies the machine, all attempts together.
    fn real_seconds(&mut self, task: TaskId, machine: MachineId) -> f64 {
        let options = self.options;
        let (compute, transfers) = (self.problem.compute_seconds(task, machine), self.transfers(task, machine));
        let mut total = 0.0;
        for attempt in 0.. {
            let mut random = options.random(task.index(), attempt);
            let fails_after = match options.failures_per_second > 0.0 && attempt < MAX_ATTEMPTS {
                true => -(1.0 - random.unit()).ln() / options.failures_per_second,
                false => f64::INFINITY,
            };
            let seconds = compute * noise(options.compute_noise, &mut random)
                + transfers * noise(options.transfer_noise, &mut random);
            if seconds <= fails_after {
                return total + seconds;
            }
            self.failures += 1;
            total += fails_after + options.repair_seconds;
        }
        total
    }

    fn outcome(self) -> SimulatedRun {
        let schedule = Schedule { tasks: self.placements, files: self.homes, duplicates: Vec::new() };
        SimulatedRun {
            makespan: schedule.makespan(),
            money: money(self.problem, &schedule),
            schedule,
            failures: self.failures,
            events: self.events,
        }
    }
}
