//! A coordinator: drivers, the pool and the books of subtrees, and around them what the real shell does, in its order.

mod links;
mod parents;
mod process;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use xavantes_engine::{ElementId, Engine, Rejection, Root, Start, StepOutput, Time};
use xavantes_model::definition::NodeId;
use xavantes_model::value::Value;
use xavantes_process_coordinator::attempt::AttemptKey;
use xavantes_process_coordinator::codec;
use xavantes_process_coordinator::handover::Placement;
use xavantes_process_coordinator::process::driver::Driver;
use xavantes_process_coordinator::process::effect::{Batch, JournalWrite, ProcessEffect};
use xavantes_process_coordinator::process::final_status::{final_results, final_status};
use xavantes_process_coordinator::process::history::ProcessHistory;
use xavantes_process_coordinator::process::input::ProcessInput;
use xavantes_process_coordinator::process::journal::{self, Head, Origin};
use xavantes_process_coordinator::process::summary::Summary;
use xavantes_process_coordinator::subtrees::hosted::{self, Caller};
use xavantes_process_coordinator::subtrees::move_notice::{
    MoveReportStep, NoticeStep, ParentState, on_move_report, on_notice,
};
use xavantes_process_coordinator::subtrees::parent_links::{
    ArrivalDecision, EndDecision, ParentAttempt, ParentLinks, ParentMessage, UnwantedSubtree,
};
use xavantes_process_coordinator::workers::messages::{MoveOutcome, Order, PeerKind, PoolCommand, Share, Whereabouts};
use xavantes_process_coordinator::workers::peer_report::{PeerReport, ProcessAnswers, reply_ended};
use xavantes_process_coordinator::workers::pool::Pool;
use xavantes_process_coordinator::workers::pool_input::PoolInput;
use xavantes_proto::v1;

use crate::mutation::Mutation;
use crate::network::{Message, Side, Step};
use crate::store::{Change, Held, Refused};
use crate::user::{Answer, Moved, ReplyTo, Request};
use crate::world::{Ambush, Event, Machine, Task, Who, World};

const FIRST_PAUSE: u64 = 50;
const LONGEST_PAUSE: u64 = 2000;

/// The driver of a process; replies go to streams, verdicts to whoever steers.
pub type Driving = Driver<usize, ReplyTo>;
type Happened = ProcessInput<usize, ReplyTo>;

/// Mail for the pool.
#[derive(Debug)]
pub enum PoolMail {
    Input(PoolInput),
    Moved(AttemptKey, Placement, ReplyTo),
    Connected(Arc<str>, v1::WorkerHello, usize),
    Disconnected(Arc<str>),
}

#[derive(Debug)]
enum Mail {
    Happened(Happened),
    Called(v1::SharedCall, usize),
}

/// A connection that the pool wants.
#[derive(Debug)]
struct Link {
    number: u64,
    address: String,
    pause: u64,
    /// Which is being used, and to which orders go.
    stream: Option<usize>,
    orders: Option<usize>,
}

/// A process that runs here.
#[derive(Debug)]
struct Runner {
    number: u64,
    driver: Driving,
    head: Head,
    /// The engine's clock and the node's when it began to run here.
    began: (u64, Duration),
    parent: Option<ParentAttempt>,
    mail: VecDeque<Mail>,
    awake: bool,
    share: bool,
    /// Answers that have been taken since the last record.
    taken: Vec<AttemptKey>,
    writing: Option<(Batch<usize, ReplyTo>, Vec<AttemptKey>)>,
    ending: Option<Summary>,
    timer: u64,
}

/// What ends with a life.
#[derive(Debug, Default)]
struct Memory {
    pool: Pool,
    pool_mail: VecDeque<PoolMail>,
    pool_awake: bool,
    share: Share,
    links: BTreeMap<Arc<str>, Link>,
    runners: BTreeMap<Arc<str>, Runner>,
    /// Processes of others, and answers that came for them.
    foreign: BTreeMap<Arc<str>, Vec<(usize, AttemptKey)>>,
    parents: ParentLinks<usize, usize>,
}

/// A write that is on its way, and what follows.
#[derive(Debug)]
pub struct Writing {
    change: Change,
    done: Done,
}

