//! A coordinator starts, crashes, renews its lease, and takes over processes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use xavantes_engine::{Action, Root};
use xavantes_model::definition::DefinitionNodeId;
use xavantes_process_coordinator::process::driver::Driver;
use xavantes_process_coordinator::process::driver_input::{ProcessInput, Steering};
use xavantes_process_coordinator::process::journal::{self, Head};
use xavantes_process_coordinator::record_codec;
use xavantes_process_coordinator::subtrees::parent_links::ParentAttempt;
use xavantes_process_coordinator::workers::pool::Pool;
use xavantes_process_coordinator::workers::pool::pool_input::PoolInput;
use xavantes_process_coordinator::workers::worker_messages::Order;
use xavantes_proto::AttemptKey;
use xavantes_proto::v1;

use crate::call_request::ReplyTo;
use crate::coordinator::moves::STILL_WANTED_INTERVAL_MS;
use crate::coordinator::state::{CoordinatorMemory, SimCoordinator, SimDriver, SimRunner};
use crate::mutation::Mutation;
use crate::simulated_machine::NodeRef;
use crate::store::StoreSession;
use crate::world::World;
use crate::world_event::NodeTask;

/// How long an attempt may stay at a worker without a sign that it moves.
const WORKER_PATIENCE: Duration = Duration::from_secs(8);

