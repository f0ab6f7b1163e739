//! A worker drains: it takes no new attempts, and leaves when it is idle.

use xavantes_activity_manager::attempts::admission::Load;

use crate::mutation::Mutation;
use crate::simulated_machine::NodeRef;
use crate::worker::state::WorkerMemory;
use crate::world::World;
use crate::world_event::{NodeTask, WorldEvent};

/// Interval at which a draining worker checks whether it is idle.
const IDLE_CHECK_INTERVAL_MS: u64 = 200;

impl World<'_> {
    /// A worker begins to drain. Its activities may end within some time; then it stops them.
    pub fn drain(&mut self, w: usize) {
        let worker = &mut self.workers[w];
        if !worker.machine.alive || std::mem::replace(&mut worker.memory.draining, true) {
            return;
        }
        self.trace(|| format!("w{w} drains"));
        let actions = self.workers[w].memory.table.drain();
        self.perform(w, actions);
        let patience = self.random.between(500, 15_000);
        self.later(NodeRef::Worker(w), 0, NodeTask::Leave(self.now + patience));
    }

    /// A draining worker leaves if it is idle, or stops its activities if `patience` is over.
    pub fn leave_when_idle(&mut self, w: usize, patience: u64) {
        let memory = &self.workers[w].memory;
        let durable = !memory.table.is_persisting() && memory.writes.is_empty();
        if memory.table.load() == Load::default() && (durable || self.mutation == Some(Mutation::LeaveBeforeDurable)) {
            return self.leave_group(w);
        }
        if self.now >= patience {
            let actions = memory.table.stop_all();
            self.check.interrupted(w);
            self.perform(w, actions);
        }
        self.later(NodeRef::Worker(w), IDLE_CHECK_INTERVAL_MS, NodeTask::Leave(patience));
    }

    /// A drained worker ends, and starts again later.
    fn leave_group(&mut self, w: usize) {
        self.trace(|| format!("w{w} leaves"));
        let (node, now) = (NodeRef::Worker(w), self.now);
        let worker = &mut self.workers[w];
        (worker.machine.alive, worker.machine.died) = (false, now);
        worker.memory = WorkerMemory::new(worker.slots, worker.queue);
        let (name, life) = (worker.machine.name.clone(), worker.machine.life);
        self.check.worker_left(&name, now);
        self.break_streams(|stream| stream.ends.contains(&(node, life)), false);
        let delay = self.random.between(200, 12_000);
        self.at(now + delay, WorldEvent::Start(node));
    }
}