/// What is to be done when a write is answered.
#[derive(Debug)]
pub enum Done {
    Started(Box<Started>),
    Recorded(Arc<str>, u64),
    Closed(Arc<str>, u64),
    /// Of a subtree that nobody needs any more, which is forgotten then.
    Discarded(Arc<str>),
    Forgotten(Arc<str>),
}

/// A process that begins when it is kept.
#[derive(Debug)]
pub struct Started {
    id: Arc<str>,
    driver: Driving,
    head: Head,
    /// With the stream that it arrived by.
    parent: Option<(ParentAttempt, usize)>,
    reply: Option<ReplyTo>,
}

/// A coordinator.
#[derive(Debug)]
pub struct Coordinator {
    pub machine: Machine,
    pub store: usize,
    pub held: Held,
    pub store_cut_until: u64,
    writes: VecDeque<Writing>,
    commits: u64,
    memory: Memory,
}

fn element_of(key: &AttemptKey) -> ElementId {
    ElementId { index: key.element as u32, generation: (key.element >> 32) as u32 }
}

impl Coordinator {
    pub fn new(machine: Machine, store: usize) -> Self {
        let (held, writes) = (Held::default(), VecDeque::new());
        Self { machine, store, held, store_cut_until: 0, writes, commits: 0, memory: Memory::default() }
    }
}

