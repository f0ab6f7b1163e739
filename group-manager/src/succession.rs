//! The succession of managers: the first reachable manager in the configured order leads the group.
//!
//! Each manager receives messages from all others. A manager without a message for the duration of a lease is lost. A
//! manager that begins to lead chooses an epoch above all epochs that it knows. A manager that returns first hears from
//! each other manager, so that it starts with the state of the present leader, which leads until then.

use std::time::Duration;

use crate::node_registry::NODE_LEASE;

/// The leader, as one of the managers sees it. Times count from a beginning that the caller chose.
#[derive(Debug, Clone)]
pub(crate) struct Succession {
    /// Position of this manager in the order.
    position: usize,
    /// All managers in their order. The entry of this manager is unused.
    managers: Vec<ManagerPeer>,
    began: Duration,
    leads: bool,
    /// Epoch in which this manager led last.
    epoch: u64,
    /// Highest known epoch.
    newest_epoch: u64,
}

#[derive(Debug, Clone, Default)]
struct ManagerPeer {
    last_message: Option<Duration>,
    /// This manager received a message or failed to connect.
    tried: bool,
    leads: bool,
    epoch: u64,
}

impl ManagerPeer {
    fn alive(&self, now: Duration) -> bool {
        self.last_message.is_some_and(|at| now.saturating_sub(at) < NODE_LEASE)
    }
}

impl Succession {
    /// Starts the manager at a position. `epoch` is the last epoch that it knew.
    pub(crate) fn new(position: usize, managers: usize, epoch: u64, now: Duration) -> Self {
        let managers = vec![ManagerPeer::default(); managers.max(position + 1)];
        Self { position, managers, began: now, leads: false, epoch, newest_epoch: epoch }
    }

    /// Another manager sent a message.
    pub(crate) fn on_message(&mut self, position: usize, leads: bool, epoch: u64, now: Duration) {
        if let Some(peer) = self.managers.get_mut(position) {
            *peer = ManagerPeer { last_message: Some(now), tried: true, leads, epoch };
            self.newest_epoch = self.newest_epoch.max(epoch);
        }
    }

    /// Another manager cannot be reached.
    pub(crate) fn on_unreachable(&mut self, position: usize) {
        if let Some(peer) = self.managers.get_mut(position) {
            peer.tried = true;
        }
    }

    /// Decides whether this manager leads. Returns the decision if it changed.
    pub(crate) fn decide(&mut self, now: Duration) -> Option<bool> {
        let (before, after) = (&self.managers[..self.position], &self.managers[self.position + 1..]);
        let started = now.saturating_sub(self.began) >= NODE_LEASE;
        let leads = if before.iter().any(|peer| peer.alive(now) && peer.leads) {
            false
        } else if self.leads {
            // An earlier manager that returns leads as soon as it has the state of this one.
            true
        } else {
            let lost = |peer: &ManagerPeer| !peer.alive(now) && (peer.last_message.is_some() || started);
            before.iter().all(lost) && after.iter().all(|peer| peer.tried || started)
        };
        let overtaken = |peer: &ManagerPeer| peer.alive(now) && peer.leads && peer.epoch >= self.epoch;
        if leads && (!self.leads || after.iter().any(overtaken)) {
            self.newest_epoch = self.newest_epoch.saturating_add(1);
            self.epoch = self.newest_epoch;
        }
        let changed = leads != self.leads;
        self.leads = leads;
        changed.then_some(leads)
    }

    /// This manager leads.
    pub(crate) fn leads(&self) -> bool {
        self.leads
    }

    /// Epoch in which this manager leads, or the highest known epoch.
    pub(crate) fn epoch(&self) -> u64 {
        if self.leads { self.epoch } else { self.newest_epoch }
    }

