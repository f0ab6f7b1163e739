//! Nothing waits behind a busy slot while another slot is free.

use std::collections::VecDeque;

use super::*;
use crate::workers::worker_messages::Share;

/// A report that these attempts run, and that other coordinators use this number of slots.
fn report(elements: &[u64], slots_of_others: u32) -> v1::Running {
    let attempts = elements.iter().map(|element| key(*element).to_wire()).collect();
    v1::Running { slots_of_others, attempts, ..v1::Running::default() }
}

fn recalls(pool: &mut Pool) -> Vec<String> {
    let commands = pool.take_commands().into_iter().filter_map(|command| match command {
        PoolCommand::Send(name, Order::Recall) => Some(name.to_string()),
        _ => None,
    });
    commands.collect()
}

/// The requests for workers of other groups since the last call.
fn requests(pool: &mut Pool) -> Vec<Option<String>> {
    let commands = pool.take_commands().into_iter().filter_map(|command| match command {
        PoolCommand::Borrow(_) => Some(None),
        PoolCommand::Renew(name) => Some(Some(name.to_string())),
        _ => None,
    });
    commands.collect()
}

/// Worker `g/NAME` is lent for five seconds.
fn lend(pool: &mut Pool, name: &str, slots: u32, now: Duration) {
    let node = v1::NodeDescription { name: name.into(), address: format!("{name}:1"), ..Default::default() };
    pool.on_borrowed(v1::PlaceResponse { node: Some(node), group: "g".into(), slots, lease_ms: 5000 }, now);
}

/// The lent worker `g/NAME` is connected and may get attempts.
fn connect(pool: &mut Pool, name: &str, slots: u32, now: Duration) {
    let name: Arc<str> = format!("g/{name}").into();
    pool.on_connected(&name, v1::WorkerHello { slots, ..Default::default() }, now);
    pool.on_lease_stored(&name);
}

fn foreign(free_slots: u32) -> v1::Roster {
    v1::Roster { settling: true, foreign_free_slots: free_slots, foreign_coordinators: 1, ..Default::default() }
}

#[test]
fn a_type_is_short_until_an_activity_of_it_takes_long() {
    let mut pool = pool(&[("a", 2, &[])]);
    let given = |pool: &mut Pool, elements: std::ops::RangeInclusive<u64>, now: Duration| {
        elements.for_each(|element| pool.dispatch(task(element, &[])));
        pool.place_queued(now);
        about_attempts(pool).len()
    };
    assert_eq!(given(&mut pool, 1..=40, seconds(0)), 2);
    pool.on_answered("a", &[key(1)], seconds(1) / 100);
    assert_eq!(given(&mut pool, 41..=41, seconds(1) / 100), 17, "it has two slots, and gets eight ahead for each");
    let others: Vec<AttemptKey> = (2..=19).map(key).collect();
    pool.on_answered("a", &others, seconds(3));
    assert_eq!(given(&mut pool, 42..=42, seconds(3)), 2, "the others took long");
}

#[test]
fn an_attempt_that_waits_behind_another_coordinator_goes_to_a_slot_that_becomes_free() {
    let mut pool = pool(&[("a", 2, &[]), ("b", 2, &[])]);
    pool.on_running(&"b".into(), &report(&[], 2), Duration::ZERO);
    assert_eq!(names(&placed(&mut pool, vec![task(1, &[]), task(2, &[])])), ["a", "a"], "others use the slots of b");
    assert_eq!(names(&placed(&mut pool, vec![task(3, &[]), task(4, &[])])), ["b", "b"], "they may wait there");
    for now in [1, 2] {
        pool.on_running(&"a".into(), &report(&[1, 2], 0), seconds(now));
        pool.on_running(&"b".into(), &report(&[], 2), seconds(now));
        pool.on_tick(seconds(now));
        assert!(recalls(&mut pool).is_empty(), "no slot is free");
    }
    pool.on_answered("a", &[key(1)], seconds(3));
    pool.on_tick(seconds(3));
    assert_eq!(recalls(&mut pool), ["b"]);
    pool.on_tick(seconds(3));
    assert!(recalls(&mut pool).is_empty(), "once for each report");
    let refusal = v1::Refusal::for_now(v1::refusal_reason::Kind::Recalled(v1::Nothing {}));
    [4, 3].into_iter().for_each(|element| pool.on_refused("b", &key(element), refusal.clone(), seconds(3)));
    pool.place_queued(seconds(4));
    assert_eq!(about_attempts(&mut pool), ["a: run 3", "b: run 4"]);
}

