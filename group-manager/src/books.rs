//! All that a manager knows, and what follows from it. Pure: time is passed in, as the time since some beginning.

use std::collections::BTreeMap;
use std::time::Duration;

use xavantes_proto::v1;

use crate::federation::Federation;
use crate::lending::{LENT_FOR, Lending};
use crate::options::Options;
use crate::placement::{Own, Place, What, place};
use crate::registry::{LEASE, Registry};
use crate::succession::Succession;

/// What a manager knows.
pub(crate) struct Books {
    options: Options,
    pub succession: Succession,
    pub registry: Registry,
    pub federation: Federation,
    pub lending: Lending,
    /// Sources that were added to those of the configuration.
    pub sources: BTreeMap<String, String>,
    /// By the configured address of an adjacent group: where else it may be led from.
    pub adjacent: BTreeMap<String, Vec<String>>,
    /// When this manager began to lead.
    leading_since: Duration,
    /// The number of the last summary.
    number: u64,
}

/// What a look at the clock brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Looked {
    /// Nodes that are gone.
    pub gone: Vec<String>,
    /// This manager begins to lead, or no longer does.
    pub leads: Option<bool>,
}

/// Where something can run.
#[derive(Debug, PartialEq)]
pub(crate) enum Placed {
    /// This is the answer.
    Here(Box<v1::PlaceResponse>),
    /// The managers of another group know.
    Ask(Vec<String>),
}

impl Placed {
    fn here(answer: v1::PlaceResponse) -> Self {
        Self::Here(Box::new(answer))
    }
}

impl Books {
    /// Begins with what was kept, which is so old.
    pub fn new(options: Options, kept: v1::GroupState, age: Duration, now: Duration) -> Self {
        let age_ms = age.as_millis() as u64;
        let aged = |known: v1::KnownNode| v1::KnownNode { silent_ms: known.silent_ms.saturating_add(age_ms), ..known };
        let mut federation = Federation::new(options.group.clone());
        let groups = kept.groups.into_iter();
        let groups = groups.map(|it| v1::GroupSummary { age_ms: it.age_ms.saturating_add(age_ms), ..it });
        federation.learn(groups.collect(), now);
        let adjacent = kept.adjacent.into_iter().filter(|it| options.adjacent.contains(&it.address));
        Self {
            succession: Succession::new(options.place(), options.managers.len(), kept.epoch, now),
            registry: Registry::learn(kept.nodes.into_iter().map(aged).collect(), now),
            federation,
            lending: Lending::default(),
            sources: kept.sources.into_iter().collect(),
            adjacent: adjacent.map(|it| (it.address, it.managers)).collect(),
            leading_since: now,
            number: kept.number,
            options,
        }
    }

    /// What this manager tells others of its group, and keeps.
    pub fn state(&self, now: Duration) -> v1::GroupState {
        let adjacent = self.adjacent.iter();
        let adjacent = adjacent
            .map(|(address, managers)| v1::AdjacentGroup { address: address.clone(), managers: managers.clone() });
        v1::GroupState {
            leads: self.succession.leads(),
            epoch: self.succession.epoch(),
            number: self.number,
            nodes: self.registry.tell(now),
            lent: self.lending.tell(now),
            groups: self.federation.groups(now),
            sources: self.sources.clone().into_iter().collect(),
            adjacent: adjacent.collect(),
            kept_at_ms: 0,
        }
    }

    /// Another manager of the group tells what it knows. If that one leads, this is what is known.
    pub fn follow(&mut self, place: usize, state: v1::GroupState, now: Duration) {
        self.succession.hear(place, state.leads, state.epoch, now);
        if self.succession.leads() || self.succession.leader(now) != Some(place) {
            return;
        }
        self.number = self.number.max(state.number);
        self.registry = Registry::learn(state.nodes, now);
        self.lending = Lending::learn(state.lent, now);
        self.federation.learn(state.groups, now);
        self.sources = state.sources.into_iter().collect();
        let adjacent = state.adjacent.into_iter().filter(|it| self.options.adjacent.contains(&it.address));
        self.adjacent.extend(adjacent.map(|it| (it.address, it.managers)));
    }

    /// Looks at the clock: what is over, and who leads.
    pub fn look(&mut self, now: Duration) -> Looked {
        self.federation.expire(now);
        self.lending.expire(now);
        let leads = self.succession.decide(now);
        if leads == Some(true) {
            self.leading_since = now;
            self.registry.grace(now);
        }
        // Nodes speak to the one that leads; to others nobody is silent.
        let gone = if self.succession.leads() { self.registry.expire(now) } else { Vec::new() };
        Looked { gone, leads }
    }

    /// Who leads, if that is another manager.
    pub fn leader(&self, now: Duration) -> Option<&str> {
        self.succession.leader(now).and_then(|place| self.options.managers.get(place)).map(String::as_str)
    }

