//! Workers of other groups that a coordinator borrows.

use std::sync::Arc;

use xavantes_process_coordinator::workers::pool::pool_input::PoolInput;
use xavantes_proto::v1;

use crate::coordinator::simulated_journal::STORE_RETRY_INTERVAL_MS;
use crate::coordinator::state::AfterWrite;
use crate::mutation::Mutation;
use crate::simulated_machine::NodeRef;
use crate::store::StoreChange;
use crate::world::World;
use crate::world_event::NodeTask;

/// The node name of a peer. A worker of another group is called `group/node`.
pub fn node_name(peer: &str) -> &str {
    peer.rsplit('/').next().unwrap_or(peer)
}

impl World<'_> {
    /// Another group lends a worker, or extends the lease of one, or does neither.
    pub fn borrow_worker(&mut self, c: usize, again: Option<&str>) {
        let group = self.coordinators[c].machine.group;
        let others = self.workers.iter().filter(|worker| {
            let machine = &worker.machine;
            machine.group != group && machine.alive && !worker.memory.draining
        });
        let others: Vec<Arc<str>> = others.map(|worker| worker.machine.name.clone()).collect();
        let found = match again {
            Some(again) => others.into_iter().find(|name| **name == *node_name(again)),
            None => self.random.pick(&others),
        };
        let refused = self.random.one_in(5);
        let Some(name) = found.filter(|_| !refused) else { return };
        let NodeRef::Worker(w) = NodeRef::at_address(&name) else { return };
        let lender = self.workers[w].machine.group;
        let slots = self.random.between(1, self.workers[w].slots.into()) as u32;
        let lease_ms = self.random.between(1_500, 9_000);
        let node = v1::NodeDescription { name: name.to_string(), address: name.to_string(), ..Default::default() };
        let place = v1::PlaceResponse { node: Some(node), group: format!("g{lender}"), slots, lease_ms };
        self.trace(|| format!("c{c} borrows {slots} slots of {name} for {lease_ms}"));
        self.pool_input(c, PoolInput::Borrowed(place));
    }

    /// Stores the name of a borrowed worker, which gets attempts afterwards.
    pub fn store_lease(&mut self, c: usize, name: Arc<str>, address: String) {
        if self.mutation == Some(Mutation::LeaseNotStored) {
            return self.pool_input(c, PoolInput::LeaseStored(name));
        }
        let own = self.coordinators[c].machine.name.clone();
        self.write(
            c,
            StoreChange::PutLease(own, name.clone(), address.clone()),
            AfterWrite::LeaseStored(name, address),
        );
    }

    /// The name of a borrowed worker is stored: the worker gets attempts, except those of processes that the coordinator has
    /// lost.
    pub fn confirm_lease(&mut self, c: usize, worker: Arc<str>) {
        if self.coordinators[c].store_cut_until > self.now {
            return self.later(NodeRef::Coordinator(c), STORE_RETRY_INTERVAL_MS, NodeTask::ConfirmLease(worker));
        }
        self.take_over(c);
        self.pool_input(c, PoolInput::LeaseStored(worker));
    }

    pub fn delete_lease(&mut self, c: usize, name: Arc<str>) {
        let own = self.coordinators[c].machine.name.clone();
        self.write(c, StoreChange::DeleteLease(own, name), AfterWrite::LeaseDeleted);
    }

    /// A coordinator starts or takes over processes: workers that were borrowed before may have attempts.
    pub fn restore_leases(&mut self, c: usize) {
        for ((_, name), address) in self.stores[self.coordinators[c].store].borrowed.clone() {
            self.pool_input(c, PoolInput::LeaseRestored(name, address));
        }
    }
}
