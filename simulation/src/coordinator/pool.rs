//! The pool of a coordinator: its mail, its ticks, and the commands that it gives.

use std::sync::Arc;
use std::time::Duration;

use xavantes_process_coordinator::process::driver_input::ProcessInput;
use xavantes_process_coordinator::workers::pool::pool_input::PoolInput;
use xavantes_process_coordinator::workers::worker_messages::{MoveOutcome, PeerKind, PoolCommand};
use xavantes_proto::AttemptKey;
use xavantes_proto::v1;

use crate::call_request::CallAnswer;
use crate::coordinator::borrowing::node_name;
use crate::coordinator::links::MIN_RECONNECT_PAUSE_MS;
use crate::coordinator::state::{SimLink, SimPoolMail};
use crate::simulated_machine::NodeRef;
use crate::stream::Side;
use crate::worker::state::SimWorker;
use crate::world::World;
use crate::world_event::NodeTask;

impl World<'_> {
    /// Puts mail into the mailbox of the pool, which reads it soon.
    pub fn pool_mail(&mut self, c: usize, mail: SimPoolMail) {
        let memory = &mut self.coordinators[c].memory;
        memory.pool_mail.push_back(mail);
        if !std::mem::replace(&mut memory.pool_awake, true) {
            let delay = if self.random.one_in(12) { self.random.below(20) } else { self.random.below(2) };
            self.later(NodeRef::Coordinator(c), delay, NodeTask::Pool);
        }
    }

    /// Sends an input to the pool.
    pub fn pool_input(&mut self, c: usize, input: PoolInput) {
        self.pool_mail(c, SimPoolMail::Input(input));
    }

    /// The pool reads its mail.
    pub fn on_pool(&mut self, c: usize) {
        let now = self.clock(c);
        let name = &self.coordinators[c].machine.name.clone();
        let memory = &mut self.coordinators[c].memory;
        memory.pool_awake = false;
        let (mut replies, mut reports) = (Vec::new(), Vec::new());
        for mail in std::mem::take(&mut memory.pool_mail) {
            let pool = &mut memory.pool;
            match mail {
                SimPoolMail::Input(input) => pool.handle(input, now),
                SimPoolMail::Reported(report) => {
                    let answers = pool.on_answered(&report.peer, &report.answered, now);
                    let callers = report.calls.iter().filter_map(|call| call.id.as_ref()).map(AttemptKey::from);
                    let calls = pool.not_held(&report.peer, &callers.collect::<Vec<_>>());
                    reports.push((report, [answers, calls]));
                }
                SimPoolMail::Moved(key, place, reply) => {
                    let outcome = pool.on_moved(&key, &place, now);
                    replies.push((key, reply, outcome));
                }
                SimPoolMail::Connected(peer, hello, stream) => {
                    if let Some(link) = memory.links.get_mut(&peer) {
                        link.orders = Some(stream);
                        pool.on_connected(&peer, hello, now);
                        self.check.connected(name, node_name(&peer), self.now);
                    }
                }
                SimPoolMail::Disconnected(peer, silent_since) => {
                    if let Some(link) = memory.links.get_mut(&peer) {
                        link.orders = None;
                    }
                    pool.on_disconnected(&peer, now);
                    self.check.disconnected(name, node_name(&peer), silent_since);
                }
            }
        }
        for (report, not_held) in reports {
            self.on_reported(c, *report, &not_held);
        }
        for (key, reply, outcome) in replies {
            match outcome {
                MoveOutcome::Recording => self.reply(reply, CallAnswer::Noted),
                MoveOutcome::Recorded => self.reply(reply, CallAnswer::Done),
                MoveOutcome::Unwanted => {
                    let process = key.process.clone();
                    let asked = ProcessInput::StillWanted { key, asker: reply.clone() };
                    if !self.notify(c, &process, asked) {
                        self.reply(reply, CallAnswer::Noted);
                    }
                }
            }
        }
        self.carry_out_commands(c, now);
    }

    /// The pool gets a tick.
    pub fn on_pool_tick(&mut self, c: usize) {
        let now = self.clock(c);
        self.coordinators[c].memory.pool.on_tick(now);
        self.carry_out_commands(c, now);
        let delay = self.random.between(80, 300);
        self.later(NodeRef::Coordinator(c), delay, NodeTask::PoolTick);
    }

    /// Carries out the commands of the pool, and wakes the processes if their share has changed.
    fn carry_out_commands(&mut self, c: usize, now: Duration) {
        let memory = &mut self.coordinators[c].memory;
        memory.pool.place_queued(now);
        for command in memory.pool.take_commands() {
            self.carry_out(c, command);
        }
        let memory = &mut self.coordinators[c].memory;
        let share = memory.pool.share();
        if std::mem::replace(&mut memory.share, share) != share {
            let ids: Vec<Arc<str>> = memory.runners.keys().cloned().collect();
            for id in ids {
                if let Some(runner) = self.coordinators[c].memory.runners.get_mut(&id) {
                    runner.share_changed = true;
                }
                self.wake(c, &id);
            }
        }
    }

    fn carry_out(&mut self, c: usize, command: PoolCommand) {
        match command {
            PoolCommand::Connect(name, peer, address) => {
                let number = self.count();
                let link = SimLink { number, address, pause: MIN_RECONNECT_PAUSE_MS, stream: None, orders: None };
                let former = self.coordinators[c].memory.links.insert(name.clone(), link);
                former.and_then(|link| link.stream).into_iter().for_each(|it| self.close(it, Side::Client));
                if peer == PeerKind::Worker {
                    let own = &self.coordinators[c].machine.name;
                    self.check.disconnected(own, node_name(&name), self.now);
                }
                self.later(NodeRef::Coordinator(c), 0, NodeTask::Connect(name, number));
            }
            PoolCommand::Disconnect(name) => {
                let own = self.coordinators[c].machine.name.clone();
                self.check.connected(&own, node_name(&name), self.now);
                self.check.released(&own, node_name(&name));
                let link = self.coordinators[c].memory.links.remove(&name);
                link.and_then(|link| link.stream).into_iter().for_each(|it| self.close(it, Side::Client));
            }
            PoolCommand::Send(name, order) => {
                let stream = self.coordinators[c].memory.links.get(&name).and_then(|link| link.orders);
                stream.into_iter().for_each(|stream| self.order(stream, order.clone()));
            }
            PoolCommand::Notify(key, notice) => {
                self.trace(|| format!("c{c}: the pool notifies {key}: {notice:?}"));
                let process = key.process.clone();
                self.notify(c, &process, ProcessInput::of_notice(key, notice));
            }
            PoolCommand::FindPlace(key, _) => {
                let delay = self.random.between(1, 40);
                self.later(NodeRef::Coordinator(c), delay, NodeTask::FindPlace(key));
            }
            PoolCommand::Borrow(_) => {
                let delay = self.random.between(5, 200);
                self.later(NodeRef::Coordinator(c), delay, NodeTask::Borrow(None));
            }
            PoolCommand::Renew(worker) => {
                let delay = self.random.between(5, 200);
                self.later(NodeRef::Coordinator(c), delay, NodeTask::Borrow(Some(worker)));
            }
            PoolCommand::StoreLease(name, address) => self.store_lease(c, name, address),
            PoolCommand::DeleteLease(name) => self.delete_lease(c, name),
            PoolCommand::ReportSilent(..) | PoolCommand::ReportLoad(..) => {}
        }
    }

    /// The group manager finds a coordinator for a subtree, or none.
    pub fn find_place(&mut self, c: usize, key: AttemptKey) {
        let others: Vec<usize> = (0..self.coordinators.len()).filter(|other| *other != c).collect();
        let refused = self.random.one_in(12);
        let place = self.random.pick(&others).filter(|_| !refused).map(|other| {
            let name = self.coordinators[other].machine.name.to_string();
            v1::NodeDescription { name: name.clone(), address: name, ..v1::NodeDescription::default() }
        });
        self.pool_input(c, PoolInput::PlaceFound(key, place));
    }

    /// The group manager sends a roster.
    pub fn roster(&mut self, c: usize) {
        let it = &self.coordinators[c].machine;
        let settling = self.now < it.began + 400;
        let near = self.workers.iter().filter(|worker| worker.machine.group == it.group);
        let near = near.filter(|worker| worker.machine.alive || worker.machine.died + 5000 > self.now);
        let describe = |worker: &SimWorker| v1::NodeDescription {
            name: worker.machine.name.to_string(),
            address: worker.machine.name.to_string(),
            slots: worker.slots,
            ..v1::NodeDescription::default()
        };
        let (draining, workers): (Vec<_>, Vec<_>) = near.partition(|worker| worker.memory.draining);
        let (mut free_slots, mut foreign_free_slots) = (1, 0);
        if self.borrows {
            (free_slots, foreign_free_slots) = (self.random.below(2) as u32, self.random.below(4) as u32);
        }
        let late = settling && self.random.one_in(2);
        let roster = v1::Roster {
            workers: if late { Vec::new() } else { workers.into_iter().map(describe).collect() },
            draining: draining.into_iter().map(describe).collect(),
            settling,
            free_slots,
            foreign_free_slots,
            foreign_coordinators: self.coordinators.len() as u32 - 1,
            ..v1::Roster::default()
        };
        self.pool_input(c, PoolInput::Roster(roster));
        let delay = if settling { 200 } else { 1000 };
        self.later(NodeRef::Coordinator(c), delay, NodeTask::Roster);
    }
}
