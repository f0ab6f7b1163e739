//! Runs a world: takes one event after the other, and checks the invariants on the way.

use crate::simulated_machine::NodeRef;
use crate::world::World;
use crate::world_event::{NodeTask, ScheduledEvent, WorldEvent};

/// Everything must have ended within this time after the last fault.
const MAX_RECOVERY_MS: u64 = 240_000;
/// Events between two checks of the invariants.
const CHECK_INTERVAL: u64 = 64;

impl World<'_> {
    /// Runs to the end. Gives the number of events, or the violated invariant.
    pub fn run(mut self) -> Result<u64, String> {
        let mut ended = None;
        let mut steps = 0;
        while let Some(ScheduledEvent { time, event, .. }) = self.queue.pop() {
            self.now = self.now.max(time);
            steps += 1;
            self.on_event(event);
            if let Some(problem) = self.problem.take() {
                return Err(problem);
            }
            if steps % CHECK_INTERVAL == 0 {
                if let Some(problem) = self.find_lost_submission() {
                    return Err(problem);
                }
                if let Some(problem) = self.find_wasted_slot() {
                    return Err(problem);
                }
                if ended.is_none() && self.is_healed() && self.all_ended() {
                    if let Some(problem) = self.find_wrong_result() {
                        return Err(problem);
                    }
                    ended = Some(self.now);
                }
                if let Some(since) = ended {
                    if self.is_clean() {
                        return Ok(steps);
                    }
                    if self.now > since + MAX_RECOVERY_MS {
                        return Err(self.describe_leftovers());
                    }
                } else if self.now > self.healed + MAX_RECOVERY_MS {
                    self.trace(|| self.conditions().join("\n"));
                    return Err(format!("{} did not end", self.unended()));
                }
            }
        }
        Err("no event is left".into())
    }

    /// Have all unneeded subtrees and answers been removed? A subtree that was closed and not forgotten goes with age.
    fn is_clean(&self) -> bool {
        let mut processes = self.stores.iter().flat_map(|store| &store.processes);
        !processes.any(|(process, stored)| process.contains('/') && stored.summary.is_none())
            && self.workers.iter().all(|worker| worker.disk.is_empty())
    }

    /// The subtrees and answers that are left, for people.
    fn describe_leftovers(&self) -> String {
        let subtrees = self.stores.iter().flat_map(|store| store.processes.iter());
        let subtrees = subtrees.filter(|(process, _)| process.contains('/'));
        let subtrees: Vec<String> =
            subtrees.map(|(process, stored)| format!("{process} (ended: {})", stored.summary.is_some())).collect();
        let answers = self.workers.iter().flat_map(|worker| &worker.disk);
        let answers: Vec<String> = answers.map(|(key, (owner, _))| format!("{} for {owner}", key.key)).collect();
        format!("left behind: answers {answers:?}, subtrees {subtrees:?}")
    }

    /// Until when a node is frozen, if it is.
    fn frozen_until(&self, node: NodeRef) -> Option<u64> {
        let until = self.machine(node).frozen_until;
        (until > self.now).then_some(until)
    }

    /// An event happens, or waits until its node is not frozen any more.
    fn on_event(&mut self, event: WorldEvent) {
        let node = match &event {
            WorldEvent::Node(node, ..) | WorldEvent::Call(node, ..) => Some(*node),
            WorldEvent::Deliver(stream, side) | WorldEvent::NoticeEnd(stream, side) => {
                Some(self.streams[*stream].ends[*side as usize].0)
            }
            _ => None,
        };
        if let Some(until) = node.and_then(|node| self.frozen_until(node)) {
            let event = match event {
                // It waits at the node, and is lost if the node crashes.
                WorldEvent::Call(node, request, reply, None) => {
                    WorldEvent::Call(node, request, reply, Some(self.machine(node).life))
                }
                event => event,
            };
            return self.at(until, event);
        }
        match event {
            WorldEvent::Node(node, life, task) => {
                let machine = self.machine(node);
                if machine.alive && machine.life == life {
                    self.on_task(node, task);
                }
            }
            WorldEvent::Deliver(stream, side) => self.deliver(stream, side),
            WorldEvent::Cut(stream, side) => self.cut(stream, side),
            WorldEvent::NoticeEnd(stream, side) => self.notice_end(stream, side),
            WorldEvent::Commit(c, life) => {
                let machine = &self.coordinators[c].machine;
                if machine.alive && machine.life == life {
                    self.commit(c);
                }
            }
            WorldEvent::Call(node, request, reply, life) => self.on_call(node, *request, reply, life),
            WorldEvent::User(task) => self.on_user_action(task),
            WorldEvent::Start(node) => self.start_node(node),
            WorldEvent::Crash(node, life) => {
                if self.machine(node).life == life && !self.is_healed() {
                    self.crash(node);
                }
            }
            WorldEvent::Fault(fault) => self.on_fault(fault),
        }
    }

    /// A node carries out a task.
    fn on_task(&mut self, node: NodeRef, task: NodeTask) {
        if let NodeTask::Flush(stream, side) = task {
            return self.flush(stream, side);
        }
        match (node, task) {
            (NodeRef::Worker(w), NodeTask::Persisted) => self.on_persisted(w),
            (NodeRef::Worker(w), NodeTask::Step(number)) => self.step(w, number),
            (NodeRef::Worker(w), NodeTask::TimedOut(number)) => self.on_timed_out(w, number),
            (NodeRef::Worker(w), NodeTask::ReportRunning(stream)) => self.report_running(w, stream),
            (NodeRef::Worker(w), NodeTask::Leave(patience)) => self.leave_when_idle(w, patience),
            (NodeRef::Worker(_), _) => {}
            (NodeRef::Coordinator(c), task) => match task {
                NodeTask::Pool => self.on_pool(c),
                NodeTask::PoolTick => self.on_pool_tick(c),
                NodeTask::Roster => self.roster(c),
                NodeTask::TakeOver => {
                    self.take_over(c);
                    self.later(node, 2000, NodeTask::TakeOver);
                }
                NodeTask::RenewLease => self.renew_lease(c),
                NodeTask::Connect(name, number) => self.connect(c, &name, number),
                NodeTask::FindPlace(key) => self.find_place(c, key),
                NodeTask::Borrow(again) => self.borrow_worker(c, again.as_deref()),
                NodeTask::StoreLease(worker, address) => self.store_lease(c, worker, address),
                NodeTask::ConfirmLease(worker) => self.confirm_lease(c, worker),
                NodeTask::EndMoved => self.end_moved(c),
                NodeTask::Wake(id, number) => self.on_wake(c, &id, number),
                NodeTask::Record(id, number) => self.record(c, &id, number),
                NodeTask::Timer(id, number) => self.on_timer(c, &id, number),
                NodeTask::PassTurn(id, number, last_work) => self.pass_turn(c, &id, number, last_work),
                NodeTask::CancelHeld(process) => self.cancel_held(c, &process),
                NodeTask::Stored(after, result) => self.on_stored(c, after, result),
                NodeTask::WriteAgain(id, number) => self.write_again(c, &id, number),
                NodeTask::ReportPlace(origin, epoch) => self.report_place(c, origin, epoch),
                NodeTask::MoveAnswered(ticket, answer) => self.on_move_answered(c, ticket, answer),
                NodeTask::Discard(process) => self.discard(c, &process),
                NodeTask::Flush(..)
                | NodeTask::Persisted
                | NodeTask::Step(_)
                | NodeTask::TimedOut(_)
                | NodeTask::ReportRunning(_)
                | NodeTask::Leave(_) => {}
            },
        }
    }
}