#[test]
fn attempts_that_no_free_slot_suits_stay_where_they_wait() {
    let mut pool = pool(&[("a", 1, &[]), ("b", 4, &[])]);
    let large = |element| Task { needs: Needs { cpus: 4, ..Needs::default() }, ..task(element, &[]) };
    assert_eq!(names(&placed(&mut pool, vec![large(1)])), ["b"]);
    pool.on_running(&"b".into(), &report(&[], 4), seconds(2));
    pool.on_tick(seconds(2));
    assert!(recalls(&mut pool).is_empty());
}

#[test]
fn a_free_slot_of_another_group_comes_before_a_busy_one_here() {
    let mut pool = pool(&[("a", 1, &[])]);
    lend(&mut pool, "w", 1, Duration::ZERO);
    connect(&mut pool, "w", 1, Duration::ZERO);
    pool.short_types.on_answered(&task(0, &[]), Duration::ZERO);
    let tasks = (1..=3).map(|element| task(element, &[])).collect();
    assert_eq!(names(&placed(&mut pool, tasks)), ["a", "g/w", "a"]);
}

#[test]
fn the_pool_borrows_until_it_has_enough_slots() {
    let mut pool = pool(&[("a", 1, &[])]);
    pool.on_roster(foreign(9), Duration::ZERO);
    let at = |ms: u64| Duration::from_millis(ms);
    let tasks = (1..=4).map(|element| task(element, &[])).collect();
    assert_eq!(names(&placed(&mut pool, tasks)), ["a"]);
    let asked = |pool: &mut Pool, ms: u64| {
        pool.on_tick(at(ms));
        requests(pool)
    };
    assert_eq!([asked(&mut pool, 0), asked(&mut pool, 200)].concat(), [], "the slot may become free");
    assert_eq!(asked(&mut pool, 300), [None]);
    assert_eq!(asked(&mut pool, 400), [], "the answer may come");
    lend(&mut pool, "v", 2, at(450));
    assert_eq!(asked(&mut pool, 500), [None], "it needs a third slot");
    lend(&mut pool, "w", 2, at(550));
    assert_eq!(asked(&mut pool, 600), [], "enough slots will be connected");
    connect(&mut pool, "v", 2, at(650));
    connect(&mut pool, "w", 2, at(650));
    pool.place_queued(at(700));
    assert_eq!(about_attempts(&mut pool).len(), 3);
    assert_eq!([asked(&mut pool, 3000), asked(&mut pool, 4000)].concat(), [], "nothing waits any more");
}

#[test]
fn a_lease_is_renewed_while_attempts_wait() {
    let mut pool = pool(&[]);
    pool.on_roster(foreign(0), Duration::ZERO);
    lend(&mut pool, "w", 1, Duration::ZERO);
    connect(&mut pool, "w", 1, Duration::ZERO);
    assert_eq!(placed(&mut pool, vec![task(1, &[]), task(2, &[])]).len(), 1);
    let again = || vec![Some("g/w".to_owned())];
    for (ms, expected) in [(1000, vec![]), (2000, again()), (2100, vec![]), (2500, again()), (5500, again())] {
        pool.on_tick(Duration::from_millis(ms));
        assert_eq!(requests(&mut pool), expected, "{ms}");
    }
}

#[test]
fn controllers_go_to_other_groups_only_while_the_local_group_is_full() {
    let mut pool = pool(&[("a", 1, &[])]);
    pool.on_roster(foreign(9), Duration::ZERO);
    let share = |pool: &mut Pool, now: u64| {
        pool.place_queued(seconds(now));
        let Share { room, auto_delegations, .. } = pool.share();
        (room, auto_delegations)
    };
    pool.on_tick(seconds(1));
    assert_eq!(share(&mut pool, 1).1, 0);
    pool.dispatch(task(1, &[]));
    pool.place_queued(seconds(1));
    pool.on_tick(seconds(2));
    assert_eq!(share(&mut pool, 2), (10, 1), "one slot here, nine elsewhere");
    // At once, although the roster is old.
    pool.on_answered("a", &[key(1)], seconds(2));
    assert_eq!(share(&mut pool, 2).1, 0);
}

#[test]
fn an_attempt_does_not_wander_between_workers_that_leave_it_lying() {
    let mut pool = pool(&[("a", 2, &[]), ("b", 2, &[]), ("c", 2, &[])]);
    pool.patience = Some(seconds(10));
    // These reports are the last of b and c.
    ["b", "c"].into_iter().for_each(|name| pool.on_running(&name.into(), &report(&[], 1), seconds(0)));
    let failed = Task { avoid: Some("a".into()), ..task(1, &[]) };
    let mut at = names(&placed(&mut pool, vec![failed]))[0].to_owned();
    assert_ne!(at, "a");
    for now in (1..=240).map(|tick| seconds(tick) / 4) {
        pool.on_tick(now);
        for name in recalls(&mut pool) {
            let refusal = v1::Refusal::for_now(v1::refusal_reason::Kind::Recalled(v1::Nothing {}));
            pool.on_refused(&name, &key(1), refusal, now);
        }
        pool.place_queued(now);
        for command in pool.take_commands() {
            if let PoolCommand::Send(name, Order::Job(_)) = command {
                at = name.to_string();
            }
        }
        if at == "a" {
            pool.on_running(&"a".into(), &report(&[1], 0), now);
        }
    }
    assert_eq!(at, "a");
    let is_open = |name: &str| pool.peers[name].window.is_open(seconds(13));
    assert!(!is_open("b") && !is_open("c"), "they left it lying");
}

