//! A schedule under construction: which parts of each machine are free, when data arrive, and where files are stored.

use std::collections::HashSet;

use crate::id::{FileId, MachineId, TaskId};
use crate::planner::PlanError;
use crate::problem::{Billing, Problem};
use crate::schedule::{Duplicate, Placement, Schedule};
use crate::timeline::{Fill, Timeline};

/// A place for a task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// The machine.
    pub machine: MachineId,
    /// When the task would start.
    pub start: f64,
    /// When it would end.
    pub finish: f64,
}

/// The seconds in which a machine is used so far.
#[derive(Debug, Clone, Copy)]
struct Use {
    busy: f64,
    first: f64,
    last: f64,
}

/// A schedule under construction.
#[derive(Debug, Clone)]
pub struct Partial<'p> {
    problem: &'p Problem,
    timelines: Vec<Timeline>,
    placed: Vec<Option<Placement>>,
    duplicates: Vec<Duplicate>,
    homes: Vec<Option<MachineId>>,
    newly_stored: Vec<FileId>,
    uses: Vec<Use>,
    room: Option<Room>,
    makespan: f64,
}

/// Free storage. Only problems in which files may not fit have it.
#[derive(Debug, Clone)]
struct Room {
    free: Vec<f64>,
    present: HashSet<(FileId, MachineId)>,
}

impl<'p> Partial<'p> {
    /// Nothing is scheduled.
    pub fn new(problem: &'p Problem) -> Self {
        let machines = &problem.platform().machines;
        Self {
            problem,
            timelines: machines
                .iter()
                .map(|machine| Timeline::new(machine.cores, machine.gpus, machine.start_up))
                .collect(),
            placed: vec![None; problem.task_count()],
            duplicates: Vec::new(),
            homes: vec![None; problem.workflow().file_count()],
            newly_stored: Vec::new(),
            uses: vec![Use { busy: 0.0, first: f64::INFINITY, last: 0.0 }; machines.len()],
            room: Room::of(problem),
            makespan: 0.0,
        }
    }

