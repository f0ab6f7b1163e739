//! The state over its whole life: start, replication, succession and placement.

use std::time::Duration;

use xavantes_proto::v1;
use xavantes_proto::v1::Role::{ActivityManager, ProcessCoordinator};
use xavantes_proto::v1::place_request::What::{Coordinator as ForCoordinator, Worker as ForWorker};

use super::place_request::PlaceAnswer;
use super::{ManagerState, Tick};
use crate::node_registry::NODE_LEASE;
use crate::options::Options;

const fn second(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn options(position: usize) -> Options {
    let managers: Vec<String> = ["first", "second"].map(String::from).to_vec();
    Options {
        group: "g".into(),
        address: managers[position].clone(),
        managers,
        adjacent: vec!["there".into()],
        foreign_slots: u32::MAX,
        ..Default::default()
    }
}

fn state(position: usize, now: Duration) -> ManagerState {
    ManagerState::new(options(position), v1::GroupState::default(), Duration::ZERO, now)
}

fn heartbeat(name: &str, role: v1::Role, busy: u32) -> v1::Heartbeat {
    let roles = vec![role as i32];
    let node = v1::NodeDescription { name: name.into(), roles, slots: 2, ..Default::default() };
    v1::Heartbeat { node: Some(node), busy, ..Default::default() }
}

fn names(nodes: &[v1::NodeDescription]) -> Vec<&str> {
    nodes.iter().map(|node| &*node.name).collect()
}

/// The summaries of an adjacent group with free slots and a coordinator.
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

/// A leader with nodes, loans and sources, and a manager that follows it.
fn pair() -> (ManagerState, ManagerState) {
    let (mut first, mut follower) = (state(0, second(0)), state(1, second(0)));
    first.succession.on_unreachable(1);
    assert_eq!(first.tick(second(0)).leads, Some(true));
    first.registry.on_heartbeat(heartbeat("w", ActivityManager, 1), second(1)).unwrap();
    first.registry.on_heartbeat(heartbeat("x", ActivityManager, 0), second(1)).unwrap();
    first.registry.drain("x");
    first.federation.on_summaries(neighbour(3), second(1));
    first.sources.insert("s".into(), "file:///s".into());
    first.adjacent.insert("there".into(), vec!["there too".into()]);
    let request =
        v1::PlaceRequest { what: ForWorker.into(), node: "far".into(), group: "other".into(), ..Default::default() };
    assert!(matches!(first.place(&request, second(1)), PlaceAnswer::Local(answer) if answer.slots == 1));
    follower.on_replica_state(0, first.to_wire(second(2)), second(2));
    (first, follower)
}

#[test]
fn the_next_manager_continues_with_the_state_of_the_first() {
    let (first, mut follower) = pair();
    assert_eq!(follower.leader(second(2)), Some("first"));
    assert_eq!(follower.tick(second(2) + NODE_LEASE - Duration::from_millis(1)), Tick::default());
    let now = second(2) + NODE_LEASE;
    assert_eq!(follower.tick(now), Tick { lost_nodes: vec![], leads: Some(true) });
    let roster = follower.roster("w", now);
    assert_eq!((names(&roster.workers), names(&roster.draining)), (vec!["w"], vec!["x"]));
    assert_eq!((roster.epoch, roster.settling), (first.succession.epoch() + 1, true));
    assert_eq!((roster.free_slots, roster.foreign_free_slots), (1, 3));
    assert_eq!((follower.lending.total(), &follower.sources), (1, &first.sources));
    assert_eq!(follower.adjacent, first.adjacent);
    // Nodes without a heartbeat to the new leader are lost a lease later.
    follower.registry.on_heartbeat(heartbeat("w", ActivityManager, 1), now + second(1)).unwrap();
    assert_eq!(follower.tick(now + NODE_LEASE).lost_nodes, ["x"]);
}

#[test]
fn the_first_manager_leads_again_with_the_state_of_the_second() {
    let (_, mut leader) = pair();
    let now = second(2) + NODE_LEASE;
    leader.tick(now);
    let mut back = state(0, now);
    assert_eq!(back.tick(now), Tick::default(), "no message from the other manager yet");
    back.on_replica_state(1, leader.to_wire(now), now);
    assert_eq!(back.tick(now).leads, Some(true));
    assert!(back.succession.epoch() > leader.succession.epoch());
    assert_eq!(names(&back.roster("w", now).workers), ["w"]);
    assert_eq!(back.sources, leader.sources);
    // The second manager follows. The leader ignores the state of a manager that does not lead.
    leader.on_replica_state(0, back.to_wire(now), now);
    assert_eq!(leader.tick(now).leads, Some(false));
    back.sources.clear();
    back.on_replica_state(1, leader.to_wire(now), now);
    assert!(back.sources.is_empty());
}

#[test]
fn a_manager_that_restarts_begins_with_the_stored_state() {
    let (first, _) = pair();
    let stored = first.to_wire(second(2));
    let mut restarted = ManagerState::new(options(0), stored.clone(), second(60), second(0));
    restarted.succession.on_unreachable(1);
    restarted.tick(second(0));
    let roster = restarted.roster("w", second(0));
    assert_eq!((names(&roster.workers), names(&roster.draining)), (vec!["w"], vec!["x"]));
    assert_eq!((roster.epoch, roster.settling), (stored.epoch + 1, true));
    assert_eq!((restarted.registry.statuses(second(0))[0].silent_ms, roster.foreign_free_slots), (61_000, 0));
    assert_eq!((&restarted.sources, &restarted.adjacent), (&first.sources, &first.adjacent));
    assert_eq!(restarted.tick(NODE_LEASE).lost_nodes, ["w", "x"]);
    let at_once = ManagerState::new(options(0), stored, second(1), second(0));
    assert_eq!(at_once.roster("w", second(0)).foreign_free_slots, 3);
}

#[test]
fn a_roster_is_complete_when_all_nodes_of_the_former_leader_have_sent_a_heartbeat() {
    let (first, _) = pair();
    let mut restarted = ManagerState::new(options(0), first.to_wire(second(2)), second(60), second(0));
    restarted.succession.on_unreachable(1);
    restarted.tick(second(0));
    restarted.on_heartbeat(heartbeat("w", ActivityManager, 1), second(1)).unwrap();
    assert!(restarted.roster("w", second(1)).settling, "x may be there");
    restarted.on_heartbeat(heartbeat("x", ActivityManager, 0), second(1)).unwrap();
    assert!(!restarted.roster("w", second(1)).settling);
    // A manager that knew no nodes waits for all that may be there.
    let mut empty = ManagerState::new(options(0), v1::GroupState::default(), second(60), second(0));
    empty.succession.on_unreachable(1);
    empty.tick(second(0));
    empty.on_heartbeat(heartbeat("w", ActivityManager, 1), second(1)).unwrap();
    assert!(empty.roster("w", second(1)).settling);
}

#[test]
fn numbers_of_summaries_grow_across_clock_changes_and_leaders() {
    let (mut first, mut follower) = pair();
    let last = first.local_summary(1000).number;
    assert_eq!((last, first.local_summary(1000).number, first.local_summary(5).number), (1000, 1001, 1002));
    follower.on_replica_state(0, first.to_wire(second(3)), second(3));
    assert_eq!(follower.local_summary(7).number, 1003);
    assert!(follower.summaries_for("other", 7, second(3)).summaries.is_empty(), "the follower does not lead");
}

#[test]
fn a_coordinator_gets_a_place_with_free_capacity() {
    let mut state = state(0, second(0));
    state.registry.on_heartbeat(heartbeat("w", ActivityManager, 0), second(0)).unwrap();
    for coordinator in ["c1", "c2"] {
        state.registry.on_heartbeat(heartbeat(coordinator, ProcessCoordinator, 0), second(0)).unwrap();
    }
    state.federation.on_summaries(neighbour(3), second(0));
    let request = |what: v1::place_request::What, group: &str| v1::PlaceRequest {
        what: what.into(),
        node: "c1".into(),
        group: group.into(),
        ..Default::default()
    };
    let found = |answer: PlaceAnswer| match answer {
        PlaceAnswer::Local(response) => {
            let v1::PlaceResponse { node, group, slots, .. } = *response;
            node.map(|node| (group, node.name, slots))
        }
        PlaceAnswer::Ask(managers) => panic!("{managers:?}"),
    };
    let place = |group: &str, name: &str, slots| Some((group.to_owned(), name.to_owned(), slots));
    let ask = |manager: &str| PlaceAnswer::Ask(vec![vec![manager.to_owned()]]);
    let now = second(0);
    assert_eq!(found(state.place(&request(ForCoordinator, "g"), now)), place("g", "c2", 0));
    assert_eq!(state.place(&request(ForWorker, "g"), now), ask("other:1"), "the roster has the workers of the group");
    let renew = v1::PlaceRequest { renew: "v".into(), renew_group: "other".into(), ..request(ForWorker, "g") };
    assert_eq!(state.place(&renew, now), ask("other:1"));
    let unknown = v1::PlaceRequest { renew_group: "nowhere".into(), ..renew };
    assert_eq!(found(state.place(&unknown, now)), None);
    // Other groups borrow slots, and keep them while they are busy.
    assert_eq!(found(state.place(&request(ForWorker, "other"), now)), place("g", "w", 2));
    assert_eq!(found(state.place(&request(ForCoordinator, "other"), now)), None);
    state.registry.on_heartbeat(heartbeat("w", ActivityManager, 2), now).unwrap();
    let renew = v1::PlaceRequest { renew: "w".into(), renew_group: "g".into(), ..request(ForWorker, "other") };
    assert_eq!(found(state.place(&renew, now)), place("g", "w", 2));
    let gone = v1::PlaceRequest { renew: "v".into(), ..renew.clone() };
    assert_eq!(found(state.place(&gone, now)), None);
    state.registry.drain("w");
    assert_eq!(found(state.place(&renew, now)), None, "a draining worker is not lent");
    // Without free slots in the group, a coordinator of a group with free slots is chosen.
    assert_eq!(found(state.place(&request(ForCoordinator, "g"), now)), place("other", "far", 0));
    state.options.foreign_groups = vec!["friends".into()];
    assert_eq!(found(state.place(&request(ForWorker, "other"), now)), None);
}
