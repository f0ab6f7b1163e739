use super::*;

fn heartbeat(name: &str, roles: &[v1::Role]) -> v1::Heartbeat {
    let roles = roles.iter().map(|role| *role as i32).collect();
    let node = v1::NodeDescription { name: name.into(), address: format!("{name}:1"), roles, ..Default::default() };
    v1::Heartbeat { node: Some(node), ..Default::default() }
}

fn names(registry: &Registry) -> Vec<String> {
    registry.workers().into_iter().map(|node| node.name).collect()
}

#[test]
fn a_name_conflicts_while_another_node_has_it() {
    let node = |address: &str| v1::NodeDescription { name: "a".into(), address: address.into(), ..Default::default() };
    let beat = v1::Heartbeat { node: Some(node("here:1")), ..Default::default() };
    let mut registry = Registry::default();
    assert_eq!(registry.conflicting_address(&node("there:1"), Duration::ZERO), None);
    registry.on_heartbeat(beat, Duration::ZERO).unwrap();
    assert_eq!(registry.conflicting_address(&node("there:1"), NODE_LEASE / 2), Some("here:1"));
    // The same node, or the lease of the other node has expired.
    assert_eq!(registry.conflicting_address(&node("here:1"), NODE_LEASE / 2), None);
    assert_eq!(registry.conflicting_address(&node("there:1"), NODE_LEASE), None);
    // Nodes that another manager sent do not conflict, because they may be lost.
    let learned = Registry::from_wire(registry.to_wire(Duration::ZERO), Duration::ZERO);
    assert_eq!(learned.conflicting_address(&node("there:1"), Duration::ZERO), None);
}

#[test]
fn a_lost_node_comes_back_with_its_next_heartbeat() {
    let second = Duration::from_secs;
    let mut registry = Registry::default();
    let beat = |registry: &mut Registry, name, role, at| registry.on_heartbeat(heartbeat(name, &[role]), second(at));
    assert_eq!(beat(&mut registry, "a", v1::Role::ActivityManager, 0), Ok(true));
    assert_eq!(beat(&mut registry, "b", v1::Role::ProcessCoordinator, 1), Ok(true));
    assert_eq!(beat(&mut registry, "b", v1::Role::ProcessCoordinator, 2), Ok(false));
    assert_eq!(names(&registry), ["a"]);
    assert_eq!(registry.expire(second(3)), ["a"]);
    assert!(names(&registry).is_empty());
    assert_eq!(beat(&mut registry, "a", v1::Role::ActivityManager, 4), Ok(true));
    assert_eq!(names(&registry), ["a"]);
}

#[test]
fn a_lost_node_stays_listed_for_a_while_and_one_that_left_does_not() {
    let mut registry = Registry::default();
    let busy = v1::Heartbeat { busy: 3, ..heartbeat("a", &[v1::Role::ActivityManager]) };
    registry.on_heartbeat(busy, Duration::ZERO).unwrap();
    let leaves = v1::Heartbeat { draining: true, ..heartbeat("b", &[v1::Role::ActivityManager]) };
    registry.on_heartbeat(leaves, Duration::ZERO).unwrap();
    let listed = |registry: &Registry, now| {
        let statuses = registry.statuses(now).into_iter();
        let statuses = statuses.map(|it| (it.node.unwrap_or_default().name, it.lost, it.busy));
        statuses.collect::<Vec<_>>()
    };
    assert_eq!(registry.expire(NODE_LEASE), ["a", "b"]);
    assert_eq!(listed(&registry, NODE_LEASE), [("a".into(), true, 0)]);
    assert!(registry.workers().is_empty() && registry.node("a").is_none() && registry.bytes == 0);
    // Another manager that begins to lead lists it, too.
    let there = Registry::from_wire(registry.to_wire(NODE_LEASE), Duration::ZERO);
    assert_eq!(listed(&there, Duration::ZERO), [("a".into(), true, 0)]);
    assert!(there.workers().is_empty());
    registry.expire(LOST_LISTED_FOR);
    assert_eq!(listed(&registry, LOST_LISTED_FOR), []);
    let mut back = there;
    back.on_heartbeat(heartbeat("a", &[v1::Role::ActivityManager]), Duration::ZERO).unwrap();
    assert_eq!(listed(&back, Duration::ZERO), [("a".into(), false, 0)]);
}

#[test]
fn draining_workers_accept_no_work_but_stay_listed() {
    let mut registry = Registry::default();
    registry.on_heartbeat(heartbeat("a", &[v1::Role::ActivityManager]), Duration::ZERO).unwrap();
    assert!(registry.drain("a"));
    assert!(!registry.drain("x"));
    assert!(registry.wants_drain("a"));
    assert!(names(&registry).is_empty());
    assert_eq!(registry.draining()[0].name, "a");
    assert!(registry.statuses(Duration::ZERO)[0].draining);
    // A restart ends the wish to drain.
    let again = v1::Heartbeat { life: 1, ..heartbeat("a", &[v1::Role::ActivityManager]) };
    assert!(registry.on_heartbeat(again, Duration::ZERO) == Ok(true) && !registry.wants_drain("a"));
    assert_eq!(names(&registry), ["a"]);
}