    /// What a node is told.
    pub fn roster(&self, node: &str, now: Duration) -> v1::Roster {
        let own = self.registry.own(node);
        let groups = self.federation.groups(now);
        v1::Roster {
            group: self.options.group.clone(),
            workers: self.registry.workers(),
            draining: self.registry.draining(),
            drain: self.registry.wants_drain(node),
            settling: now.saturating_sub(self.leading_since) < LEASE * 2,
            free_slots: own.free_slots,
            other_coordinators: own.coordinators,
            foreign_free_slots: groups.iter().map(|group| group.free_slots).fold(0, u32::saturating_add),
            foreign_coordinators: groups.iter().map(|group| group.coordinators.len() as u32).sum(),
            epoch: self.succession.epoch(),
        }
    }

    /// What the group offers to others. Numbers follow the clock, so that they grow whoever leads and over restarts.
    pub fn own_summary(&mut self, clock_ms: u64) -> v1::GroupSummary {
        self.number = clock_ms.max(self.number + 1);
        let workers = self.registry.workers();
        let lendable = self.options.foreign_slots.saturating_sub(self.lending.total());
        let offer = |(node, processes): (&v1::NodeDescription, u32)| v1::CoordinatorOffer {
            node: node.name.clone(),
            address: node.address.clone(),
            processes,
        };
        let others = self.options.others().map(|(_, manager)| manager);
        v1::GroupSummary {
            group: self.options.group.clone(),
            managers: std::iter::once(&self.options.address).chain(others).cloned().collect(),
            workers: workers.len() as u32,
            slots: workers.iter().map(|worker| worker.slots).sum(),
            free_slots: self.registry.free_slots().min(lendable),
            coordinators: self.registry.coordinators().map(offer).collect(),
            number: self.number,
            ..Default::default()
        }
    }

    /// What an adjacent group is told; by a manager that does not lead, nothing.
    pub fn summaries(&mut self, neighbour: &str, clock_ms: u64, now: Duration) -> v1::GroupSummaries {
        if !self.succession.leads() {
            return v1::GroupSummaries { group: self.options.group.clone(), summaries: Vec::new() };
        }
        let mut own = self.own_summary(clock_ms);
        if !self.takes(neighbour) {
            own.free_slots = 0;
            own.coordinators.clear();
        }
        self.federation.tell(neighbour, own, now)
    }

    /// Does the administrator take work of that group? A neighbour that has not said its name is none that is known.
    fn takes(&self, group: &str) -> bool {
        let known = &self.options.foreign_groups;
        known.is_empty() || known.iter().any(|known| known == group)
    }

    /// Where something can run.
    pub fn place(&mut self, request: &v1::PlaceRequest, now: Duration) -> Placed {
        let what = match request.what() {
            v1::place_request::What::Worker => What::Worker,
            _ => What::Coordinator,
        };
        if request.group != self.options.group {
            return Placed::here(match what {
                What::Worker => self.lend(request, now).unwrap_or_default(),
                // Foreign coordinators find ours in our summary.
                What::Coordinator => v1::PlaceResponse::default(),
            });
        }
        let groups = self.federation.groups(now);
        let own = self.registry.own(&request.node);
        let chosen = match what {
            What::Worker if !request.renew.is_empty() => Place::Foreign(request.renew_group.clone()),
            // Workers of the own group are in the roster; whoever asks needs one from elsewhere.
            What::Worker => place(what, Own { free_slots: 0, ..own }, &groups),
            What::Coordinator => place(what, own, &groups),
        };
        match chosen {
            Place::Foreign(name) => {
                let Some(group) = groups.into_iter().find(|group| group.group == name) else {
                    return Placed::here(v1::PlaceResponse::default());
                };
                if what == What::Worker {
                    return Placed::Ask(group.managers);
                }
                let best = group.coordinators.into_iter().min_by_key(|offer| offer.processes);
                let node = best.map(|offer| v1::NodeDescription {
                    name: offer.node,
                    address: offer.address,
                    ..Default::default()
                });
                Placed::here(v1::PlaceResponse { node, group: name, ..Default::default() })
            }
            Place::Wait if what == What::Worker => Placed::here(v1::PlaceResponse::default()),
            // If nothing is free anywhere, a neighbour in the own group still shares the work of interpreting.
            Place::Own | Place::Wait => {
                let others = self.registry.coordinators().filter(|(node, _)| node.name != request.node);
                let node = others.min_by_key(|(_, processes)| *processes).map(|(node, _)| node.clone());
                Placed::here(v1::PlaceResponse { node, group: self.options.group.clone(), ..Default::default() })
            }
        }
    }

