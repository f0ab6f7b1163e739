//! Peers that answer late, drain, or are borrowed.

use super::*;

#[test]
fn an_answer_to_an_earlier_claim_loses_no_subtree_that_arrived_since() {
    let mut pool = pool(&[]);
    let place = |epoch| SubtreePlace { node: "c".into(), address: "c:1".into(), epoch };
    let known = |running: Vec<u64>| v1::Known {
        processes: vec!["p".into()],
        running: running.into_iter().map(|element| key(element).to_wire()).collect(),
        ..Default::default()
    };
    let peer: Arc<str> = "c@c:1".into();
    // The pool asks for 6.
    pool.recover_process(&"p".into(), 2, vec![recovered(subtree(6), Some(place(1)))], Duration::ZERO);
    pool.on_connected(&peer, v1::WorkerHello::default(), Duration::ZERO);
    // 7 goes there too. The coordinator restarts, reports it, and the pool asks for 7.
    pool.delegate(subtree(7));
    pool.on_place_found(key(7), Some(coordinator()));
    pool.on_place_recorded(&key(7), Duration::ZERO);
    pool.on_moved(&key(7), &place(5), Duration::ZERO);
    pool.on_place_recorded(&key(7), Duration::ZERO);
    assert_eq!(about_attempts(&mut pool), ["c@c:1: run 7"]);
    // The answer to the first question does not say anything about 7.
    pool.on_known(&peer, known(vec![]));
    assert!(about_attempts(&mut pool).is_empty());
    pool.on_known(&peer, known(vec![7]));
    assert_eq!(about_attempts(&mut pool), ["6 lost: UnknownToCoordinator"]);
}

#[test]
fn a_draining_worker_is_asked_for_its_attempts_after_a_restart() {
    let mut pool = Pool::default();
    let node = v1::NodeDescription { name: "a".into(), address: "a:1".into(), ..Default::default() };
    pool.on_roster(v1::Roster { draining: vec![node], ..Default::default() }, Duration::ZERO);
    pool.recover_process(&"p".into(), 2, vec![recovered(task(1, &[]), None)], Duration::ZERO);
    pool.on_tick(seconds(1));
    assert!(about_attempts(&mut pool).is_empty(), "the worker has not answered");
    let hello = v1::WorkerHello { slots: 1, running: vec![key(1).to_wire()], ..Default::default() };
    pool.on_connected(&"a".into(), hello, seconds(1));
    pool.on_known(&"a".into(), v1::Known { processes: vec!["p".into()], ..Default::default() });
    pool.on_tick(seconds(2));
    assert!(about_attempts(&mut pool).is_empty(), "the worker has the attempt");
}

#[test]
fn a_borrowed_worker_stays_connected_until_it_keeps_no_answers() {
    let mut pool = pool(&[]);
    let node = v1::NodeDescription { name: "w".into(), address: "w:1".into(), ..Default::default() };
    let place = v1::PlaceResponse { node: Some(node), group: "g".into(), slots: 1, lease_ms: 100 };
    let name: Arc<str> = "g/w".into();
    pool.on_borrowed(place, Duration::ZERO);
    pool.on_connected(&name, v1::WorkerHello { slots: 1, ..Default::default() }, Duration::ZERO);
    pool.on_lease_stored(&name);
    assert_eq!(names(&placed(&mut pool, vec![task(1, &[])])), ["g/w"]);
    pool.on_answered(&name, &[key(1)], Duration::ZERO);
    let connections = |pool: &mut Pool, at: u64| {
        pool.on_tick(seconds(at));
        let commands = pool.take_commands().into_iter().filter_map(|command| match command {
            PoolCommand::Connect(..) => Some("connect"),
            PoolCommand::Disconnect(..) => Some("disconnect"),
            PoolCommand::DeleteLease(..) => Some("delete"),
            _ => None,
        });
        commands.collect::<Vec<_>>()
    };
    // The acknowledgement may be lost: the pool connects again, until the worker says that it keeps nothing.
    assert_eq!(connections(&mut pool, 2), ["disconnect", "connect"]);
    pool.on_connected(&name, v1::WorkerHello { answered: vec![key(1).to_wire()], ..Default::default() }, seconds(2));
    assert_eq!(connections(&mut pool, 4), ["disconnect", "connect"]);
    pool.on_connected(&name, v1::WorkerHello::default(), seconds(4));
    assert_eq!(connections(&mut pool, 5), ["disconnect", "delete"]);
}

