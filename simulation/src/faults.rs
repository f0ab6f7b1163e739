//! Faults: crashes, frozen, draining and silent nodes, broken streams, partitions, and stores out of reach or damaged.

use crate::simulated_machine::NodeRef;
use crate::stream::SimStream;
use crate::world::World;
use crate::world_event::{CrashPoint, Fault, WorldEvent};

/// Upper bound on the time for which a store is out of reach. A longer cut ends the lease of the coordinator before the
/// coordinator can notice.
const MAX_STORE_CUT_MS: u64 = 5_000;

impl World<'_> {
    /// Plans faults of some kinds, so that some worlds have one kind only.
    pub fn plan_faults(&mut self) {
        self.healed = self.random.between(3_000, 40_000);
        if self.random.one_in(12) {
            self.healed = 0;
            return;
        }
        let kinds: Vec<Fault> = Fault::ALL.into_iter().filter(|_| self.random.one_in(3)).collect();
        for _ in 0..self.random.between(1, 8) {
            let at = self.random.between(200, self.healed);
            self.random.pick(&kinds).into_iter().for_each(|fault| self.at(at, WorldEvent::Fault(fault)));
        }
        for (point, fault) in [
            (CrashPoint::StoreWrite, Fault::CrashCoordinator),
            (CrashPoint::StoreCommit, Fault::CrashCoordinator),
            (CrashPoint::AnswerArrival, Fault::CrashCoordinator),
            (CrashPoint::AnswerWrite, Fault::CrashWorker),
            (CrashPoint::AnswerPersisted, Fault::CrashWorker),
        ] {
            if kinds.contains(&fault) && self.random.one_in(2) {
                let passes = self.random.between(1, 40);
                self.crash_points.insert(point, passes);
            }
        }
    }

    /// A node starts.
    pub fn start_node(&mut self, node: NodeRef) {
        let now = self.now;
        let machine = self.machine_mut(node);
        machine.alive = true;
        machine.life += 1;
        machine.began = now;
        machine.lag = 0;
        machine.frozen_until = 0;
        self.trace(|| format!("{node:?} starts"));
        match node {
            NodeRef::Coordinator(c) => self.coordinator_started(c),
            NodeRef::Worker(w) => self.worker_started(w),
        }
    }

    /// A node crashes, and starts again later.
    pub fn crash(&mut self, node: NodeRef) {
        if !self.machine(node).alive {
            return;
        }
        self.trace(|| format!("{node:?} crashes"));
        let now = self.now;
        let machine = self.machine_mut(node);
        machine.alive = false;
        machine.died = now;
        let life = machine.life;
        match node {
            NodeRef::Coordinator(c) => self.coordinator_crashed(c),
            NodeRef::Worker(w) => self.worker_crashed(w),
        }
        self.break_streams(|stream| stream.ends.contains(&(node, life)), false);
        let delay =
            if self.random.one_in(4) { self.random.between(3000, 20_000) } else { self.random.between(20, 2500) };
        self.at(self.now + delay, WorldEvent::Start(node));
    }

    /// A node passes a crash point: if a crash is planned there, the node crashes soon.
    pub fn pass_crash_point(&mut self, point: CrashPoint, node: NodeRef) {
        let Some(left) = self.crash_points.get_mut(&point) else { return };
        *left -= 1;
        if *left == 0 {
            self.crash_points.remove(&point);
            let (delay, life) = (self.random.below(5), self.machine(node).life);
            self.at(self.now + delay, WorldEvent::Crash(node, life));
            if self.random.one_in(2) {
                let next = self.random.between(1, 60);
                self.crash_points.insert(point, next);
            }
        }
    }

    /// A random coordinator, or a random worker.
    fn pick_node(&mut self, coordinator: bool) -> NodeRef {
        if coordinator {
            NodeRef::Coordinator(self.random.below(self.coordinators.len() as u64) as usize)
        } else {
            NodeRef::Worker(self.random.below(self.workers.len() as u64) as usize)
        }
    }

    /// A fault happens.
    pub fn on_fault(&mut self, fault: Fault) {
        self.trace(|| format!("{fault:?}"));
        let duration =
            if self.random.one_in(3) { self.random.between(8000, 16_000) } else { self.random.between(50, 5000) };
        match fault {
            Fault::CrashCoordinator | Fault::CrashWorker => {
                let node = self.pick_node(fault == Fault::CrashCoordinator);
                self.crash(node);
            }
            Fault::FreezeCoordinator | Fault::FreezeWorker => {
                let node = self.pick_node(fault == Fault::FreezeCoordinator);
                let (now, clock_stops) = (self.now, self.random.one_in(2));
                let machine = self.machine_mut(node);
                if !machine.alive || machine.frozen_until > now {
                    return;
                }
                machine.frozen_until = now + duration;
                machine.lag += if clock_stops { duration } else { 0 };
                if let NodeRef::Worker(_) = node {
                    let name = machine.name.clone();
                    self.check.frozen(&name, now, duration);
                }
                self.trace(|| format!("{node:?} is frozen for {duration}"));
                if duration > 4000 && self.random.one_in(2) {
                    self.break_streams(|stream| stream.ends.iter().any(|end| end.0 == node), false);
                }
            }
            Fault::BreakStream => {
                let open = self.open_streams();
                self.random.pick(&open).into_iter().for_each(|stream| self.break_stream(stream, false));
            }
            Fault::Partition => {
                let (from, coordinator) = (self.pick_node(true), self.random.one_in(2));
                let to = self.pick_node(coordinator);
                self.partition(vec![(from, to)], duration);
            }
            Fault::PartitionGroups => {
                let group = self.coordinators[self.random.below(self.coordinators.len() as u64) as usize].machine.group;
                let here = |world: &Self, c: usize| world.coordinators[c].machine.group == group;
                let all = 0..self.coordinators.len();
                let inside = all.clone().filter(|c| here(self, *c));
                let pairs = inside.flat_map(|c| all.clone().map(move |other| (c, other)));
                let pairs = pairs.filter(|(_, other)| !here(self, *other));
                let pairs = pairs.map(|(c, other)| (NodeRef::Coordinator(c), NodeRef::Coordinator(other))).collect();
                self.partition(pairs, duration);
            }
            Fault::CutStore => {
                let c = self.random.below(self.coordinators.len() as u64) as usize;
                self.coordinators[c].store_cut_until = self.now + duration.min(MAX_STORE_CUT_MS);
            }
            Fault::DrainWorker => {
                let w = self.random.below(self.workers.len() as u64) as usize;
                self.drain(w);
            }
            Fault::SilenceWorker => {
                let w = self.random.below(self.workers.len() as u64) as usize;
                self.silence(w);
            }
            Fault::DamageStore => {
                let c = self.random.below(self.coordinators.len() as u64) as usize;
                if self.machine(NodeRef::Coordinator(c)).alive {
                    self.crash(NodeRef::Coordinator(c));
                    self.damage_process(c);
                }
            }
        }
    }

    /// Separates pairs of nodes.
    fn partition(&mut self, pairs: Vec<(NodeRef, NodeRef)>, duration: u64) {
        for (one, other) in pairs {
            self.trace(|| format!("{one:?} and {other:?} do not reach each other for {duration}"));
            self.partitions.push((one, other, self.now + duration));
            let between = |stream: &SimStream| {
                let ends = [stream.ends[0].0, stream.ends[1].0];
                ends == [one, other] || ends == [other, one]
            };
            self.break_streams(between, true);
        }
    }
}
