//! The loop over events.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use super::options::{MAX_ATTEMPTS, Options, SimulatedRun, noise};
use crate::id::{FileId, MachineId, TaskId};
use crate::objective::money;
use crate::ordered::Ordered;
use crate::problem::Problem;
use crate::schedule::{Placement, Schedule};
use crate::seeded_random::SeededRandom;

/// Something that happens to a run of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SimulatorEvent {
    /// One thing that the run waited for is there: the machine, a parent's data, the fixed files.
    Arrived { run: u32 },
    /// The data of a parent are there, and a duplicate may have brought them before.
    ArrivedFrom { run: u32, parent: TaskId },
    /// The run has ended its current action.
    ActionEnded { run: u32 },
}

/// What a run does one after the other.
#[derive(Debug, Clone, Copy)]
enum SimulatorStep {
    Transfer { file: FileId },
    Compute,
    LocalAccess,
}

/// A run of a task.
#[derive(Debug)]
struct RunState {
    task: TaskId,
    machine: MachineId,
    waits: u32,
    next_action: usize,
    attempt: u32,
    /// The seconds of work after which this attempt fails.
    fails_after: f64,
    random: SeededRandom,
    start: f64,
    finish: f64,
}

/// A machine: its runs in order, and what is free.
#[derive(Debug, Default)]
struct MachineState {
    queue: Vec<u32>,
    next: usize,
    free_cores: u32,
    free_gpus: u32,
    /// From when on it can serve another transfer.
    port: f64,
}

pub(super) struct Simulator<'a> {
    problem: &'a Problem,
    planned: &'a Schedule,
    options: &'a Options,
    events: BinaryHeap<Reverse<(Ordered, u64, SimulatorEvent)>>,
    count: u64,
    runs: Vec<RunState>,
    /// The runs of each task: its own and its duplicates.
    duplicates: Vec<Vec<u32>>,
    machines: Vec<MachineState>,
    arrived: HashSet<(u32, TaskId)>,
    failures: u64,
}

impl<'a> Simulator<'a> {
    pub(super) fn new(problem: &'a Problem, planned: &'a Schedule, options: &'a Options) -> Self {
        let run = |(index, (task, placement)): (usize, (TaskId, Placement))| RunState {
            task,
            machine: placement.machine,
            waits: 0,
            next_action: 0,
            attempt: 0,
            fails_after: f64::INFINITY,
            random: options.random(index, 0),
            start: 0.0,
            finish: 0.0,
        };
        let machines = problem.platform().machines.iter().map(|machine| MachineState {
            free_cores: machine.cores,
            free_gpus: machine.gpus,
            ..MachineState::default()
        });
        let mut engine = Self {
            problem,
            planned,
            options,
            events: BinaryHeap::new(),
            count: 0,
            runs: planned.runs().enumerate().map(run).collect(),
            duplicates: Vec::new(),
            machines: machines.collect(),
            arrived: HashSet::new(),
            failures: 0,
        };
        engine.fill_queues();
        engine
    }

    /// Runs stand in the order of their planned starts; tasks without duration before those that start with them.
    fn fill_queues(&mut self) {
        let workflow = self.problem.workflow();
        let mut position = vec![0; self.problem.task_count()];
        for (place, task) in workflow.order().iter().enumerate() {
            position[task.index()] = place;
        }
        let placements: Vec<_> = self.planned.runs().collect();
        for (run, (_, placement)) in placements.iter().enumerate() {
            self.machines[placement.machine.index()].queue.push(run as u32);
        }
        for machine in &mut self.machines {
            machine.queue.sort_by_key(|run| {
                let (task, placement) = placements[*run as usize];
                (Ordered(placement.start), Ordered(placement.finish), position[task.index()])
            });
        }
        if !self.planned.duplicates.is_empty() {
            self.duplicates = vec![Vec::new(); self.problem.task_count()];
            for (index, run) in self.runs.iter().enumerate().skip(self.problem.task_count()) {
                self.duplicates[run.task.index()].push(index as u32);
            }
        }
    }

