//! The invariant that nothing waits at a busy worker while its coordinator has another worker with a free slot. It is about nodes
//! that nothing has happened to: faults delay the news of a free slot.

use crate::simulated_machine::{NodeRef, SimulatedNode};
use crate::world::World;

/// Upper bound on the time that an attempt waits beside a free slot. It covers the interval of the reports by which a coordinator
/// learns that the attempt waits, and the delays of the network.
const MAX_WAIT_MS: u64 = 10_000;

/// Whether nothing has happened to a node since the world began.
fn is_steady(machine: &SimulatedNode) -> bool {
    machine.alive && machine.life == 1 && machine.frozen_until == 0
}

impl World<'_> {
    /// Looks for an attempt that waits beside a free slot. Gives the problem.
    pub fn find_wasted_slot(&mut self) -> Option<String> {
        let now = self.now;
        let mut before = std::mem::take(&mut self.free_slots);
        for (w, worker) in self.workers.iter().enumerate() {
            let load = worker.memory.table.load();
            let usable = is_steady(&worker.machine) && !worker.silent && !worker.memory.draining;
            if usable && load.slots < worker.slots && load.queued == 0 {
                self.free_slots.free.insert(w, before.free.get(&w).copied().unwrap_or(now));
            }
            for (key, owner) in worker.memory.table.waiting() {
                let place = (w, key.clone(), owner.clone());
                let since = before.waiting.remove(&place).unwrap_or(now);
                self.free_slots.waiting.insert(place, since);
            }
        }
        // A user may want a worker to get nothing for a while.
        if self.steers {
            return None;
        }
        let late = self.free_slots.waiting.iter().filter(|(_, since)| now - **since > MAX_WAIT_MS);
        late.map(|(place, _)| place).find_map(|(w, key, owner)| {
            let free = self.free_worker_of(owner, *w)?;
            Some(format!("{} of {owner} waits at w{w}, and w{free} has a free slot", key.key))
        })
    }

    /// A worker that this coordinator is connected to, and that has had a free slot for as long as the bound says.
    fn free_worker_of(&self, owner: &str, busy: usize) -> Option<usize> {
        let name = owner.rsplit('/').next()?;
        let NodeRef::Coordinator(c) = NodeRef::at_address(name) else { return None };
        let machine = &self.coordinators[c].machine;
        if !is_steady(machine) || !is_steady(&self.workers[busy].machine) {
            return None;
        }
        let long = |since: u64| self.now - since > MAX_WAIT_MS;
        let connected = |w: usize| {
            let since = self.check.connected_since(&machine.name, &self.workers[w].machine.name);
            since.is_some_and(long)
        };
        let mut free = self.free_slots.free.iter().filter(|(w, since)| **w != busy && long(**since));
        let suits = |w: usize| self.workers[w].machine.group == machine.group && connected(w) && connected(busy);
        free.find(|(w, _)| suits(**w)).map(|(w, _)| *w)
    }
}