    /// The problem.
    pub fn problem(&self) -> &'p Problem {
        self.problem
    }

    /// The end of the last task so far.
    pub fn makespan(&self) -> f64 {
        self.makespan
    }

    /// Where a task was placed.
    pub fn placement(&self, task: TaskId) -> Option<Placement> {
        self.placed[task.index()]
    }

    /// Files that got their place when the last task was placed.
    pub fn newly_stored(&self) -> &[FileId] {
        &self.newly_stored
    }

    /// Whether files may not fit, so that each placement changes what is possible elsewhere.
    pub fn is_tight(&self) -> bool {
        self.room.is_some()
    }

    /// When the task's parents have ended and its data have arrived at the machine. Parents must be placed.
    pub fn ready(&self, task: TaskId, machine: MachineId) -> f64 {
        let workflow = self.problem.workflow();
        let inline = self.problem.places_files();
        let mut ready = self.problem.machine(machine).start_up;
        for edge in workflow.parents(task) {
            let Some(parent) = self.placed[edge.task.index()] else {
                continue;
            };
            let mut arrival = parent.finish;
            if !inline {
                arrival += self.problem.transfer_seconds(edge.bytes, parent.machine, machine);
                if !self.duplicates.is_empty() {
                    arrival = arrival.min(self.duplicate_arrival(edge.task, edge.bytes, machine));
                }
            }
            ready = ready.max(arrival);
        }
        if !inline {
            for file in workflow.inputs(task) {
                if workflow.is_fixed(*file) && !workflow.copies(*file).is_empty() {
                    ready = ready.max(self.problem.placed_access_seconds(*file, machine));
                }
            }
        }
        ready
    }

    fn duplicate_arrival(&self, task: TaskId, bytes: f64, machine: MachineId) -> f64 {
        let copies = self.duplicates.iter().filter(|duplicate| duplicate.task == task).map(|copy| copy.placement);
        let arrivals = copies.map(|copy| copy.finish + self.problem.transfer_seconds(bytes, copy.machine, machine));
        arrivals.fold(f64::INFINITY, f64::min)
    }

    /// Seconds that the task would occupy the machine; infinity if it cannot run there or its files do not fit.
    pub fn duration(&self, task: TaskId, machine: MachineId) -> f64 {
        let problem = self.problem;
        let compute = problem.compute_seconds(task, machine);
        if !compute.is_finite() {
            return f64::INFINITY;
        }
        if !problem.places_files() {
            let fits = self.room.as_ref().is_none_or(|room| room.fits(problem, task, machine));
            return if fits { compute } else { f64::INFINITY };
        }
        let workflow = problem.workflow();
        let mut room = self.room.clone();
        let mut transfers = |files: &[FileId]| {
            if files.is_empty() {
                return problem.model().local_seconds();
            }
            let access = |file: &FileId| {
                if workflow.is_fixed(*file) {
                    problem.placed_access_seconds(*file, machine)
                } else {
                    match self.home_for(*file, machine, room.as_mut()) {
                        Some(home) => problem.access_seconds(*file, machine, home),
                        None => f64::INFINITY,
                    }
                }
            };
            files.iter().map(access).sum()
        };
        compute + transfers(workflow.inputs(task)) + transfers(workflow.outputs(task))
    }

    /// Where a file is stored, or would be if a task on this machine were the first to touch it: there, or where most
    /// room is.
    fn home_for(&self, file: FileId, machine: MachineId, room: Option<&mut Room>) -> Option<MachineId> {
        if let Some(home) = self.homes[file.index()] {
            return Some(home);
        }
        let Some(room) = room else {
            return Some(machine);
        };
        if room.present.contains(&(file, machine)) {
            return Some(machine);
        }
        let bytes = self.problem.workflow().file_bytes(file);
        let emptiest = || {
            let machines = self.problem.machines();
            machines.max_by(|a, b| room.free[a.index()].total_cmp(&room.free[b.index()]).then(b.cmp(a)))
        };
        let home = if room.free[machine.index()] >= bytes { Some(machine) } else { emptiest() };
        let home = home.filter(|home| room.free[home.index()] >= bytes)?;
        room.free[home.index()] -= bytes;
        room.present.insert((file, home));
        Some(home)
    }

    /// The earliest start on a machine for a task that could start at `ready` and takes `duration` seconds.
    pub fn start(&self, task: TaskId, machine: MachineId, ready: f64, duration: f64, fill: Fill) -> f64 {
        let cores = self.problem.workflow().cores(task);
        let gpu = self.problem.uses_gpu(task, machine);
        self.timelines[machine.index()].start(ready, duration, cores, gpu, fill)
    }

    /// The place for a task on a machine, or nothing if it cannot run there.
    pub fn candidate(&self, task: TaskId, machine: MachineId, fill: Fill) -> Option<Candidate> {
        let duration = self.duration(task, machine);
        if !duration.is_finite() {
            return None;
        }
        let ready = self.ready(task, machine);
        if !ready.is_finite() {
            return None;
        }
        let start = self.start(task, machine, ready, duration, fill);
        Some(Candidate { machine, start, finish: start + duration })
    }

    /// The place where the task ends first; the first machine among equals.
    pub fn earliest_finish(&self, task: TaskId, fill: Fill) -> Result<Candidate, PlanError> {
        let candidates = self.problem.machines().filter_map(|machine| self.candidate(task, machine, fill));
        let best = candidates.reduce(|best, next| if next.finish < best.finish { next } else { best });
        best.ok_or_else(|| self.impossible(task))
    }

    /// Why a task has no place.
    pub fn impossible(&self, task: TaskId) -> PlanError {
        let name = self.problem.workflow().name(task).to_owned();
        if self.problem.machines().any(|machine| self.problem.can_run(task, machine)) {
            PlanError::NoRoom { task: name }
        } else {
            PlanError::NoMachine { task: name }
        }
    }

    /// Places a task. The candidate must come from this state.
    pub fn place(&mut self, task: TaskId, candidate: Candidate) {
        let Candidate { machine, start, finish } = candidate;
        self.newly_stored.clear();
        self.occupy(task, candidate);
        self.placed[task.index()] = Some(Placement { machine, start, finish });
        self.makespan = self.makespan.max(finish);
        let workflow = self.problem.workflow();
        let mut room = self.room.take();
        if self.problem.places_files() {
            for file in workflow.inputs(task).iter().chain(workflow.outputs(task)) {
                if !workflow.is_fixed(*file) && self.homes[file.index()].is_none() {
                    self.homes[file.index()] = self.home_for(*file, machine, room.as_mut());
                    self.newly_stored.push(*file);
                }
            }
        } else if let Some(room) = &mut room {
            room.take(self.problem, task, machine);
        }
        self.room = room;
    }

    /// Runs a task once more.
    pub fn duplicate(&mut self, task: TaskId, candidate: Candidate) {
        self.occupy(task, candidate);
        let Candidate { machine, start, finish } = candidate;
        self.duplicates.push(Duplicate { task, placement: Placement { machine, start, finish } });
        if let Some(room) = &mut self.room {
            room.take(self.problem, task, machine);
        }
    }

    fn occupy(&mut self, task: TaskId, candidate: Candidate) {
        let Candidate { machine, start, finish } = candidate;
        let cores = self.problem.workflow().cores(task);
        let gpu = self.problem.uses_gpu(task, machine);
        self.timelines[machine.index()].occupy(start, finish, cores, gpu);
        let share = f64::from(cores) / f64::from(self.problem.machine(machine).cores);
        let used = &mut self.uses[machine.index()];
        used.busy += (finish - start) * share;
        used.first = used.first.min(start);
        used.last = used.last.max(finish);
    }

    /// What the candidate adds to the bill of its machine. Reads by other machines do not count here.
    pub fn added_money(&self, task: TaskId, candidate: &Candidate) -> f64 {
        let node = self.problem.machine(candidate.machine);
        let share = f64::from(self.problem.workflow().cores(task)) / f64::from(node.cores);
        let before = self.uses[candidate.machine.index()];
        let after = Use {
            busy: before.busy + (candidate.finish - candidate.start) * share,
            first: before.first.min(candidate.start),
            last: before.last.max(candidate.finish),
        };
        let seconds = |used: Use| {
            if used.first == f64::INFINITY {
                return 0.0;
            }
            let rental = used.last - used.first + node.start_up;
            match node.billing {
                Billing::Busy => used.busy,
                Billing::Rental => rental,
                Billing::RentalFromStart => used.last,
                Billing::Period { seconds } => (rental / seconds - 1e-9).ceil().max(1.0) * seconds,
            }
        };
        (seconds(after) - seconds(before)) * node.price
    }

    /// The schedule. Every task must be placed.
    pub fn into_schedule(self) -> Result<Schedule, PlanError> {
        let missing = self.placed.iter().position(|placement| placement.is_none());
        if let Some(task) = missing {
            return Err(self.impossible(TaskId::new(task)));
        }
        Ok(Schedule {
            tasks: self.placed.into_iter().flatten().collect(),
            files: self.homes,
            duplicates: self.duplicates,
        })
    }
}

