//! A world: its nodes, its time, and what goes wrong in it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use xavantes_process_coordinator::attempt::AttemptKey;
use xavantes_process_coordinator::process::journal::Origin;

use crate::check::Check;
use crate::coordinator::{Coordinator, Done};
use crate::documents::{TYPES, Tools};
use crate::mutation::Mutation;
use crate::network::{Side, Stream};
use crate::random::Random;
use crate::store::{Refused, Store};
use crate::user::{ReplyTo, Request, UserTask, Users};
use crate::worker::Worker;

/// After the last fault everything must have ended within this time.
const PATIENCE: u64 = 240_000;

/// A coordinator that does not reach its store for longer loses its lease without knowing it.
const LONGEST_CUT: u64 = 5_000;

/// A node, by its kind and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Coordinator(usize),
    Worker(usize),
}

/// What all nodes are.
#[derive(Debug)]
pub struct Machine {
    pub name: Arc<str>,
    pub group: usize,
    pub alive: bool,
    pub life: u32,
    pub began: u64,
    pub died: u64,
    frozen_until: u64,
    /// How long its clock stood still in this life.
    lag: u64,
    /// Its clock goes so fast, and so many milliseconds ahead.
    rate: f64,
    ahead: u64,
}

impl Machine {
    fn new(name: String, group: usize, random: &mut Random) -> Self {
        let rate = 0.92 + random.below(17) as f64 / 100.0;
        let ahead = random.below(20_000);
        let (alive, life, began, died, frozen_until, lag) = (false, 0, 0, 0, 0, 0);
        Self { name: name.into(), group, alive, life, began, died, frozen_until, lag, rate, ahead }
    }

    /// Since this life began.
    pub fn clock(&self, now: u64) -> Duration {
        let passed = now.saturating_sub(self.began + self.lag);
        Duration::from_millis((passed as f64 * self.rate) as u64)
    }

    /// Milliseconds since 1970, as it believes.
    pub fn wall(&self, now: u64) -> u64 {
        1_000_000 + self.ahead + (now.saturating_sub(self.lag) as f64 * self.rate) as u64
    }
}

/// Something that a node does by itself.
#[derive(Debug)]
pub enum Task {
    Flush(usize, Side),
    // Workers.
    Kept,
    Step(u64),
    // Coordinators.
    Pool,
    Look,
    Roster,
    TakeOver,
    Renew,
    Connect(Arc<str>, u64),
    FindPlace(AttemptKey),
    Wake(Arc<str>, u64),
    Record(Arc<str>, u64),
    Timer(Arc<str>, u64),
    Stored(Done, Result<(), Refused>),
    Again(Arc<str>, u64),
    TellParent(Origin, u64),
    StopUnwanted(Origin),
    Discard(Arc<str>),
}

/// Something that happens.
#[derive(Debug)]
pub enum Event {
    /// To a node, if it still has that life.
    Node(Who, u32, Task),
    Deliver(usize, Side),
    Cut(usize, Side),
    Notice(usize, Side),
    Commit(usize, u32),
    Call(Who, Box<Request>, ReplyTo),
    User(UserTask),
    Start(Who),
    Crash(Who, u32),
    Fault(Fault),
}

/// Something that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    CrashCoordinator,
    CrashWorker,
    FreezeCoordinator,
    FreezeWorker,
    Break,
    Partition,
    PartitionGroups,
    CutStore,
}

const FAULTS: [Fault; 8] = [
    Fault::CrashCoordinator,
    Fault::CrashWorker,
    Fault::FreezeCoordinator,
    Fault::FreezeWorker,
    Fault::Break,
    Fault::Partition,
    Fault::PartitionGroups,
    Fault::CutStore,
];

/// A moment at which a node may be crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ambush {
    Write,
    Commit,
    Answer,
    Keep,
    Kept,
}

#[derive(Debug)]
struct Scheduled(u64, u64, Event);

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.0, other.1).cmp(&(self.0, self.1))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}

/// Everything.
pub struct World<'a> {
    pub now: u64,
    pub random: Random,
    pub tools: &'a mut Tools,
    pub mutation: Option<Mutation>,
    pub coordinators: Vec<Coordinator>,
    pub workers: Vec<Worker>,
    pub stores: Vec<Store>,
    pub streams: Vec<Stream>,
    pub partitions: Vec<(Who, Who, u64)>,
    pub users: Users,
    pub check: Check,
    /// Journals are replaced by snapshots often.
    pub compacts: bool,
    pub steers: bool,
    trace: bool,
    queue: BinaryHeap<Scheduled>,
    number: u64,
    /// No faults from then on.
    healed: u64,
    ambushes: BTreeMap<Ambush, u64>,
    broken: Option<String>,
}