#[test]
fn small_activities_do_not_keep_a_large_one_waiting() {
    let mut pool = pool(&[("a", 4, &[])]);
    pool.begin_process("q".into(), 1);
    // No activity waits ahead of a slot.
    pool.peers.values_mut().for_each(|peer| peer.offer.queue = 0);
    let large = AttemptKey::new("q", 1, 1);
    let job = v1::Job { id: Some(large.to_wire()), ..v1::Job::default() };
    let large = Task { key: large, job, needs: Needs { cpus: 4, ..Needs::default() }, ..task(1, &[]) };
    (1..=400).for_each(|element| pool.dispatch(task(element, &[])));
    let (mut at_worker, mut placed_large) = (VecDeque::new(), false);
    for now in (0..200).map(|tick| seconds(tick) / 4) {
        if now == seconds(1) {
            pool.dispatch(large.clone());
        }
        // One small activity ends in each step.
        if let Some(ended) = at_worker.pop_front() {
            pool.on_answered("a", &[ended], now);
        }
        pool.on_tick(now);
        pool.place_queued(now);
        for command in pool.take_commands() {
            if let PoolCommand::Send(_, Order::Job(job)) = command {
                let key = AttemptKey::from(job.id.as_ref().expect("a job has an id"));
                placed_large |= *key.process == *"q";
                at_worker.push_back(key);
            }
        }
    }
    assert!(placed_large);
    assert!(pool.reservation.is_none(), "the worker is free for others again");
}

#[test]
fn nobody_borrows_for_what_no_borrowed_worker_can_run() {
    let mut pool = pool(&[("a", 1, &[])]);
    pool.on_roster(foreign(8), Duration::ZERO);
    let tagged = Needs { tags: vec!["licence".into()], ..Needs::default() };
    pool.dispatch(Task { needs: tagged, ..task(1, &[]) });
    let mut asked = Vec::new();
    for now in (1..=8).map(|tick| seconds(tick) / 4) {
        pool.on_tick(now);
        asked.extend(pool.take_commands().into_iter().filter_map(|command| match command {
            PoolCommand::Borrow(needs) => Some(needs),
            _ => None,
        }));
    }
    assert!(!asked.is_empty() && asked.iter().all(|needs| needs.len() == 1 && needs[0].tags == ["licence"]));
    // A manager of an earlier version lends a worker without the tag.
    lend(&mut pool, "w", 2, seconds(2));
    connect(&mut pool, "w", 2, seconds(2));
    let renewed = (8..=28).map(|tick| seconds(tick) / 4).any(|now| {
        pool.on_tick(now);
        requests(&mut pool).contains(&Some("g/w".into()))
    });
    assert!(!renewed && !pool.peers.contains_key("g/w"), "the lease ends");
}

#[test]
fn a_borrowed_worker_that_cannot_be_connected_keeps_nobody_from_others() {
    let mut pool = pool(&[]);
    pool.on_roster(foreign(8), Duration::ZERO);
    pool.dispatch(task(1, &[]));
    lend(&mut pool, "far", 4, Duration::ZERO);
    let mut asked = |ticks: std::ops::RangeInclusive<u64>| {
        ticks.map(|tick| seconds(tick) / 4).any(|now| {
            pool.on_tick(now);
            requests(&mut pool).contains(&None)
        })
    };
    assert!(!asked(1..=6), "it may be connected soon");
    assert!(asked(7..=16));
}

#[test]
fn a_coordinator_without_work_borrows_nothing() {
    let mut pool = pool(&[("a", 1, &[])]);
    pool.on_roster(foreign(8), Duration::ZERO);
    let name: Arc<str> = "a".into();
    assert_eq!(names(&placed(&mut pool, vec![task(1, &[])])), ["a"]);
    pool.on_running(&name, &report(&[], 0), seconds(2));
    assert!(pool.peers["a"].attempts_wait, "the attempt does not run");
    pool.on_answered("a", &[key(1)], seconds(2));
    for now in 3..10 {
        pool.on_tick(seconds(now));
        assert!(requests(&mut pool).is_empty());
    }
}
