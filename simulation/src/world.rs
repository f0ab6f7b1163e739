//! The world of a seed: its nodes, its stores, its streams, its users, and the queue of events.

use std::collections::{BTreeMap, BinaryHeap};

use crate::check::Check;
use crate::coordinator::state::SimCoordinator;
use crate::free_slots::FreeSlots;
use crate::mutation::Mutation;
use crate::random::Random;
use crate::simulated_machine::{NodeRef, SimulatedNode};
use crate::store::SimStore;
use crate::stream::SimStream;
use crate::user::state::Users;
use crate::worker::state::SimWorker;
use crate::world_documents::{LARGE, TYPES, Tools, restarting_parts};
use crate::world_event::{CrashPoint, NodeTask, ScheduledEvent, UserAction, WorldEvent};

/// A world. Times are milliseconds since its begin.
pub struct World<'a> {
    pub now: u64,
    pub random: Random,
    pub tools: &'a mut Tools,
    pub mutation: Option<Mutation>,
    pub coordinators: Vec<SimCoordinator>,
    pub workers: Vec<SimWorker>,
    pub stores: Vec<SimStore>,
    pub streams: Vec<SimStream>,
    /// Pairs of nodes that do not reach each other, and until when.
    pub partitions: Vec<(NodeRef, NodeRef, u64)>,
    pub users: Users,
    pub check: Check,
    pub free_slots: FreeSlots,
    /// Journals are compacted often.
    pub compacts: bool,
    /// Users steer their processes.
    pub steers: bool,
    /// Coordinators borrow workers of other groups.
    pub borrows: bool,
    /// Processes and coordinators have budgets.
    pub budgets: bool,
    trace: bool,
    pub queue: BinaryHeap<ScheduledEvent>,
    number: u64,
    /// From this time on nothing fails.
    pub healed: u64,
    /// Planned crashes: how often the world passes each point before one.
    pub crash_points: BTreeMap<CrashPoint, u64>,
    /// First invariant that was violated.
    pub problem: Option<String>,
}

impl<'a> World<'a> {
    /// Creates the world of a seed.
    pub fn new(seed: u64, mutation: Option<Mutation>, trace: bool, tools: &'a mut Tools) -> Self {
        let mut random = Random::new(seed);
        let compacts = random.one_in(3);
        let steers = random.one_in(2);
        let borrows = random.one_in(3);
        let budgets = random.one_in(4);
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
            free_slots: FreeSlots::default(),
            compacts,
            steers,
            borrows,
            budgets,
            trace,
            queue: BinaryHeap::new(),
            number: 0,
            healed: 0,
            crash_points: BTreeMap::new(),
            problem: None,
            random,
        };
        world.populate();
        world.plan_faults();
        world
    }

    fn populate(&mut self) {
        let groups = self.random.between(2, 3) as usize;
        for group in 0..groups {
            self.stores.push(SimStore { realm: format!("r{group}").into(), ..SimStore::default() });
            let coordinators = if self.random.one_in(3) { 2 } else { 1 };
            for _ in 0..coordinators {
                let machine = SimulatedNode::new(format!("c{}", self.coordinators.len()), group, &mut self.random);
                self.coordinators.push(SimCoordinator::new(machine, group));
                self.at(self.now, WorldEvent::Start(NodeRef::Coordinator(self.coordinators.len() - 1)));
            }
            for _ in 0..self.random.between(1, 3) {
                let machine = SimulatedNode::new(format!("w{}", self.workers.len()), group, &mut self.random);
                let (slots, queue) = (self.random.between(1, 3) as u32, self.random.between(1, 6) as u32);
                self.workers.push(SimWorker::new(machine, slots, queue));
                self.at(self.now, WorldEvent::Start(NodeRef::Worker(self.workers.len() - 1)));
            }
        }
        for number in 0..self.random.between(1, 2) {
            let any = self.random.pick(&TYPES).unwrap_or(TYPES[0]);
            let process_type = if self.budgets && number == 0 { LARGE } else { any };
            let n = self.random.between(if process_type == LARGE { 1 } else { 5 }, 24) as i64;
            let group = self.random.below(groups as u64) as usize;
            let case = self.users.add(process_type, n, group);
            let at = self.random.between(100, 3000);
            self.at(at, WorldEvent::User(UserAction::Submit(case)));
            let at = self.random.between(1000, 9000);
            self.at(at, WorldEvent::User(UserAction::Steer(case)));
            let at = self.random.between(1000, 4000);
            self.at(at, WorldEvent::User(UserAction::Rescue(case)));
            let id = &self.users.submissions[case].id;
            let restarting = restarting_parts(process_type).iter().map(|part| format!("{id}/{part}"));
            self.check.asked.extend(restarting);
            if process_type == LARGE {
                self.check.may_fail.push(id.to_string());
            }
        }
    }

    /// Has the time of faults passed?
    pub fn is_healed(&self) -> bool {
        self.now >= self.healed
    }

    /// Prints a line if the world is traced.
    pub fn trace(&self, what: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>9} {}", self.now, what());
        }
    }

    /// Notes the first violation of an invariant; `None` is no violation.
    pub fn report_problem(&mut self, problem: Option<String>) {
        if self.problem.is_none() {
            self.problem = problem;
        }
    }

    /// A number that was not used before.
    pub fn count(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Schedules an event.
    pub fn at(&mut self, time: u64, event: WorldEvent) {
        let number = self.count();
        self.queue.push(ScheduledEvent { time, number, event });
    }

    /// Schedules a task of a node.
    pub fn later(&mut self, node: NodeRef, delay: u64, task: NodeTask) {
        let life = self.machine(node).life;
        self.at(self.now + delay, WorldEvent::Node(node, life, task));
    }

    pub fn machine(&self, node: NodeRef) -> &SimulatedNode {
        match node {
            NodeRef::Coordinator(c) => &self.coordinators[c].machine,
            NodeRef::Worker(w) => &self.workers[w].machine,
        }
    }

    pub fn machine_mut(&mut self, node: NodeRef) -> &mut SimulatedNode {
        match node {
            NodeRef::Coordinator(c) => &mut self.coordinators[c].machine,
            NodeRef::Worker(w) => &mut self.workers[w].machine,
        }
    }

    /// The number of the creation of a process.
    pub fn creation(&self, realm: &str, process: &str) -> u64 {
        let store = self.stores.iter().find(|store| *store.realm == *realm);
        store.and_then(|store| store.creations.get(process)).copied().unwrap_or_default()
    }
}