impl<'a> World<'a> {
    /// The world of a seed.
    pub fn new(seed: u64, mutation: Option<Mutation>, trace: bool, tools: &'a mut Tools) -> Self {
        let mut random = Random::new(seed);
        let compacts = random.one_in(3);
        let steers = random.one_in(2);
        let mut world = Self {
            now: 0,
            tools,
            mutation,
            coordinators: Vec::new(),
            workers: Vec::new(),
            stores: Vec::new(),
            streams: Vec::new(),
            partitions: Vec::new(),
            users: Users::default(),
            check: Check::default(),
            compacts,
            steers,
            trace,
            queue: BinaryHeap::new(),
            number: 0,
            healed: 0,
            ambushes: BTreeMap::new(),
            broken: None,
            random,
        };
        world.populate();
        world.plan();
        world
    }

    fn populate(&mut self) {
        let groups = self.random.between(2, 3) as usize;
        for group in 0..groups {
            self.stores.push(Store { realm: format!("r{group}").into(), ..Store::default() });
            let coordinators = if self.random.one_in(3) { 2 } else { 1 };
            for _ in 0..coordinators {
                let machine = Machine::new(format!("c{}", self.coordinators.len()), group, &mut self.random);
                self.coordinators.push(Coordinator::new(machine, group));
                self.at(self.now, Event::Start(Who::Coordinator(self.coordinators.len() - 1)));
            }
            for _ in 0..self.random.between(1, 3) {
                let machine = Machine::new(format!("w{}", self.workers.len()), group, &mut self.random);
                let (slots, queue) = (self.random.between(1, 3) as u32, self.random.between(1, 6) as u32);
                self.workers.push(Worker::new(machine, slots, queue));
                self.at(self.now, Event::Start(Who::Worker(self.workers.len() - 1)));
            }
        }
        for _ in 0..self.random.between(1, 2) {
            let process_type = self.random.pick(&TYPES).unwrap_or(TYPES[0]);
            let n = self.random.between(5, 24) as i64;
            let group = self.random.below(groups as u64) as usize;
            let case = self.users.add(process_type, n, group);
            let at = self.random.between(100, 3000);
            self.at(at, Event::User(UserTask::Submit(case)));
            let at = self.random.between(1000, 9000);
            self.at(at, Event::User(UserTask::Steer(case)));
        }
    }

    /// Some kinds of faults in each world, so that some have one kind only.
    fn plan(&mut self) {
        self.healed = self.random.between(3_000, 40_000);
        if self.random.one_in(12) {
            self.healed = 0;
            return;
        }
        let kinds: Vec<Fault> = FAULTS.into_iter().filter(|_| self.random.one_in(3)).collect();
        for _ in 0..self.random.between(1, 8) {
            let at = self.random.between(200, self.healed);
            self.random.pick(&kinds).into_iter().for_each(|fault| self.at(at, Event::Fault(fault)));
        }
        for (ambush, fault) in [
            (Ambush::Write, Fault::CrashCoordinator),
            (Ambush::Commit, Fault::CrashCoordinator),
            (Ambush::Answer, Fault::CrashCoordinator),
            (Ambush::Keep, Fault::CrashWorker),
            (Ambush::Kept, Fault::CrashWorker),
        ] {
            if kinds.contains(&fault) && self.random.one_in(2) {
                let moment = self.random.between(1, 40);
                self.ambushes.insert(ambush, moment);
            }
        }
    }

    pub fn is_healed(&self) -> bool {
        self.now >= self.healed
    }