#[test]
fn an_answer_that_is_twice_in_a_report_is_believed() {
    let mut pool = pool(&[("a", 4, &[])]);
    placed(&mut pool, vec![task(1, &[]), task(2, &[])]);
    let report = [key(1), key(1), key(9), key(2), key(2)];
    assert_eq!(pool.on_answered("a", &report, Duration::ZERO), [key(9)]);
    assert_eq!(pool.on_answered("a", &report[..2], Duration::ZERO), [key(1), key(1)]);
}

#[test]
fn a_borrowed_worker_of_another_coordinator_stays_until_its_answer_is_acknowledged() {
    let mut pool = pool(&[]);
    let name: Arc<str> = "g/w".into();
    pool.restore_lease(name.clone(), "w:1".into(), Duration::ZERO);
    pool.on_connected(&name, v1::WorkerHello { slots: 1, ..Default::default() }, Duration::ZERO);
    pool.on_lease_stored(&name);
    // This coordinator takes over the process of the one that borrowed the worker.
    pool.recover_process(&"p".into(), 2, vec![recovered(task(1, &[]), None)], seconds(9));
    let known = v1::Known { processes: vec!["p".into()], answered: vec![key(1).to_wire()], ..Default::default() };
    pool.on_known(&name, known);
    pool.on_roster(v1::Roster::default(), seconds(9));
    pool.on_answered(&name, &[key(1)], seconds(9));
    pool.take_commands();
    pool.on_tick(seconds(11));
    pool.on_tick(seconds(12));
    let deleted = pool.take_commands().into_iter().any(|command| matches!(command, PoolCommand::DeleteLease(_)));
    assert!(!deleted, "the acknowledgement may not have arrived");
}

#[test]
fn a_worker_that_gives_back_what_it_left_lying_does_not_get_it_at_once() {
    let mut pool = Pool { patience: Some(seconds(10)), ..pool(&[("a", 1, &[])]) };
    assert_eq!(names(&placed(&mut pool, vec![task(1, &[])])), ["a"]);
    (1..=22).for_each(|half| pool.on_tick(seconds(half) / 2));
    let recalled = pool.take_commands().into_iter().any(|it| matches!(it, PoolCommand::Send(_, Order::Recall)));
    assert!(recalled, "it did not move");
    pool.on_refused("a", &key(1), v1::Refusal::default(), seconds(11));
    pool.place_queued(seconds(12));
    assert!(about_attempts(&mut pool).is_empty());
    pool.place_queued(seconds(22));
    assert_eq!(about_attempts(&mut pool), ["a: run 1"]);
}

#[test]
fn a_worker_that_could_not_hear_a_recall_is_asked_again_and_gets_the_time_to_answer() {
    let mut pool = Pool { patience: Some(seconds(10)), ..pool(&[("a", 1, &[])]) };
    placed(&mut pool, vec![task(1, &[])]);
    let recalls = |pool: &mut Pool, halves: std::ops::RangeInclusive<u64>| {
        halves.for_each(|half| pool.on_tick(seconds(half) / 2));
        pool.take_commands().into_iter().filter(|it| matches!(it, PoolCommand::Send(_, Order::Recall))).count()
    };
    assert_eq!(recalls(&mut pool, 1..=22), 1, "it did not move for 11 s");
    pool.on_disconnected("a", seconds(12));
    recalls(&mut pool, 25..=40);
    let hello = v1::WorkerHello { slots: 1, running: vec![key(1).to_wire()], ..Default::default() };
    pool.on_connected(&"a".into(), hello, seconds(20));
    assert_eq!(recalls(&mut pool, 41..=42), 1, "the first recall may have been lost with the connection");
    recalls(&mut pool, 43..=56);
    pool.on_refused("a", &key(1), v1::Refusal::default(), seconds(28));
    pool.place_queued(seconds(39));
    assert_eq!(about_attempts(&mut pool), ["a: run 1"], "the attempt was given back, not lost");
}