    pub(super) fn run(mut self) -> SimulatedRun {
        for index in 0..self.runs.len() {
            let (task, machine) = (self.runs[index].task, self.runs[index].machine);
            // One for the machine and the files that are fixed.
            self.runs[index].waits = 1 + self.problem.workflow().parents(task).len() as u32;
            let ready = self.problem.machine(machine).start_up.max(self.fixed_files(task, machine));
            self.post(ready, SimulatorEvent::Arrived { run: index as u32 });
        }
        while let Some(Reverse((Ordered(now), _, event))) = self.events.pop() {
            match event {
                SimulatorEvent::Arrived { run } => self.on_arrived(now, run),
                SimulatorEvent::ArrivedFrom { run, parent } => {
                    if self.arrived.insert((run, parent)) {
                        self.on_arrived(now, run);
                    }
                }
                SimulatorEvent::ActionEnded { run } => self.on_action_ended(now, run),
            }
        }
        self.outcome()
    }

    fn fixed_files(&self, task: TaskId, machine: MachineId) -> f64 {
        if self.problem.places_files() {
            return 0.0;
        }
        let workflow = self.problem.workflow();
        let fixed = workflow.inputs(task).iter().filter(|file| workflow.is_fixed(**file));
        fixed.map(|file| self.problem.placed_access_seconds(*file, machine)).fold(0.0, f64::max)
    }

    fn post(&mut self, at: f64, event: SimulatorEvent) {
        self.count += 1;
        self.events.push(Reverse((Ordered(at), self.count, event)));
    }

    fn on_arrived(&mut self, now: f64, run: u32) {
        self.runs[run as usize].waits -= 1;
        if self.runs[run as usize].waits == 0 {
            self.start_next(now, self.runs[run as usize].machine);
        }
    }

    /// Starts runs of a machine in order while the first one can start.
    fn start_next(&mut self, now: f64, machine: MachineId) {
        loop {
            let state = &mut self.machines[machine.index()];
            let Some(run) = state.queue.get(state.next).copied() else {
                return;
            };
            let task = self.runs[run as usize].task;
            let cores = self.problem.workflow().cores(task);
            let gpus = u32::from(self.problem.uses_gpu(task, machine));
            if self.runs[run as usize].waits > 0 || state.free_cores < cores || state.free_gpus < gpus {
                return;
            }
            state.next += 1;
            state.free_cores -= cores;
            state.free_gpus -= gpus;
            self.runs[run as usize].start = now;
            self.attempt(now, run);
        }
    }

    /// Begins an attempt with random numbers of its own.
    fn attempt(&mut self, now: f64, run: u32) {
        let options = self.options;
        let state = &mut self.runs[run as usize];
        state.random = options.random(run as usize, state.attempt);
        state.fails_after = f64::INFINITY;
        if options.failures_per_second > 0.0 && state.attempt < MAX_ATTEMPTS {
            state.fails_after = -(1.0 - state.random.unit()).ln() / options.failures_per_second;
        }
        state.attempt += 1;
        state.next_action = 0;
        self.next_action(now, run);
    }

    fn action(&self, run: &RunState) -> Option<SimulatorStep> {
        if !self.problem.places_files() {
            return (run.next_action == 0).then_some(SimulatorStep::Compute);
        }
        let workflow = self.problem.workflow();
        // Without files, reading or writing is one local access.
        let files = |files: &[FileId], index: usize| match files {
            [] if index == 0 => Some(SimulatorStep::LocalAccess),
            files => files.get(index).map(|file| SimulatorStep::Transfer { file: *file }),
        };
        let inputs = workflow.inputs(run.task);
        let reads = inputs.len().max(1);
        match run.next_action {
            index if index < reads => files(inputs, index),
            index if index == reads => Some(SimulatorStep::Compute),
            index => files(workflow.outputs(run.task), index - reads - 1),
        }
    }

    /// Begins the next action of a run, or ends the run.
    fn next_action(&mut self, now: f64, run: u32) {
        let Some(action) = self.action(&self.runs[run as usize]) else {
            self.end(now, run);
            return;
        };
        let options = self.options;
        let (task, machine) = (self.runs[run as usize].task, self.runs[run as usize].machine);
        let (begin, seconds) = match action {
            SimulatorStep::LocalAccess => (now, self.problem.model().local_seconds()),
            SimulatorStep::Compute => {
                let factor = noise(options.compute_noise, &mut self.runs[run as usize].random);
                (now, self.problem.compute_seconds(task, machine) * factor)
            }
            SimulatorStep::Transfer { file } => self.inline_transfer(now, run, machine, file),
        };
        let state = &mut self.runs[run as usize];
        state.next_action += 1;
        if seconds > state.fails_after {
            self.failures += 1;
            let again = begin + state.fails_after + options.repair_seconds;
            // An attempt that begins anew at `again`.
            state.next_action = usize::MAX;
            self.post(again, SimulatorEvent::ActionEnded { run });
            return;
        }
        state.fails_after -= seconds;
        self.post(begin + seconds, SimulatorEvent::ActionEnded { run });
    }