    /// Lends slots of a worker to a coordinator of another group.
    fn lend(&mut self, request: &v1::PlaceRequest, now: Duration) -> Option<v1::PlaceResponse> {
        if !self.takes(&request.group) {
            return None;
        }
        let borrower = (request.group.clone(), request.node.clone());
        let candidates = self.registry.candidates();
        let most = self.options.foreign_slots;
        let (worker, slots) = if request.renew.is_empty() {
            self.lending.lend(&borrower, &candidates, most, now)?
        } else {
            let worker = candidates.iter().find(|it| it.worker == request.renew)?;
            self.lending.renew(&borrower, worker, most, now)?
        };
        Some(v1::PlaceResponse {
            node: self.registry.node(&worker).cloned(),
            group: self.options.group.clone(),
            slots,
            lease_ms: LENT_FOR.as_millis() as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use v1::Role::{ActivityManager, ProcessCoordinator};
    use v1::place_request::What::{Coordinator as ForCoordinator, Worker as ForWorker};

    const fn second(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn options(place: usize) -> Options {
        let managers: Vec<String> = ["first", "second"].map(String::from).to_vec();
        Options {
            group: "g".into(),
            address: managers[place].clone(),
            managers,
            adjacent: vec!["there".into()],
            foreign_slots: u32::MAX,
            ..Default::default()
        }
    }

    fn books(place: usize, now: Duration) -> Books {
        Books::new(options(place), v1::GroupState::default(), Duration::ZERO, now)
    }

    fn heartbeat(name: &str, role: v1::Role, busy: u32) -> v1::Heartbeat {
        let roles = vec![role as i32];
        let node = v1::NodeDescription { name: name.into(), roles, slots: 2, ..Default::default() };
        v1::Heartbeat { node: Some(node), busy, ..Default::default() }
    }

    fn names(nodes: &[v1::NodeDescription]) -> Vec<&str> {
        nodes.iter().map(|node| &*node.name).collect()
    }

    /// A group that has these slots and a coordinator, a hop away.
    fn neighbour(free_slots: u32) -> v1::GroupSummaries {
        let offer = v1::CoordinatorOffer { node: "far".into(), address: "far:1".into(), processes: 0 };
        let summary = v1::GroupSummary {
            group: "other".into(),
            managers: vec!["other:1".into()],
            free_slots,
            coordinators: vec![offer],
            number: 1,
            ..Default::default()
        };
        v1::GroupSummaries { group: "other".into(), summaries: vec![summary] }
    }

    /// The first leads and has heard of something; the second follows it.
    fn pair() -> (Books, Books) {
        let (mut first, mut follower) = (books(0, second(0)), books(1, second(0)));
        first.succession.miss(1);
        assert_eq!(first.look(second(0)).leads, Some(true));
        first.registry.beat(heartbeat("w", ActivityManager, 1), second(1));
        first.registry.beat(heartbeat("x", ActivityManager, 0), second(1));
        first.registry.drain("x");
        first.federation.hear(neighbour(3), second(1));
        first.sources.insert("s".into(), "file:s".into());
        first.adjacent.insert("there".into(), vec!["there too".into()]);
        let request = v1::PlaceRequest {
            what: ForWorker.into(),
            node: "far".into(),
            group: "other".into(),
            ..Default::default()
        };
        assert!(matches!(first.place(&request, second(1)), Placed::Here(answer) if answer.slots == 1));
        follower.follow(0, first.state(second(2)), second(2));
        (first, follower)
    }

    #[test]
    fn the_next_manager_goes_on_with_all_that_the_first_knew() {
        let (first, mut follower) = pair();
        assert_eq!(follower.leader(second(2)), Some("first"));
        assert_eq!(follower.look(second(2) + LEASE - Duration::from_millis(1)), Looked::default());
        let now = second(2) + LEASE;
        assert_eq!(follower.look(now), Looked { gone: vec![], leads: Some(true) });
        let roster = follower.roster("w", now);
        assert_eq!((names(&roster.workers), names(&roster.draining)), (vec!["w"], vec!["x"]));
        assert_eq!((roster.epoch, roster.settling), (first.succession.epoch() + 1, true));
        assert_eq!((roster.free_slots, roster.foreign_free_slots), (1, 3));
        assert_eq!((follower.lending.total(), &follower.sources), (1, &first.sources));
        assert_eq!(follower.adjacent, first.adjacent);
        // Nodes that do not come over are gone a lease later.
        follower.registry.beat(heartbeat("w", ActivityManager, 1), now + second(1));
        assert_eq!(follower.look(now + LEASE).gone, ["x"]);
    }

    #[test]
    fn the_first_leads_again_when_it_knows_what_the_second_knows() {
        let (_, mut leader) = pair();
        let now = second(2) + LEASE;
        leader.look(now);
        let mut back = books(0, now);
        assert_eq!(back.look(now), Looked::default(), "it has not heard the other yet");
        back.follow(1, leader.state(now), now);
        assert_eq!(back.look(now).leads, Some(true));
        assert!(back.succession.epoch() > leader.succession.epoch());
        assert_eq!(names(&back.roster("w", now).workers), ["w"]);
        assert_eq!(back.sources, leader.sources);
        // The second hears of it, and follows; what it says later of its own does not count.
        leader.follow(0, back.state(now), now);
        assert_eq!(leader.look(now).leads, Some(false));
        back.sources.clear();
        back.follow(1, leader.state(now), now);
        assert!(back.sources.is_empty());
    }

    #[test]
    fn a_manager_that_starts_anew_begins_with_what_was_kept() {
        let (first, _) = pair();
        let kept = first.state(second(2));
        let mut anew = Books::new(options(0), kept.clone(), second(60), second(0));
        anew.succession.miss(1);
        anew.look(second(0));
        let roster = anew.roster("w", second(0));
        assert_eq!((names(&roster.workers), names(&roster.draining)), (vec!["w"], vec!["x"]));
        assert_eq!((roster.epoch, roster.settling), (kept.epoch + 1, true));
        assert_eq!((anew.registry.nodes(second(0))[0].silent_ms, roster.foreign_free_slots), (61_000, 0));
        assert_eq!((&anew.sources, &anew.adjacent), (&first.sources, &first.adjacent));
        assert_eq!(anew.look(LEASE).gone, ["w", "x"]);
        let at_once = Books::new(options(0), kept, second(1), second(0));
        assert_eq!(at_once.roster("w", second(0)).foreign_free_slots, 3);
    }

    #[test]
    fn numbers_of_summaries_grow_whatever_the_clock_says_and_whoever_leads() {
        let (mut first, mut follower) = pair();
        let last = first.own_summary(1000).number;
        assert_eq!((last, first.own_summary(1000).number, first.own_summary(5).number), (1000, 1001, 1002));
        follower.follow(0, first.state(second(3)), second(3));
        assert_eq!(follower.own_summary(7).number, 1003);
        assert!(follower.summaries("other", 7, second(3)).summaries.is_empty(), "it does not lead");
    }

    #[test]
    fn whoever_asks_is_told_where_there_is_room() {
        let mut books = books(0, second(0));
        books.registry.beat(heartbeat("w", ActivityManager, 0), second(0));
        for coordinator in ["c1", "c2"] {
            books.registry.beat(heartbeat(coordinator, ProcessCoordinator, 0), second(0));
        }
        books.federation.hear(neighbour(3), second(0));
        let request = |what: v1::place_request::What, group: &str| v1::PlaceRequest {
            what: what.into(),
            node: "c1".into(),
            group: group.into(),
            ..Default::default()
        };
        let found = |placed: Placed| match placed {
            Placed::Here(answer) => {
                let v1::PlaceResponse { node, group, slots, .. } = *answer;
                node.map(|node| (group, node.name, slots))
            }
            Placed::Ask(managers) => panic!("{managers:?}"),
        };
        let place = |group: &str, name: &str, slots| Some((group.to_owned(), name.to_owned(), slots));
        let ask = |manager: &str| Placed::Ask(vec![manager.to_owned()]);
        let now = second(0);
        assert_eq!(found(books.place(&request(ForCoordinator, "g"), now)), place("g", "c2", 0));
        assert_eq!(books.place(&request(ForWorker, "g"), now), ask("other:1"), "its own workers it knows");
        let renew = v1::PlaceRequest { renew: "v".into(), renew_group: "other".into(), ..request(ForWorker, "g") };
        assert_eq!(books.place(&renew, now), ask("other:1"));
        let unknown = v1::PlaceRequest { renew_group: "nowhere".into(), ..renew };
        assert_eq!(found(books.place(&unknown, now)), None);
        // Others borrow, and keep what they borrowed, though it is busy now.
        assert_eq!(found(books.place(&request(ForWorker, "other"), now)), place("g", "w", 2));
        assert_eq!(found(books.place(&request(ForCoordinator, "other"), now)), None);
        books.registry.beat(heartbeat("w", ActivityManager, 2), now);
        let renew = v1::PlaceRequest { renew: "w".into(), renew_group: "g".into(), ..request(ForWorker, "other") };
        assert_eq!(found(books.place(&renew, now)), place("g", "w", 2));
        let gone = v1::PlaceRequest { renew: "v".into(), ..renew.clone() };
        assert_eq!(found(books.place(&gone, now)), None);
        books.registry.drain("w");
        assert_eq!(found(books.place(&renew, now)), None, "one that drains is not lent");
        // Without free workers a foreign coordinator is nearer to some.
        assert_eq!(found(books.place(&request(ForCoordinator, "g"), now)), place("other", "far", 0));
        books.options.foreign_groups = vec!["friends".into()];
        assert_eq!(found(books.place(&request(ForWorker, "other"), now)), None);
    }
}