#[test]
fn a_worker_that_only_gives_up_what_it_left_lying_waits_longer_and_longer() {
    let mut pool = Pool { patience: Some(seconds(10)), ..pool(&[("a", 1, &[])]) };
    placed(&mut pool, vec![task(1, &[])]);
    (1..=22).for_each(|half| pool.on_tick(seconds(half) / 2));
    pool.on_refused("a", &key(1), v1::Refusal::default(), seconds(11));
    pool.take_commands();
    pool.place_queued(seconds(22));
    assert_eq!(about_attempts(&mut pool), ["a: run 1"]);
    pool.cancel(key(1));
    pool.on_answered("a", &[key(1)], seconds(23));
    pool.dispatch(task(2, &[]));
    pool.place_queued(seconds(23));
    (46..=70).for_each(|half| pool.on_tick(seconds(half) / 2));
    pool.on_refused("a", &key(2), v1::Refusal::default(), seconds(35));
    pool.take_commands();
    pool.place_queued(seconds(50));
    assert!(about_attempts(&mut pool).is_empty(), "it has left attempts lying twice in a row");
    pool.place_queued(seconds(56));
    assert_eq!(about_attempts(&mut pool), ["a: run 2"]);
}

#[test]
fn a_coordinator_stores_the_name_of_a_borrowed_worker_before_it_claims_there() {
    let mut pool = pool(&[]);
    let name: Arc<str> = "g/w".into();
    let orders = |pool: &mut Pool| {
        let commands = pool.take_commands().into_iter().filter_map(|command| match command {
            PoolCommand::StoreLease(..) => Some("store"),
            PoolCommand::Send(_, Order::Claim(_)) => Some("claim"),
            _ => None,
        });
        commands.collect::<Vec<_>>()
    };
    pool.restore_lease(name.clone(), "w:1".into(), Duration::ZERO);
    pool.recover_process(&"p".into(), 2, vec![recovered(task(1, &[]), None)], Duration::ZERO);
    pool.on_connected(&name, v1::WorkerHello { slots: 1, ..Default::default() }, Duration::ZERO);
    assert_eq!(orders(&mut pool), ["store"], "the one that borrowed it may delete its own entry");
    pool.on_lease_stored(&name);
    assert_eq!(orders(&mut pool), ["claim"]);
    pool.on_lease_stored(&name);
    assert!(orders(&mut pool).is_empty());
}

#[test]
fn attempts_of_a_foreign_process_are_cancelled_when_it_has_ended() {
    let mut pool = pool(&[("a", 1, &[])]);
    pool.lose_process("p".into());
    let running = v1::Running { attempts: vec![key(1).to_wire()], ..Default::default() };
    pool.on_running(&"a".into(), &running, seconds(1));
    assert!(about_attempts(&mut pool).is_empty(), "its owner decides");
    pool.end_process("p");
    pool.on_running(&"a".into(), &running, seconds(2));
    assert_eq!(about_attempts(&mut pool), ["a: cancel 1"]);
}

#[test]
fn workers_begin_other_attempts_while_the_pool_looks_for_those_before_a_restart() {
    let mut pool = pool(&[("a", 2, &[])]);
    pool.place_queued(seconds(1));
    let before = pool.share().room;
    let attempts = (1..=20).map(|element| recovered(task(element, &[]), None));
    pool.recover_process(&"p".into(), 2, attempts.collect(), seconds(1));
    pool.on_roster(v1::Roster { settling: true, ..Default::default() }, seconds(1));
    pool.place_queued(seconds(2));
    assert_eq!(pool.share().room, before + 20);
}

#[test]
fn a_worker_that_was_borrowed_before_a_restart_is_borrowed_again_at_once() {
    let mut pool = pool(&[]);
    let name: Arc<str> = "g/w".into();
    let asked = |pool: &mut Pool, at: u64| {
        pool.on_tick(seconds(at));
        let commands = pool.take_commands();
        commands.iter().any(|it| matches!(it, PoolCommand::Renew(worker) if **worker == *name))
    };
    pool.restore_lease(name.clone(), "w:1".into(), Duration::ZERO);
    assert!(!asked(&mut pool, 1), "no process needs it");
    pool.recover_process(&"p".into(), 2, Vec::new(), seconds(1));
    pool.on_connected(&name, v1::WorkerHello { slots: 2, ..Default::default() }, seconds(1));
    assert!(asked(&mut pool, 2));
    assert!(asked(&mut pool, 3), "its group has refused");
    let node = v1::NodeDescription { name: "w".into(), address: "w:1".into(), ..Default::default() };
    pool.on_borrowed(v1::PlaceResponse { node: Some(node), group: "g".into(), slots: 2, lease_ms: 5000 }, seconds(3));
    pool.on_lease_stored(&name);
    assert!(!asked(&mut pool, 4));
    pool.place_queued(seconds(4));
    assert!(pool.share().room > 0, "it has work");
}
