//! What the pool says about attempts: where they are, whether they run, and the load of each process.

use super::*;

/// The last load that the pool reported for the process.
fn load(pool: &mut Pool, now: Duration) -> Option<PoolLoad> {
    pool.on_tick(now);
    let loads = pool.take_commands().into_iter().filter_map(|command| match command {
        PoolCommand::ReportLoad(_, load) => Some(load),
        _ => None,
    });
    loads.last()
}

/// The attempts of `p` that run, as the pool tells users.
fn seen_running(pool: &Pool, elements: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    let runs = |element: &u64| {
        matches!(&pool.whereabouts(&[key(*element)])[0], Some(Whereabouts::At { runs_for: Some(_), silent: None, .. }))
    };
    elements.filter(runs).collect()
}

#[test]
fn never_more_attempts_run_than_the_worker_has_slots() {
    let mut pool = pool(&[("a", 2, &[])]);
    // Workers get short activities ahead of their slots.
    pool.short_types.on_answered(&task(0, &[]), Duration::ZERO);
    (1..=6).for_each(|element| pool.dispatch(task(element, &[])));
    pool.place_queued(Duration::ZERO);
    assert_eq!(seen_running(&pool, 1..=6), [1, 2], "the first ones got free slots");
    let told = load(&mut pool, seconds(1)).expect("it has changed");
    assert_eq!((told.running, told.queued, told.wait_reason), (2, 4, None));
    assert_eq!(load(&mut pool, seconds(2)), None, "an unchanged load is not reported again");
    // The worker started others, and reports that a little later.
    pool.on_answered("a", &[key(1), key(2)], seconds(2));
    assert!(seen_running(&pool, 1..=6).is_empty());
    pool.on_running(&"a".into(), &running(3..=4), seconds(3));
    assert_eq!(seen_running(&pool, 1..=6), [3, 4]);
    // A worker that others use, too, may queue what found a slot free.
    pool.on_answered("a", &[key(3), key(4), key(5), key(6)], seconds(4));
    pool.dispatch(task(7, &[]));
    pool.place_queued(seconds(4));
    assert_eq!(seen_running(&pool, 7..=7), [7]);
    pool.on_running(&"a".into(), &v1::Running::default(), seconds(4));
    assert_eq!(seen_running(&pool, 7..=7), [7], "the report may be older than the attempt");
    pool.on_running(&"a".into(), &v1::Running::default(), seconds(5));
    assert!(seen_running(&pool, 7..=7).is_empty());
    pool.end_process("p");
    assert_eq!(load(&mut pool, seconds(6)), None, "nobody is left to tell");
}

#[test]
fn nothing_runs_at_a_worker_without_a_connection() {
    let mut pool = pool(&[("a", 1, &[])]);
    pool.dispatch(task(1, &[]));
    pool.place_queued(Duration::ZERO);
    pool.on_tick(seconds(1));
    pool.on_disconnected("a", seconds(1));
    let told = load(&mut pool, seconds(2)).expect("it has changed");
    let reason = told.wait_reason.and_then(|reason| reason.kind);
    assert_eq!((told.running, told.queued), (0, 0));
    assert!(matches!(reason, Some(v1::wait_reason::Kind::WorkerSilent(worker)) if worker.node == "a"));
}

#[test]
fn a_silent_coordinator_takes_its_counts_back() {
    let mut pool = pool(&[]);
    pool.delegate(subtree(5));
    pool.on_place_found(key(5), Some(coordinator()));
    pool.on_place_recorded(&key(5), Duration::ZERO);
    pool.on_connected(&"c@c:1".into(), v1::WorkerHello::default(), Duration::ZERO);
    pool.take_commands();
    let counts = v1::Counts { running: 2, completed: 5, ..v1::Counts::default() };
    let status = |element: u64| v1::SubtreeStatus {
        id: Some(key(element).to_wire()),
        counts: Some(counts),
        ..v1::SubtreeStatus::default()
    };
    let told = |pool: &mut Pool| {
        let notices = pool.take_commands().into_iter().filter_map(|command| match command {
            PoolCommand::Notify(key, PoolNotice::Subtree(status)) => Some((key.element, status.counts)),
            _ => None,
        });
        notices.collect::<Vec<_>>()
    };
    pool.on_subtrees("c@c:1", vec![status(5), status(6)]);
    assert_eq!(told(&mut pool), [(5, Some(counts))], "the coordinator has one subtree");
    pool.on_subtrees("nobody", vec![status(5)]);
    assert!(told(&mut pool).is_empty(), "only its coordinator knows what it does");
    pool.on_disconnected("c@c:1", seconds(1));
    let unheard = v1::Counts { running: 0, waiting: 2, ..counts };
    assert_eq!(told(&mut pool), [(5, Some(unheard))]);
}

#[test]
fn a_paused_activity_stays_in_the_queue() {
    let mut pool = pool(&[("a", 1, &[])]);
    assert_eq!(names(&placed(&mut pool, vec![task(1, &[]), task(2, &[]), task(3, &[])])), ["a"]);
    pool.pause(key(1), true);
    pool.pause(key(2), true);
    assert!(pool.take_commands().is_empty(), "a worker does not pause");
    pool.on_answered("a", &[key(1)], seconds(1));
    pool.place_queued(seconds(1));
    assert_eq!(about_attempts(&mut pool), ["a: run 3"]);
    pool.on_answered("a", &[key(3)], seconds(2));
    pool.place_queued(seconds(2));
    assert!(about_attempts(&mut pool).is_empty());
    assert_eq!(pool.attempts.queued_count(), 0, "no slot is missing");
    pool.pause(key(2), false);
    pool.place_queued(seconds(3));
    assert_eq!(about_attempts(&mut pool), ["a: run 2"]);
}