    /// Begin and seconds of a read or write. The other machine serves one at a time if there is contention.
    fn inline_transfer(&mut self, now: f64, run: u32, machine: MachineId, file: FileId) -> (f64, f64) {
        let copies = self.problem.workflow().copies(file);
        let nearest = || {
            let seconds = |copy: &MachineId| self.problem.access_seconds(file, machine, *copy);
            if copies.contains(&machine) || copies.is_empty() {
                return machine;
            }
            copies.iter().copied().min_by(|a, b| seconds(a).total_cmp(&seconds(b))).unwrap_or(machine)
        };
        let place = self.planned.stored_on(file).unwrap_or_else(nearest);
        let mut seconds = self.problem.access_seconds(file, machine, place);
        if place == machine {
            return (now, seconds);
        }
        seconds *= noise(self.options.transfer_noise, &mut self.runs[run as usize].random);
        if !self.options.contention {
            return (now, seconds);
        }
        let port = &mut self.machines[place.index()].port;
        let begin = now.max(*port);
        *port = begin + seconds;
        (begin, seconds)
    }

    fn on_action_ended(&mut self, now: f64, run: u32) {
        if self.runs[run as usize].next_action == usize::MAX {
            self.attempt(now, run);
        } else {
            self.next_action(now, run);
        }
    }

    fn end(&mut self, now: f64, run: u32) {
        let (task, machine) = (self.runs[run as usize].task, self.runs[run as usize].machine);
        self.runs[run as usize].finish = now;
        let state = &mut self.machines[machine.index()];
        state.free_cores += self.problem.workflow().cores(task);
        state.free_gpus += u32::from(self.problem.uses_gpu(task, machine));
        self.send(now, run, task, machine);
        self.start_next(now, machine);
    }

    /// Sends the data of an ended run to all runs of its children.
    fn send(&mut self, now: f64, run: u32, task: TaskId, from: MachineId) {
        let workflow = self.problem.workflow();
        for edge in workflow.children(task) {
            let copies = self.duplicates.get(edge.task.index()).map(Vec::as_slice).unwrap_or_default().to_vec();
            for child in std::iter::once(edge.task.0).chain(copies) {
                let to = self.runs[child as usize].machine;
                let arrival = self.arrival(now, run, edge.bytes, from, to);
                let event = if self.duplicates.is_empty() {
                    SimulatorEvent::Arrived { run: child }
                } else {
                    SimulatorEvent::ArrivedFrom { run: child, parent: task }
                };
                self.post(arrival, event);
            }
        }
    }

    fn arrival(&mut self, now: f64, run: u32, bytes: f64, from: MachineId, to: MachineId) -> f64 {
        if self.problem.places_files() || from == to {
            return now;
        }
        let mut seconds = self.problem.transfer_seconds(bytes, from, to);
        seconds *= noise(self.options.transfer_noise, &mut self.runs[run as usize].random);
        if !self.options.contention || seconds == 0.0 {
            return now + seconds;
        }
        // Sender and receiver serve one transfer at a time.
        let begin = now.max(self.machines[from.index()].port).max(self.machines[to.index()].port);
        self.machines[from.index()].port = begin + seconds;
        self.machines[to.index()].port = begin + seconds;
        begin + seconds
    }

    fn outcome(self) -> SimulatedRun {
        let mut schedule = self.planned.clone();
        let tasks = self.problem.task_count();
        for (index, run) in self.runs.iter().enumerate() {
            let placement = Placement { machine: run.machine, start: run.start, finish: run.finish };
            if index < tasks {
                schedule.tasks[index] = placement;
            } else {
                schedule.duplicates[index - tasks].placement = placement;
            }
        }
        SimulatedRun {
            makespan: schedule.makespan(),
            money: money(self.problem, &schedule),
            schedule,
            failures: self.failures,
            events: self.count,
        }
    }
}