impl World<'_> {
    /// The hello of a coordinator.
    pub fn hello(&self, c: usize) -> v1::CoordinatorHello {
        let it = &self.coordinators[c];
        v1::CoordinatorHello {
            node: it.machine.name.to_string(),
            group: format!("g{}", it.machine.group),
            realm: self.stores[it.store].realm.to_string(),
            address: it.machine.name.to_string(),
            ..v1::CoordinatorHello::default()
        }
    }

    /// The clock of a coordinator.
    pub fn clock(&self, c: usize) -> Duration {
        self.coordinators[c].machine.clock(self.now)
    }

    /// A coordinator starts, with the processes in its store.
    pub fn coordinator_started(&mut self, c: usize) {
        let session = self.count();
        let it = &mut self.coordinators[c];
        if self.mutation != Some(Mutation::EndlessPatience) {
            it.memory.pool = Pool::with_patience(WORKER_PATIENCE);
        }
        self.set_budgets(c);
        let it = &mut self.coordinators[c];
        let store = &mut self.stores[it.store];
        store.begin(it.session.number, session, self.now);
        it.session = StoreSession { number: session, ..StoreSession::default() };
        self.restore_leases(c);
        self.take_over(c);
        let it = &mut self.coordinators[c];
        let others = self.stores[it.store]
            .processes
            .iter()
            .filter(|(process, stored)| stored.summary.is_none() && !it.memory.runners.contains_key(*process))
            .filter(|(process, _)| !it.memory.held.contains(*process));
        let others: Vec<(Arc<str>, Bytes)> = others.map(|(id, stored)| (id.clone(), stored.head.clone())).collect();
        for (process, head) in others {
            self.leave(c, &process, &head);
        }
        self.later(NodeRef::Coordinator(c), STILL_WANTED_INTERVAL_MS, NodeTask::EndMoved);
        for (delay, task) in
            [(0, NodeTask::PoolTick), (2000, NodeTask::TakeOver), (3000, NodeTask::RenewLease), (0, NodeTask::Roster)]
        {
            let delay = delay + self.random.below(300);
            self.later(NodeRef::Coordinator(c), delay, task);
        }
    }

    /// A coordinator crashes. Some of its writes may still reach the store.
    pub fn coordinator_crashed(&mut self, c: usize) {
        while !self.coordinators[c].writes.is_empty() && self.random.one_in(2) {
            let _ = self.apply_next(c);
        }
        let it = &mut self.coordinators[c];
        it.writes.clear();
        it.memory = CoordinatorMemory::default();
        let name = it.machine.name.clone();
        self.check.coordinator_crashed(&name, self.now);
    }

    /// A coordinator renews its lease, or begins a new session.
    pub fn renew_lease(&mut self, c: usize) {
        let it = &mut self.coordinators[c];
        let cut = it.store_cut_until > self.now;
        if !cut && !self.stores[it.store].renew(it.session.number, self.now) {
            let session = self.count();
            let it = &mut self.coordinators[c];
            it.session.number = session;
            self.stores[it.store].begin(0, session, self.now);
        }
        self.later(NodeRef::Coordinator(c), if cut { 500 } else { 3000 }, NodeTask::RenewLease);
    }

    /// A coordinator claims processes without an owner, and drops those that it has lost.
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
            let session = it.session.number;
            let stolen = stolen.filter(|process| store.processes[*process].owner != session).find(lives).cloned();
            if let Some(process) = stolen {
                self.report_problem(Some(format!("c{c} takes over {process} from a coordinator with a valid lease")));
                return;
            }
        }
        let it = &mut self.coordinators[c];
        let (gained, lost) = self.stores[it.store].claim(&mut it.session, self.now);
        if self.mutation != Some(Mutation::NoFencing) {
            lost.iter().for_each(|process| self.lose(c, process));
        }
        let unread = std::mem::take(&mut self.coordinators[c].memory.unread);
        let gained: Vec<Arc<str>> = unread.into_iter().chain(gained).collect();
        if !gained.is_empty() {
            self.restore_leases(c);
        }
        for process in gained {
            self.recover(c, &process);
            let memory = &mut self.coordinators[c].memory;
            if !memory.unread.contains(&process) {
                for (stream, reports) in memory.parents.on_read(&process) {
                    reports.into_iter().for_each(|report| self.report_to_parent(stream, report));
                }
            }
        }
        self.read_move_notices(c);
        self.end_foreign(c);
    }

    /// Acknowledges answers to processes of other coordinators that have ended since, and lets the pool cancel their attempts.
    fn end_foreign(&mut self, c: usize) {
        let it = &mut self.coordinators[c];
        let store = &self.stores[it.store];
        let mut late = Vec::new();
        let (running, mut ended) = (std::mem::take(&mut it.memory.foreign_running), Vec::new());
        it.memory.foreign.retain(|process, answers| {
            let over = (!answers.is_empty() || running.contains(process)) && !store.runs(process);
            if over {
                late.append(answers);
                ended.push(process.clone());
            }
            !over
        });
        ended.into_iter().for_each(|process| self.pool_input(c, PoolInput::ProcessEnded(process)));
        late.into_iter().for_each(|(stream, key)| self.order(stream, Order::Acknowledge(key)));
    }

    /// Another coordinator owns a process, or has ended it.
    fn lose(&mut self, c: usize, process: &Arc<str>) {
        let it = &self.coordinators[c];
        if it.memory.runners.contains_key(process) {
            return self.lose_runner(c, process);
        }
        let head = self.stores[it.store].processes.get(process).map(|stored| stored.head.clone());
        if let Some(head) = head {
            self.leave(c, process, &head);
        }
    }

    /// Another coordinator owns a process that does not run here.
    fn leave(&mut self, c: usize, process: &Arc<str>, head: &[u8]) {
        let memory = &mut self.coordinators[c].memory;
        let head = record_codec::decode::<Head>("head", head).ok();
        if let Some(parent) = head.and_then(|head| ParentAttempt::of(&head.parent?)) {
            memory.parents.leave(&parent, process);
        }
        memory.foreign.entry(process.clone()).or_default();
        self.pool_input(c, PoolInput::ProcessLost(process.clone()));
    }

    /// Restores a process from the store, and runs it.
    pub fn recover(&mut self, c: usize, process: &Arc<str>) {
        let it = &self.coordinators[c];
        let Some(stored) = self.stores[it.store].processes.get(process).cloned() else { return };
        let owned = stored.owner == it.session.number && it.session.epochs.get(process) == Some(&stored.epoch);
        if !owned || stored.summary.is_some() {
            // Another coordinator has taken it over since.
            if stored.summary.is_none() {
                self.leave(c, process, &stored.head);
            }
            return;
        }
        if !self.is_healed() && self.random.one_in(12) {
            self.trace(|| format!("c{c} cannot read {process}"));
            let memory = &mut self.coordinators[c].memory;
            memory.unread.push(process.clone());
            memory.parents.on_unread(process);
            memory.foreign.entry(process.clone()).or_default();
            return self.pool_input(c, PoolInput::ProcessLost(process.clone()));
        }
        let program = self.tools.program.clone();
        if stored.damaged && self.mutation != Some(Mutation::RecoverDamaged) {
            if let Ok(head) = record_codec::decode::<Head>("head", &stored.head) {
                self.hold(c, process, &head, stored.epoch, "it is damaged");
            }
            return;
        }
        let read = record_codec::decode::<Head>("head", &stored.head).and_then(|head| {
            Ok((journal::restore(&program, &head, stored.snapshot.as_deref(), &stored.records)?, head))
        });
        let (stored_state, head) = match read {
            Ok(read) => read,
            Err(error) => return self.report_problem(Some(format!("{process}: {error}"))),
        };
        let at = stored_state.at;
        let root = Root { process: head.root.0 as usize, node: DefinitionNodeId(head.root.1) };
        let (driver, outstanding) =
            Driver::recover(process.clone(), program, self.tools.wire.clone(), root, stored_state);
        let (bytes, most) = (driver.engine().state().bytes(), self.coordinators[c].memory.budgets.most());
        if bytes > most && self.mutation != Some(Mutation::RecoverOverBudget) {
            self.users.held.insert(process.clone());
            return self.hold(c, process, &head, stored.epoch, "it exceeds the budget");
        }
        self.trace(|| format!("c{c} recovers {process} with {} outstanding attempts", outstanding.len()));
        let creation = self.creation_at(c, process);
        for attempt in &outstanding {
            let problem = self.check.recovered(creation, &attempt.task.key);
            self.report_problem(problem);
        }
        let problem = self.users.check_recovered(process, &driver);
        self.report_problem(problem);
        let parent = head.parent.as_ref().and_then(ParentAttempt::of);
        if let Some(parent) = &parent {
            self.coordinators[c].memory.parents.restore(parent, process);
        }
        if let Some(origin) = head.parent.clone() {
            self.report_place(c, origin, stored.epoch);
        }
        let lost: Vec<AttemptKey> = match self.mutation {
            Some(Mutation::GiveUpAtOnce) => outstanding.iter().map(|attempt| attempt.task.key.clone()).collect(),
            _ => Vec::new(),
        };
        self.pool_input(c, PoolInput::ProcessRecovered(process.clone(), stored.epoch, outstanding));
        self.run_process(c, process, driver, head, at, parent, true);
        for key in lost {
            self.notify(c, process, ProcessInput::Lost(key));
        }
        if self.mutation == Some(Mutation::RetryHeld) {
            for path in self.held_elements(c, process) {
                let steering = Steering::Engine(Action::Retry);
                self.notify(
                    c,
                    process,
                    ProcessInput::Steered { path, steering, by: String::new(), asker: ReplyTo::User(0) },
                );
            }
        }
    }

    /// The number of the creation of a process in the store of a coordinator.
    pub fn creation_at(&self, c: usize, process: &str) -> u64 {
        self.creation(&self.stores[self.coordinators[c].store].realm, process)
    }

    /// Starts to run a process.
    #[expect(clippy::too_many_arguments, reason = "a process has as many parts")]
    pub fn run_process(
        &mut self,
        c: usize,
        id: &Arc<str>,
        mut driver: SimDriver,
        head: Head,
        at_least: u64,
        parent: Option<ParentAttempt>,
        recovered: bool,
    ) {
        let number = self.count();
        let budgets = &self.coordinators[c].memory.budgets;
        if !(recovered && self.mutation == Some(Mutation::RecoverWithoutBudget)) {
            driver.set_max_bytes(budgets.process);
        }
        let memory = budgets.memory.clone();
        let machine = &self.coordinators[c].machine;
        let passed = machine.wall(self.now).saturating_sub(head.submitted_ms).max(at_least);
        let began = (passed, machine.clock(self.now));
        if self.compacts {
            driver.set_compaction_threshold(500);
        }
        let runner = SimRunner::new(number, driver, head, began, parent, (memory, recovered));
        let memory = &mut self.coordinators[c].memory;
        memory.foreign.remove(id);
        memory.runners.insert(id.clone(), runner);
        self.count_bytes(c, id);
        self.wake(c, id);
    }

    /// The states of processes that run, for people.
    pub fn conditions(&self) -> Vec<String> {
        let alive = self.coordinators.iter().filter(|it| it.machine.alive);
        let runners = alive.flat_map(|it| it.memory.runners.iter().map(move |(id, runner)| (it, id, runner)));
        let describe = |(it, id, runner): (&SimCoordinator, &Arc<str>, &SimRunner)| {
            let (counts, share) = (runner.driver.engine().state().counts(), it.memory.share);
            format!("{id} at {}: {counts:?}, {share:?}", it.machine.name)
        };
        runners.map(describe).collect()
    }

    /// The driver of a process, and the coordinator that runs it.
    pub fn driver(&self, id: &str) -> Option<(usize, &SimDriver)> {
        let find = |c: &usize| self.coordinators[*c].memory.runners.get(id).map(|runner| (*c, &runner.driver));
        (0..self.coordinators.len()).filter(|c| self.coordinators[*c].machine.alive).find_map(|c| find(&c))
    }
}