    /// Position of the leader, if another manager leads. Of several leaders, the one with the highest epoch.
    pub(crate) fn leader(&self, now: Duration) -> Option<usize> {
        let others = self.managers.iter().enumerate().filter(|(position, _)| *position != self.position);
        let leaders = others.filter(|(_, peer)| peer.leads && peer.alive(now));
        leaders.max_by_key(|(_, peer)| peer.epoch).map(|(position, _)| position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Managers that send each other messages every half second, unless they are dead or disconnected.
    struct Managers {
        managers: Vec<Option<Succession>>,
        /// Pairs without a connection.
        cut: Vec<(usize, usize)>,
        now: Duration,
    }

    impl Managers {
        fn new(count: usize) -> Self {
            let mut world = Self { managers: vec![None; count], cut: Vec::new(), now: Duration::ZERO };
            (0..count).for_each(|position| world.start(position, 0));
            world
        }

        fn start(&mut self, position: usize, epoch: u64) {
            self.managers[position] = Some(Succession::new(position, self.managers.len(), epoch, self.now));
        }

        fn run(&mut self, half_seconds: u32) {
            for _ in 0..half_seconds {
                self.now += Duration::from_millis(500);
                for from in 0..self.managers.len() {
                    let message = self.managers[from].as_ref().map(|it| (it.leads(), it.epoch()));
                    for to in (0..self.managers.len()).filter(|to| *to != from) {
                        let cut = self.cut.contains(&(from, to)) || self.cut.contains(&(to, from));
                        let Some(receiver) = &mut self.managers[to] else { continue };
                        match message {
                            Some((leads, epoch)) if !cut => receiver.on_message(from, leads, epoch, self.now),
                            _ => receiver.on_unreachable(from),
                        }
                    }
                }
                for manager in self.managers.iter_mut().flatten() {
                    manager.decide(self.now);
                }
            }
        }

        /// Leaders with their epochs.
        fn leaders(&self) -> Vec<(usize, u64)> {
            let managers = self.managers.iter().enumerate();
            let leading = managers.filter_map(|(position, it)| Some((position, it.as_ref()?)));
            leading.filter(|(_, it)| it.leads()).map(|(position, it)| (position, it.epoch())).collect()
        }
    }

    #[test]
    fn a_single_manager_leads_at_once_in_a_new_epoch() {
        let mut alone = Succession::new(0, 1, 7, Duration::ZERO);
        assert_eq!((alone.leads(), alone.decide(Duration::ZERO)), (false, Some(true)));
        assert_eq!((alone.epoch(), alone.decide(Duration::ZERO), alone.leader(Duration::ZERO)), (8, None, None));
    }

    #[test]
    fn the_first_reachable_manager_leads() {
        let mut world = Managers::new(3);
        world.run(2);
        assert_eq!(world.leaders(), [(0, 1)]);
        assert_eq!(world.managers[2].as_ref().and_then(|it| it.leader(world.now)), Some(0));
        world.managers[0] = None;
        world.run(4);
        assert_eq!(world.leaders(), [], "a short silence does not change the leader");
        world.run(4);
        assert_eq!(world.leaders(), [(1, 2)]);
        world.managers[1] = None;
        world.run(8);
        assert_eq!(world.leaders(), [(2, 3)]);
        // The first manager returns with its old epoch and leads again in a new one.
        world.start(0, 1);
        world.run(2);
        assert_eq!(world.leaders(), [(0, 4)]);
        world.start(1, 0);
        world.run(20);
        assert_eq!(world.leaders(), [(0, 4)], "a later manager that returns changes nothing");
    }

    #[test]
    fn a_returning_manager_hears_the_leader_before_it_leads_and_there_is_no_gap() {
        let mut world = Managers::new(2);
        world.managers[0] = None;
        world.run(10);
        assert_eq!(world.leaders(), [(1, 1)]);
        let now = world.now;
        world.start(0, 0);
        let first = world.managers[0].as_mut().unwrap();
        assert_eq!(first.decide(now), None, "no message from the other manager yet");
        first.on_message(1, true, 1, now);
        assert_eq!(first.leader(now), Some(1));
        let second = world.managers[1].as_mut().unwrap();
        second.on_message(0, false, 1, now);
        assert_eq!((second.decide(now), second.leads()), (None, true), "it leads until the other manager leads");
        world.run(2);
        assert_eq!(world.leaders(), [(0, 2)]);
    }

    #[test]
    fn two_leaders_without_a_connection_agree_when_they_reconnect() {
        let mut world = Managers::new(2);
        world.run(2);
        world.cut.push((0, 1));
        world.run(10);
        assert_eq!(world.leaders(), [(0, 1), (1, 2)]);
        world.cut.clear();
        world.run(2);
        assert_eq!(world.leaders(), [(0, 3)], "the first manager leads, with an epoch above both");
        world.run(20);
        assert_eq!(world.leaders(), [(0, 3)]);
    }

    #[test]
    fn a_manager_that_accepts_connections_but_sends_nothing_does_not_block_others() {
        let mut first = Succession::new(0, 2, 0, Duration::ZERO);
        assert_eq!(first.decide(NODE_LEASE - Duration::from_millis(1)), None);
        assert_eq!(first.decide(NODE_LEASE), Some(true));
    }
}