    pub fn trace(&self, what: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>9} {}", self.now, what());
        }
    }

    pub fn broken(&mut self, problem: Option<String>) {
        if self.broken.is_none() {
            self.broken = problem;
        }
    }

    /// A number that was not used before.
    pub fn count(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    pub fn at(&mut self, time: u64, event: Event) {
        let number = self.count();
        self.queue.push(Scheduled(time, number, event));
    }

    pub fn machine(&self, who: Who) -> &Machine {
        match who {
            Who::Coordinator(c) => &self.coordinators[c].machine,
            Who::Worker(w) => &self.workers[w].machine,
        }
    }

    fn machine_mut(&mut self, who: Who) -> &mut Machine {
        match who {
            Who::Coordinator(c) => &mut self.coordinators[c].machine,
            Who::Worker(w) => &mut self.workers[w].machine,
        }
    }

    /// Who is reached there: addresses are names.
    pub fn address(&self, address: &str) -> Who {
        let number = address[1..].parse().unwrap_or_default();
        if address.starts_with('w') { Who::Worker(number) } else { Who::Coordinator(number) }
    }

    /// Runs to the end; gives the number of things that happened, or what should not have.
    pub fn run(mut self) -> Result<u64, String> {
        let mut ended = None;
        let mut steps = 0;
        while let Some(Scheduled(time, _, event)) = self.queue.pop() {
            self.now = self.now.max(time);
            steps += 1;
            self.happen(event);
            if let Some(problem) = self.broken.take() {
                return Err(problem);
            }
            if steps % 64 == 0 {
                if let Some(problem) = self.submissions_are_kept() {
                    return Err(problem);
                }
                if ended.is_none() && self.is_healed() && self.all_ended() {
                    if let Some(problem) = self.results() {
                        return Err(problem);
                    }
                    ended = Some(self.now);
                }
                if let Some(since) = ended {
                    if self.is_clean() {
                        return Ok(steps);
                    }
                    if self.now > since + PATIENCE {
                        return Err(self.left());
                    }
                } else if self.now > self.healed + PATIENCE {
                    self.trace(|| self.conditions().join("\n"));
                    return Err(format!("{} did not end", self.unended()));
                }
            }
        }
        Err("nothing happens any more".into())
    }

    /// Is nothing left that nobody needs? A subtree that was closed and not forgotten goes with age.
    fn is_clean(&self) -> bool {
        let mut processes = self.stores.iter().flat_map(|store| &store.processes);
        !processes.any(|(process, stored)| process.contains('/') && stored.summary.is_none())
            && self.workers.iter().all(|worker| worker.disk.is_empty())
    }

    fn left(&self) -> String {
        let subtrees = self.stores.iter().flat_map(|store| store.processes.iter());
        let subtrees = subtrees.filter(|(process, _)| process.contains('/'));
        let subtrees: Vec<String> =
            subtrees.map(|(process, stored)| format!("{process} (ended: {})", stored.summary.is_some())).collect();
        let answers = self.workers.iter().flat_map(|worker| &worker.disk);
        let answers: Vec<String> = answers.map(|(key, (owner, _))| format!("{} for {owner}", key.key)).collect();
        format!("left behind: answers {answers:?}, subtrees {subtrees:?}")
    }

    /// It is not there to see this now: gives when it will be.
    fn absent(&self, who: Who) -> Option<u64> {
        let until = self.machine(who).frozen_until;
        (until > self.now).then_some(until)
    }

    fn happen(&mut self, event: Event) {
        let who = match &event {
            Event::Node(who, ..) | Event::Call(who, ..) => Some(*who),
            Event::Deliver(stream, side) | Event::Notice(stream, side) => {
                Some(self.streams[*stream].ends[*side as usize].0)
            }
            _ => None,
        };
        if let Some(until) = who.and_then(|who| self.absent(who)) {
            return self.at(until, event);
        }
        match event {
            Event::Node(who, life, task) => {
                let machine = self.machine(who);
                if machine.alive && machine.life == life {
                    self.task(who, task);
                }
            }
            Event::Deliver(stream, side) => self.deliver(stream, side),
            Event::Cut(stream, side) => self.cut(stream, side),
            Event::Notice(stream, side) => self.notice(stream, side),
            Event::Commit(c, life) => {
                let machine = &self.coordinators[c].machine;
                if machine.alive && machine.life == life {
                    self.commit(c);
                }
            }
            Event::Call(who, request, reply) => self.on_call(who, *request, reply),
            Event::User(task) => self.user(task),
            Event::Start(who) => self.start_node(who),
            Event::Crash(who, life) => {
                if self.machine(who).life == life && !self.is_healed() {
                    self.crash(who);
                }
            }
            Event::Fault(fault) => self.fault(fault),
        }
    }

    fn task(&mut self, who: Who, task: Task) {
        if let Task::Flush(stream, side) = task {
            return self.flush(stream, side);
        }
        match (who, task) {
            (Who::Worker(w), Task::Kept) => self.on_kept(w),
            (Who::Worker(w), Task::Step(number)) => self.step(w, number),
            (Who::Worker(_), _) => {}
            (Who::Coordinator(c), task) => match task {
                Task::Pool => self.on_pool(c),
                Task::Look => self.on_look(c),
                Task::Roster => self.roster(c),
                Task::TakeOver => {
                    self.take_over(c);
                    self.later(who, 2000, Task::TakeOver);
                }
                Task::Renew => self.renew(c),
                Task::Connect(name, number) => self.connect(c, &name, number),
                Task::FindPlace(key) => self.find_place(c, key),
                Task::Wake(id, number) => self.on_wake(c, &id, number),
                Task::Record(id, number) => self.record(c, &id, number),
                Task::Timer(id, number) => self.on_timer(c, &id, number),
                Task::Stored(done, result) => self.on_stored(c, done, result),
                Task::Again(id, number) => self.write_again(c, &id, number),
                Task::TellParent(origin, epoch) => self.tell_parent(c, origin, epoch),
                Task::StopUnwanted(origin) => self.stop_unwanted(c, &origin),
                Task::Discard(process) => self.discard(c, &process),
                Task::Flush(..) | Task::Kept | Task::Step(_) => {}
            },
        }
    }

    fn start_node(&mut self, who: Who) {
        let now = self.now;
        let machine = self.machine_mut(who);
        machine.alive = true;
        machine.life += 1;
        machine.began = now;
        machine.lag = 0;
        machine.frozen_until = 0;
        self.trace(|| format!("{who:?} starts"));
        match who {
            Who::Coordinator(c) => self.coordinator_started(c),
            Who::Worker(w) => self.worker_started(w),
        }
    }

    fn crash(&mut self, who: Who) {
        if !self.machine(who).alive {
            return;
        }
        self.trace(|| format!("{who:?} crashes"));
        let now = self.now;
        let machine = self.machine_mut(who);
        machine.alive = false;
        machine.died = now;
        let life = machine.life;
        match who {
            Who::Coordinator(c) => self.coordinator_crashed(c),
            Who::Worker(w) => self.worker_crashed(w),
        }
        self.break_streams(|stream| stream.ends.contains(&(who, life)), false);
        let delay =
            if self.random.one_in(4) { self.random.between(3000, 20_000) } else { self.random.between(20, 2500) };
        self.at(self.now + delay, Event::Start(who));
    }

    /// Somebody who is waited for comes by.
    pub fn ambush(&mut self, moment: Ambush, who: Who) {
        let Some(left) = self.ambushes.get_mut(&moment) else { return };
        *left -= 1;
        if *left == 0 {
            self.ambushes.remove(&moment);
            let (delay, life) = (self.random.below(5), self.machine(who).life);
            self.at(self.now + delay, Event::Crash(who, life));
            if self.random.one_in(2) {
                let next = self.random.between(1, 60);
                self.ambushes.insert(moment, next);
            }
        }
    }

    fn any(&mut self, coordinator: bool) -> Who {
        if coordinator {
            Who::Coordinator(self.random.below(self.coordinators.len() as u64) as usize)
        } else {
            Who::Worker(self.random.below(self.workers.len() as u64) as usize)
        }
    }

    fn fault(&mut self, fault: Fault) {
        self.trace(|| format!("{fault:?}"));
        let long =
            if self.random.one_in(3) { self.random.between(8000, 16_000) } else { self.random.between(50, 5000) };
        match fault {
            Fault::CrashCoordinator | Fault::CrashWorker => {
                let who = self.any(fault == Fault::CrashCoordinator);
                self.crash(who);
            }
            Fault::FreezeCoordinator | Fault::FreezeWorker => {
                let who = self.any(fault == Fault::FreezeCoordinator);
                let (now, stands) = (self.now, self.random.one_in(2));
                let machine = self.machine_mut(who);
                if !machine.alive || machine.frozen_until > now {
                    return;
                }
                machine.frozen_until = now + long;
                machine.lag += if stands { long } else { 0 };
                if let Who::Worker(_) = who {
                    let name = machine.name.clone();
                    self.check.frozen(&name, now, long);
                }
                self.trace(|| format!("{who:?} is frozen for {long}"));
                if long > 4000 && self.random.one_in(2) {
                    self.break_streams(|stream| stream.ends.iter().any(|end| end.0 == who), false);
                }
            }
            Fault::Break => {
                let open = self.open_streams();
                self.random.pick(&open).into_iter().for_each(|stream| self.break_stream(stream, false));
            }
            Fault::Partition => {
                let (from, coordinator) = (self.any(true), self.random.one_in(2));
                let to = self.any(coordinator);
                self.partition(vec![(from, to)], long);
            }
            Fault::PartitionGroups => {
                let group = self.coordinators[self.random.below(self.coordinators.len() as u64) as usize].machine.group;
                let here = |world: &Self, c: usize| world.coordinators[c].machine.group == group;
                let all = 0..self.coordinators.len();
                let inside = all.clone().filter(|c| here(self, *c));
                let pairs = inside.flat_map(|c| all.clone().map(move |other| (c, other)));
                let pairs = pairs.filter(|(_, other)| !here(self, *other));
                let pairs = pairs.map(|(c, other)| (Who::Coordinator(c), Who::Coordinator(other))).collect();
                self.partition(pairs, long);
            }
            Fault::CutStore => {
                let c = self.random.below(self.coordinators.len() as u64) as usize;
                self.coordinators[c].store_cut_until = self.now + long.min(LONGEST_CUT);
            }
        }
    }

    fn partition(&mut self, pairs: Vec<(Who, Who)>, long: u64) {
        for (one, other) in pairs {
            self.trace(|| format!("{one:?} and {other:?} do not reach each other for {long}"));
            self.partitions.push((one, other, self.now + long));
            let between = |stream: &Stream| {
                let ends = [stream.ends[0].0, stream.ends[1].0];
                ends == [one, other] || ends == [other, one]
            };
            self.break_streams(between, true);
        }
    }
}