impl Room {
    /// Nothing if all files fit on every machine together.
    fn of(problem: &Problem) -> Option<Self> {
        let workflow = problem.workflow();
        let total: f64 = workflow.files().map(|file| workflow.file_bytes(file)).sum();
        let machines = &problem.platform().machines;
        if machines.iter().all(|machine| machine.storage >= total) {
            return None;
        }
        let mut room = Self { free: machines.iter().map(|machine| machine.storage).collect(), present: HashSet::new() };
        for file in workflow.files() {
            for machine in workflow.copies(file) {
                room.free[machine.index()] -= workflow.file_bytes(file);
                room.present.insert((file, *machine));
            }
        }
        Some(room)
    }

    fn needed(&self, problem: &Problem, task: TaskId, machine: MachineId) -> Vec<FileId> {
        let workflow = problem.workflow();
        let mut files: Vec<_> = workflow.inputs(task).iter().chain(workflow.outputs(task)).copied().collect();
        files.sort_unstable();
        files.dedup();
        files.retain(|file| !self.present.contains(&(*file, machine)));
        files
    }

    fn fits(&self, problem: &Problem, task: TaskId, machine: MachineId) -> bool {
        let needed = self.needed(problem, task, machine);
        let bytes: f64 = needed.iter().map(|file| problem.workflow().file_bytes(*file)).sum();
        bytes <= self.free[machine.index()]
    }

    fn take(&mut self, problem: &Problem, task: TaskId, machine: MachineId) {
        for file in self.needed(problem, task, machine) {
            self.free[machine.index()] -= problem.workflow().file_bytes(file);
            self.present.insert((file, machine));
        }
    }
}