#[test]
fn another_manager_gives_replicated_nodes_a_lease() {
    let second = Duration::from_secs;
    let mut here = Registry::default();
    here.on_heartbeat(heartbeat("a", &[v1::Role::ActivityManager]), second(10)).unwrap();
    here.on_heartbeat(heartbeat("b", &[v1::Role::ActivityManager]), second(11)).unwrap();
    here.drain("b");
    let mut there = Registry::from_wire(here.to_wire(second(12)), second(1));
    assert_eq!(names(&there), ["a"]);
    assert!(there.wants_drain("b"));
    let silent: Vec<u64> = there.statuses(second(2)).iter().map(|node| node.silent_ms).collect();
    assert_eq!(silent, [3000, 2000]);
    // The manager begins to lead later. Only node b sends a heartbeat.
    there.extend_leases(second(20));
    let again = there.on_heartbeat(heartbeat("b", &[v1::Role::ActivityManager]), second(22));
    assert_eq!(again, Ok(false), "nothing changed");
    assert!(there.wants_drain("b"), "the wish of the administrator stays");
    assert!(there.expire(second(22)).is_empty());
    assert_eq!(there.expire(second(23)), ["a"]);
    assert!(Registry::from_wire(vec![v1::KnownNode::default()], second(1)).statuses(second(1)).is_empty());
}

#[test]
fn a_heartbeat_without_a_name_changes_nothing() {
    let mut registry = Registry::default();
    assert!(registry.on_heartbeat(v1::Heartbeat::default(), Duration::ZERO).is_err());
    assert!(registry.on_heartbeat(heartbeat("", &[]), Duration::ZERO).is_err());
    assert!(registry.statuses(Duration::ZERO).is_empty());
}

#[test]
fn a_group_has_a_bounded_number_of_nodes_with_bounded_descriptions() {
    let mut registry = Registry::default();
    let with_tags = |name: &str, bytes: usize| {
        let mut beat = heartbeat(name, &[v1::Role::ActivityManager]);
        beat.node.as_mut().unwrap().tags = vec!["t".repeat(100); bytes / 102];
        beat
    };
    let mut beat = |beat| registry.on_heartbeat(beat, Duration::ZERO);
    assert!(matches!(beat(with_tags("a", 5000)), Err(JoinRefusal::TooLong(_))));
    let refused = (0..2000).find_map(|number| beat(with_tags(&number.to_string(), 4000)).err());
    assert!(matches!(refused, Some(JoinRefusal::TooManyBytes(_))), "{refused:?}");
    assert_eq!(beat(with_tags("0", 10)), Ok(true), "a known node may describe itself anew");
    let lost = registry.expire(NODE_LEASE);
    assert!(!lost.is_empty() && registry.bytes == 0);
    for number in 0..MAX_NODES {
        registry.on_heartbeat(heartbeat(&number.to_string(), &[]), Duration::ZERO).unwrap();
    }
    assert_eq!(registry.on_heartbeat(heartbeat("x", &[]), Duration::ZERO), Err(JoinRefusal::TooManyNodes(MAX_NODES)));
}

#[test]
fn claimed_slots_do_not_overflow() {
    let mut registry = Registry::default();
    for name in ["a", "b"] {
        let mut beat = heartbeat(name, &[v1::Role::ActivityManager]);
        beat.node.as_mut().unwrap().slots = u32::MAX;
        assert!(registry.on_heartbeat(beat, Duration::ZERO).is_err(), "the claimed slots exceed the limit");
    }
    let known = |name: &str| {
        let mut beat = heartbeat(name, &[v1::Role::ActivityManager]);
        beat.node.as_mut().unwrap().slots = u32::MAX;
        v1::KnownNode { heartbeat: Some(beat), ..Default::default() }
    };
    let stored = Registry::from_wire(vec![known("a"), known("b")], Duration::ZERO);
    assert_eq!(stored.free_slots(), 0, "another manager cannot claim them either");
}

#[test]
fn heartbeats_are_kept_without_long_texts() {
    let mut registry = Registry::default();
    let long = "x".repeat(1 << 20);
    let impaired = v1::impairment_reason::Kind::AnswersUnwritable(long.clone()).into();
    let beat = v1::Heartbeat { impaired: Some(impaired), group: long, ..heartbeat("n", &[]) };
    registry.on_heartbeat(beat.clone(), Duration::ZERO).unwrap();
    let known = v1::KnownNode { heartbeat: Some(beat), ..Default::default() };
    for registry in [registry, Registry::from_wire(vec![known], Duration::ZERO)] {
        let state: usize = registry.to_wire(Duration::ZERO).iter().map(Message::encoded_len).sum();
        assert!(state > 200 && state < 1000, "{state}");
    }
}

#[test]
fn another_manager_cannot_send_nodes_that_could_not_join() {
    let known = |name: &str| v1::KnownNode { heartbeat: Some(heartbeat(name, &[])), ..Default::default() };
    let long = known(&"n".repeat(9999));
    let tags: Vec<String> = (0..13).map(|_| "t".repeat(256)).collect();
    let many = (0..2000).map(|number| {
        let mut known = known(&format!("n{number}"));
        known.heartbeat.iter_mut().flat_map(|beat| &mut beat.node).for_each(|node| node.tags.clone_from(&tags));
        known
    });
    let nodes = [known("a"), known("a"), known(""), long].into_iter().chain(many).collect();
    let registry = Registry::from_wire(nodes, Duration::ZERO);
    let bytes: usize = registry.nodes.values().map(RegisteredNode::bytes).sum();
    assert_eq!(registry.bytes, bytes);
    assert!(bytes <= MAX_DESCRIPTIONS_BYTES && registry.nodes.len() > 100, "{bytes}");
    assert!(registry.nodes.contains_key("a") && registry.nodes.keys().all(|name| !name.is_empty() && name.len() < 99));
}