impl World<'_> {
    fn hello(&self, c: usize) -> v1::CoordinatorHello {
        let it = &self.coordinators[c];
        v1::CoordinatorHello {
            node: it.machine.name.to_string(),
            group: format!("g{}", it.machine.group),
            realm: self.stores[it.store].realm.to_string(),
            address: it.machine.name.to_string(),
            ..v1::CoordinatorHello::default()
        }
    }

    fn clock(&self, c: usize) -> Duration {
        self.coordinators[c].machine.clock(self.now)
    }

    /// With everything that was kept.
    pub fn coordinator_started(&mut self, c: usize) {
        let session = self.count();
        let it = &mut self.coordinators[c];
        let store = &mut self.stores[it.store];
        store.begin(it.held.session, session, self.now);
        it.held = Held { session, ..Held::default() };
        self.take_over(c);
        let it = &mut self.coordinators[c];
        let others = self.stores[it.store]
            .processes
            .iter()
            .filter(|(process, stored)| stored.summary.is_none() && !it.memory.runners.contains_key(*process));
        let others: Vec<(Arc<str>, Bytes)> = others.map(|(id, stored)| (id.clone(), stored.head.clone())).collect();
        for (process, head) in others {
            self.leave(c, &process, &head);
        }
        for (delay, task) in [(0, Task::Look), (2000, Task::TakeOver), (3000, Task::Renew), (0, Task::Roster)] {
            let delay = delay + self.random.below(300);
            self.later(Who::Coordinator(c), delay, task);
        }
    }

    /// A crash: of what was on its way to the store, some may have arrived.
    pub fn coordinator_crashed(&mut self, c: usize) {
        while !self.coordinators[c].writes.is_empty() && self.random.one_in(2) {
            let _ = self.apply_next(c);
        }
        let it = &mut self.coordinators[c];
        it.writes.clear();
        it.memory = Memory::default();
        let name = it.machine.name.clone();
        self.check.coordinator_crashed(&name, self.now);
    }

    pub fn renew(&mut self, c: usize) {
        let it = &mut self.coordinators[c];
        let cut = it.store_cut_until > self.now;
        if !cut && !self.stores[it.store].renew(it.held.session, self.now) {
            let session = self.count();
            let it = &mut self.coordinators[c];
            it.held.session = session;
            self.stores[it.store].begin(0, session, self.now);
        }
        self.later(Who::Coordinator(c), if cut { 500 } else { 3000 }, Task::Renew);
    }

    /// Goes on with processes that it had, or that others had.
    pub fn take_over(&mut self, c: usize) {
        let it = &mut self.coordinators[c];
        if it.store_cut_until > self.now && it.machine.began != self.now {
            return;
        }
        let all = self.mutation == Some(Mutation::AdoptTwice);
        let store = &mut self.stores[it.store];
        if all {
            let lives = |process: &&Arc<str>| store.is_held(process, self.now);
            let stolen = store.processes.iter().filter(|(_, it)| it.summary.is_none()).map(|(process, _)| process);
            let session = it.held.session;
            let stolen = stolen.filter(|process| store.processes[*process].owner != session).find(lives).cloned();
            if let Some(process) = stolen {
                self.broken(Some(format!("{process} is taken from a coordinator whose lease is not over")));
                return;
            }
        }
        let it = &mut self.coordinators[c];
        let (gained, lost) = self.stores[it.store].claim(&mut it.held, self.now);
        if self.mutation != Some(Mutation::NoFencing) {
            lost.iter().for_each(|process| self.lose(c, process));
        }
        for process in gained {
            self.recover(c, &process);
        }
        self.hear_of_moves(c);
        self.answer_late(c);
    }

    /// Answers that came for processes of others, and that nobody wants any more.
    fn answer_late(&mut self, c: usize) {
        let it = &mut self.coordinators[c];
        let store = &self.stores[it.store];
        let mut late = Vec::new();
        it.memory.foreign.retain(|process, answers| {
            let over = !answers.is_empty() && !store.runs(process);
            if over {
                late.append(answers);
            }
            !over
        });
        late.into_iter().for_each(|(stream, key)| self.order(stream, Order::Acknowledge(key)));
    }

    /// Another coordinator has it, or had.
    fn lose(&mut self, c: usize, process: &Arc<str>) {
        let it = &self.coordinators[c];
        if it.memory.runners.contains_key(process) {
            return self.taken(c, process);
        }
        let head = self.stores[it.store].processes.get(process).map(|stored| stored.head.clone());
        if let Some(head) = head {
            self.leave(c, process, &head);
        }
    }

    /// Another coordinator has it.
    fn leave(&mut self, c: usize, process: &Arc<str>, head: &[u8]) {
        let memory = &mut self.coordinators[c].memory;
        let head = codec::decode::<Head>("head", head).ok();
        if let Some(parent) = head.and_then(|head| ParentAttempt::of(&head.parent?)) {
            memory.parents.leave(&parent, process);
        }
        memory.foreign.entry(process.clone()).or_default();
        self.pool_mail(c, PoolMail::Input(PoolInput::ProcessLost(process.clone())));
    }

    fn recover(&mut self, c: usize, process: &Arc<str>) {
        let it = &self.coordinators[c];
        let Some(stored) = self.stores[it.store].processes.get(process).cloned() else { return };
        let program = self.tools.program.clone();
        let read = codec::decode::<Head>("head", &stored.head).and_then(|head| {
            Ok((journal::restore(&program, &head, stored.snapshot.as_deref(), &stored.records)?, head))
        });
        let (kept, head) = match read {
            Ok(read) => read,
            Err(error) => return self.broken(Some(format!("{process}: {error}"))),
        };
        let at = kept.at;
        let root = Root { process: head.root.0 as usize, node: NodeId(head.root.1) };
        let (driver, out) = Driver::recover(process.clone(), program, self.tools.wire.clone(), root, kept);
        self.trace(|| format!("c{c} goes on with {process}, {} out", out.len()));
        let creation = self.creation_at(c, process);
        for it in &out {
            let problem = self.check.recovered(creation, &it.task.key);
            self.broken(problem);
        }
        let problem = self.users.recovered(process, &driver);
        self.broken(problem);
        let parent = head.parent.as_ref().and_then(ParentAttempt::of);
        if let Some(parent) = &parent {
            self.coordinators[c].memory.parents.restore(parent, process);
        }
        if let Some(origin) = head.parent.clone() {
            self.tell_parent(c, origin, stored.epoch);
        }
        let lost: Vec<AttemptKey> = match self.mutation {
            Some(Mutation::GiveUpAtOnce) => out.iter().map(|it| it.task.key.clone()).collect(),
            _ => Vec::new(),
        };
        self.pool_mail(c, PoolMail::Input(PoolInput::ProcessRecovered(process.clone(), stored.epoch, out)));
        self.run_process(c, process, driver, head, at, parent);
        for key in lost {
            self.mail(c, process, Mail::Happened(ProcessInput::Lost(key)));
        }
    }

    fn creation_at(&self, c: usize, process: &str) -> u64 {
        self.creation(&self.stores[self.coordinators[c].store].realm, process)
    }

    /// A parent is told where a subtree is, as long as it waits for it.
    pub fn tell_parent(&mut self, c: usize, origin: Origin, epoch: u64) {
        let it = &self.coordinators[c];
        let Some(parent) = ParentAttempt::of(&origin) else { return };
        if !it.memory.parents.waits(&parent) {
            return;
        }
        let name = it.machine.name.to_string();
        let place = Placement { node: name.clone(), address: name, epoch };
        let (life, to) = (it.machine.life, self.address(&origin.address));
        let reply = ReplyTo::Moved(Box::new(Moved { c, life, origin, epoch }));
        self.call(Some(Who::Coordinator(c)), to, Request::Moved(parent.key, place), reply);
    }

    /// Nobody waits for a subtree.
    pub fn stop_unwanted(&mut self, c: usize, origin: &Origin) {
        let Some(parent) = ParentAttempt::of(origin) else { return };
        self.trace(|| format!("c{c}: no process waits for {}", parent.key));
        match self.coordinators[c].memory.parents.forget(&parent) {
            UnwantedSubtree::Discard(process) => self.discard(c, &process),
            UnwantedSubtree::Cancel(process) => {
                self.mail(c, &process, Mail::Happened(ProcessInput::ParentCancelled));
            }
            UnwantedSubtree::Gone => {}
        }
    }

    /// Where the parent of a subtree runs, as a coordinator knows it.
    fn parent_state(&self, c: usize, process: &Arc<str>) -> ParentState {
        let it = &self.coordinators[c];
        if it.memory.runners.contains_key(process) {
            ParentState::RunsHere
        } else if self.stores[it.store].runs(process) {
            ParentState::RunsElsewhere
        } else {
            ParentState::Ended
        }
    }

    /// Word of moves that others heard of.
    fn hear_of_moves(&mut self, c: usize) {
        let store = self.coordinators[c].store;
        for (key, place) in self.stores[store].moved.clone() {
            match on_notice(self.parent_state(c, &key.process), place) {
                NoticeStep::AskPool(place) => {
                    self.stores[store].moved.remove(&key);
                    let reply = ReplyTo::Word(store, Box::new(key.clone()));
                    self.pool_mail(c, PoolMail::Moved(key, place, reply));
                }
                NoticeStep::Keep => {}
                NoticeStep::Remove => drop(self.stores[store].moved.remove(&key)),
            }
        }
    }

    /// Starts to run a process.
    fn run_process(
        &mut self,
        c: usize,
        id: &Arc<str>,
        mut driver: Driving,
        head: Head,
        at_least: u64,
        parent: Option<ParentAttempt>,
    ) {
        let number = self.count();
        let machine = &self.coordinators[c].machine;
        let passed = machine.wall(self.now).saturating_sub(head.submitted_ms).max(at_least);
        let began = (passed, machine.clock(self.now));
        if self.compacts {
            driver.set_compaction_threshold(500);
        }
        let runner = Runner {
            number,
            driver,
            head,
            began,
            parent,
            mail: VecDeque::new(),
            awake: false,
            share: true,
            taken: Vec::new(),
            writing: None,
            ending: None,
            timer: u64::MAX,
        };
        let memory = &mut self.coordinators[c].memory;
        memory.foreign.remove(id);
        memory.runners.insert(id.clone(), runner);
        self.wake(c, id);
    }

    /// How processes are that have not ended.
    pub fn conditions(&self) -> Vec<String> {
        let alive = self.coordinators.iter().filter(|it| it.machine.alive);
        let runners = alive.flat_map(|it| it.memory.runners.iter().map(move |(id, runner)| (it, id, runner)));
        let describe = |(it, id, runner): (&Coordinator, &Arc<str>, &Runner)| {
            let (counts, share) = (runner.driver.engine().state().counts(), it.memory.share);
            format!("{id} at {}: {counts:?}, {share:?}", it.machine.name)
        };
        runners.map(describe).collect()
    }

    /// The driver of a process, wherever it runs.
    pub fn driver(&self, id: &str) -> Option<(usize, &Driving)> {
        let find = |c: &usize| self.coordinators[*c].memory.runners.get(id).map(|runner| (*c, &runner.driver));
        (0..self.coordinators.len()).filter(|c| self.coordinators[*c].machine.alive).find_map(|c| find(&c))
    }
}
