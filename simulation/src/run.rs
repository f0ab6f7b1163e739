//! Runs a world: takes one event after the other, and checks the invariants on the way.

use crate::event::{NodeTask, ScheduledEvent, WorldEvent};
use crate::machine::NodeRef;
use crate::world::World;

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
            self.happen(event);
            if let Some(problem) = self.problem.take() {
                return Err(problem);
            }
            if steps % CHECK_INTERVAL == 0 {
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
                    if self.now > since + MAX_RECOVERY_MS {
                        return Err(self.left());
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

    fn left(&self) -> String {
        let subtrees = self.stores.iter().flat_map(|store| store.processes.iter());
        let subtrees = subtrees.filter(|(process, _)| process.contains('/'));
        let subtrees: Vec<String> =
            subtrees.map(|(process, stored)| format!("{process} (ended: {})", stored.summary.is_some())).collect();
        let answers = self.workers.iter().flat_map(|worker| &worker.disk);
        let answers: Vec<String> = answers.map(|(key, (owner, _))| format!("{} for {owner}", key.key)).collect();
        format!("left behind: answers {answers:?}, subtrees {subtrees:?}")
    }

    /// Until when a node is frozen.
    fn absent(&self, who: NodeRef) -> Option<u64> {
        let until = self.machine(who).frozen_until;
        (until > self.now).then_some(until)
    }

    fn happen(&mut self, event: WorldEvent) {
        let who = match &event {
            WorldEvent::Node(who, ..) | WorldEvent::Call(who, ..) => Some(*who),
            WorldEvent::Deliver(stream, side) | WorldEvent::NoticeEnd(stream, side) => {
                Some(self.streams[*stream].ends[*side as usize].0)
            }
            _ => None,
        };
        if let Some(until) = who.and_then(|who| self.absent(who)) {
            return self.at(until, event);
        }
        match event {
            WorldEvent::Node(who, life, task) => {
                let machine = self.machine(who);
                if machine.alive && machine.life == life {
                    self.task(who, task);
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
            WorldEvent::Call(who, request, reply) => self.on_call(who, *request, reply),
            WorldEvent::User(task) => self.on_user_action(task),
            WorldEvent::Start(who) => self.start_node(who),
            WorldEvent::Crash(who, life) => {
                if self.machine(who).life == life && !self.is_healed() {
                    self.crash(who);
                }
            }
            WorldEvent::Fault(fault) => self.fault(fault),
        }
    }

    fn task(&mut self, who: NodeRef, task: NodeTask) {
        if let NodeTask::Flush(stream, side) = task {
            return self.flush(stream, side);
        }
        match (who, task) {
            (NodeRef::Worker(w), NodeTask::Persisted) => self.on_persisted(w),
            (NodeRef::Worker(w), NodeTask::Step(number)) => self.step(w, number),
            (NodeRef::Worker(_), _) => {}
            (NodeRef::Coordinator(c), task) => match task {
                NodeTask::Pool => self.on_pool(c),
                NodeTask::PoolTick => self.on_pool_tick(c),
                NodeTask::Roster => self.roster(c),
                NodeTask::TakeOver => {
                    self.take_over(c);
                    self.later(who, 2000, NodeTask::TakeOver);
                }
                NodeTask::RenewLease => self.renew(c),
                NodeTask::Connect(name, number) => self.connect(c, &name, number),
                NodeTask::FindPlace(key) => self.find_place(c, key),
                NodeTask::Wake(id, number) => self.on_wake(c, &id, number),
                NodeTask::Record(id, number) => self.record(c, &id, number),
                NodeTask::Timer(id, number) => self.on_timer(c, &id, number),
                NodeTask::Stored(done, result) => self.on_stored(c, done, result),
                NodeTask::WriteAgain(id, number) => self.write_again(c, &id, number),
                NodeTask::ReportPlace(origin, epoch) => self.report_place(c, origin, epoch),
                NodeTask::StopUnwanted(origin) => self.stop_unwanted(c, &origin),
                NodeTask::Discard(process) => self.discard(c, &process),
                NodeTask::Flush(..) | NodeTask::Persisted | NodeTask::Step(_) => {}
            },
        }
    }
}
