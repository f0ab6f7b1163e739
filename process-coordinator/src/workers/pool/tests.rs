//! Which worker gets which task, and when a slow worker gives tasks back.

mod peers;
mod states;

use super::placement::has_node_name;
use std::sync::Arc;
use std::time::Duration;

use xavantes_model::digest::Digest;
use xavantes_proto::v1;

use super::Pool;
use crate::data::locations::Need;
use crate::handover::RecoveredAttempt;
use crate::handover::SubtreePlace;
use crate::task::{Needs, Task};
use crate::workers::worker_messages::{Order, PoolCommand, PoolLoad, PoolNotice, Whereabouts};
use xavantes_proto::AttemptKey;

fn digest(number: u8) -> Digest {
    Digest([number; 32])
}

/// A pool with connected workers: name, slots, and files of each.
fn pool(workers: &[(&str, u32, &[u8])]) -> Pool {
    let mut pool = Pool::default();
    let address = |name: &str| format!("{name}:1");
    let node = |name: &str| v1::NodeDescription { name: name.into(), address: address(name), ..Default::default() };
    let workers_known = workers.iter().map(|(name, ..)| node(name)).collect();
    pool.on_roster(v1::Roster { workers: workers_known, ..v1::Roster::default() }, Duration::ZERO);
    for (name, slots, holds) in workers {
        let holds = holds.iter().map(|number| digest(*number).0.to_vec()).collect();
        let hello = v1::WorkerHello { slots: *slots, queue: 100, holds, ..v1::WorkerHello::default() };
        pool.on_connected(&Arc::from(*name), hello, Duration::ZERO);
    }
    pool.begin_process("p".into(), 1);
    pool.take_commands();
    pool
}

fn task(element: u64, files: &[(u8, u64)]) -> Task {
    let need = |(number, size): &(u8, u64)| Need { digest: digest(*number), size: *size, holders: Vec::new() };
    let key: AttemptKey = AttemptKey::new("p", element, 1);
    let job = v1::Job { id: Some(key.to_wire()), ..v1::Job::default() };
    let files = files.iter().map(need).collect();
    Task { key, program: Arc::default(), needs: Needs { cpus: 1, ..Needs::default() }, files, avoid: None, job }
}

/// Dispatches tasks. Returns for each job, in order, the worker and the addresses that it may fetch files from.
fn placed(pool: &mut Pool, tasks: Vec<Task>) -> Vec<(String, Vec<String>)> {
    tasks.into_iter().for_each(|task| pool.dispatch(task));
    pool.place_queued(Duration::ZERO);
    let jobs = pool.take_commands().into_iter().filter_map(|command| match command {
        PoolCommand::Send(name, Order::Job(job)) => {
            let sources = job.holdings.iter().flat_map(|holding| holding.addresses.clone()).collect();
            Some((name.to_string(), sources))
        }
        _ => None,
    });
    jobs.collect()
}

fn names(placed: &[(String, Vec<String>)]) -> Vec<&str> {
    placed.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_task_goes_where_most_of_its_bytes_are() {
    let workers: &[(&str, u32, &[u8])] = &[("a", 8, &[]), ("b", 1, &[1, 2]), ("c", 1, &[3])];
    for (files, expected) in [
        (&[(1, 10)][..], "b"),
        (&[(3, 10)][..], "c"),
        // Bytes count, not files.
        (&[(1, 1), (2, 1), (3, 3)][..], "c"),
        // If no worker has the files, or there are none: the worker with the most capacity.
        (&[(9, 10)][..], "a"),
        (&[][..], "a"),
    ] {
        assert_eq!(names(&placed(&mut pool(workers), vec![task(1, files)])), [expected], "{files:?}");
    }
}

#[test]
fn a_task_that_failed_on_a_worker_goes_to_another_one_with_capacity() {
    let failed = |element| Task { avoid: Some("a".into()), ..task(element, &[(1, 10)]) };
    let workers: &[(&str, u32, &[u8])] = &[("a", 8, &[1]), ("b", 1, &[])];
    assert_eq!(names(&placed(&mut pool(workers), vec![failed(1)])), ["b"]);
    assert_eq!(names(&placed(&mut pool(&workers[..1]), vec![failed(1)])), ["a"]);
    assert!(has_node_name("g/a", "a") && !has_node_name("b", "a"));
}

#[test]
fn no_slot_stays_free_for_the_sake_of_files() {
    let mut pool = pool(&[("a", 1, &[]), ("b", 1, &[1])]);
    let tasks = (1..=4).map(|element| task(element, &[(1, 10)])).collect();
    let placed = placed(&mut pool, tasks);
    // The third and fourth wait where the file is, and the worker without the file learns where it is.
    assert_eq!(names(&placed)[..3], ["b", "a", "b"]);
    assert_eq!(placed[1].1, ["b:1"]);
    assert!(placed[0].1.is_empty());
}

#[test]
fn fast_workers_get_more_ahead_and_slow_ones_give_it_back() {
    let ms = Duration::from_millis;
    let key = |element: u64| -> AttemptKey { AttemptKey::new("p", element, 1) };
    let given = |pool: &mut Pool, now: Duration| {
        pool.place_queued(now);
        let orders = pool.take_commands().into_iter();
        orders.filter(|command| matches!(command, PoolCommand::Send(_, Order::Job(_)))).count()
    };
    let mut pool = pool(&[("a", 2, &[])]);
    (1..=1000).for_each(|element| pool.dispatch(task(element, &[])));
    assert_eq!(given(&mut pool, ms(0)), 18, "the pace is not known yet");
    // Both slots answer together after a long time: that is slow.
    for wave in 0..8 {
        pool.on_answered("a", &[key(1 + 2 * wave), key(2 + 2 * wave)], ms(5000 * (wave + 1)));
        assert_eq!(given(&mut pool, ms(5000 * (wave + 1))), 0);
    }
    pool.on_answered("a", &[key(17), key(18)], ms(45_000));
    assert_eq!(given(&mut pool, ms(45_000)), 2);
    // Two answers in two milliseconds, again and again, with idle time between.
    let waves = (0..10).map(|wave| {
        let (now, first) = (ms(46_000 + 10 * wave), 19 + 2 * wave);
        pool.on_answered("a", &[key(first), key(first + 1)], now);
        given(&mut pool, now + ms(8))
    });
    assert!(waves.max() > Some(50));
    // Now the worker becomes slow, and another worker joins.
    let queued: Vec<AttemptKey> = pool.attempts.queued().map(|task| task.key.clone()).collect();
    queued.into_iter().for_each(|key| pool.cancel(key));
    pool.on_roster(
        v1::Roster {
            workers: ["a", "b"]
                .map(|name| v1::NodeDescription {
                    name: name.into(),
                    address: format!("{name}:1"),
                    ..Default::default()
                })
                .into(),
            ..v1::Roster::default()
        },
        ms(46_200),
    );
    let hello = v1::WorkerHello { slots: 2, queue: 100, ..v1::WorkerHello::default() };
    pool.on_connected(&Arc::from("b"), hello, ms(46_200));
    let mut recalls = |from: u64, to: u64| {
        (from..to).step_by(100).for_each(|now| pool.on_tick(ms(now)));
        let all = pool.take_commands();
        all.iter().filter(|command| matches!(command, PoolCommand::Send(name, Order::Recall) if **name == *"a")).count()
    };
    assert_eq!(recalls(46_200, 47_000), 0, "the worker has not been slow for long enough");
    assert_eq!(recalls(47_000, 47_500), 1);
}

#[test]
fn a_worker_has_the_files_that_its_tasks_needed() {
    let mut pool = pool(&[("a", 1, &[]), ("b", 2, &[])]);
    assert_eq!(names(&placed(&mut pool, vec![task(1, &[(1, 10)])])), ["b"]);
    pool.on_answered("b", &[AttemptKey::new("p", 1, 1)], Duration::ZERO);
    pool.add_files("a", vec![digest(2)]);
    assert_eq!((pool.holders(&digest(1)), pool.holders(&digest(2))), (vec!["b:1".into()], vec!["a:1".into()]));
    assert_eq!(names(&placed(&mut pool, vec![task(2, &[(2, 10)])])), ["a"]);
    pool.remove_files("b", &[digest(1)]);
    pool.on_disconnected("a", Duration::ZERO);
    assert!(pool.holders(&digest(1)).is_empty() && pool.holders(&digest(2)).is_empty());
}

fn key(element: u64) -> AttemptKey {
    AttemptKey::new("p", element, 1)
}

fn subtree(element: u64) -> Task {
    let mut task = Task { needs: Needs::default(), ..task(element, &[]) };
    task.job.subtree = Some(Default::default());
    task
}

fn coordinator() -> v1::NodeDescription {
    v1::NodeDescription { name: "c".into(), address: "c:1".into(), ..Default::default() }
}

fn recovered(task: Task, place: Option<SubtreePlace>) -> RecoveredAttempt {
    RecoveredAttempt { task, place, stop: false, paused: None }
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// The commands about attempts since the last call.
fn about_attempts(pool: &mut Pool) -> Vec<String> {
    let commands = pool.take_commands().into_iter().filter_map(|command| match command {
        PoolCommand::Send(name, Order::Cancel(key)) => Some(format!("{name}: cancel {}", key.element)),
        PoolCommand::Send(name, Order::Pause(key, paused)) => Some(format!("{name}: pause {} {paused}", key.element)),
        PoolCommand::Send(name, Order::Job(job)) => Some(format!("{name}: run {}", job.id?.element)),
        PoolCommand::Notify(key, PoolNotice::Lost(reason)) => Some(format!("{} lost: {reason:?}", key.element)),
        PoolCommand::Notify(key, PoolNotice::Answered(v1::answer::Outcome::Cancelled(_))) => {
            Some(format!("{} cancelled", key.element))
        }
        _ => None,
    });
    commands.collect()
}

/// A pool with an attempt in each state: 1 queued, 2 assigned, 3 unsettled, 4 being placed, 5 awaiting its connection.
fn every_state() -> Pool {
    let mut pool = pool(&[("a", 1, &[])]);
    pool.recover_process(&"p".into(), 2, vec![recovered(task(3, &[]), None)], Duration::ZERO);
    pool.dispatch(task(2, &[]));
    pool.place_queued(Duration::ZERO);
    pool.on_draining("a");
    pool.dispatch(task(1, &[]));
    pool.delegate(subtree(4));
    pool.delegate(subtree(5));
    pool.on_place_found(key(5), Some(coordinator()));
    pool.on_place_recorded(&key(5), Duration::ZERO);
    pool.place_queued(Duration::ZERO);
    assert_eq!(about_attempts(&mut pool), ["a: run 2"]);
    pool
}

#[test]
fn cancel_ends_what_no_peer_has_and_orders_the_rest() {
    let mut pool = every_state();
    (1..=5).for_each(|element| pool.cancel(key(element)));
    assert_eq!(about_attempts(&mut pool), ["1 cancelled", "a: cancel 2", "4 cancelled", "5 cancelled"]);
    // No worker reports the unsettled attempt.
    let known = v1::Known { processes: vec!["p".into()], ..Default::default() };
    pool.on_known(&"a".into(), known);
    pool.on_tick(seconds(1));
    assert_eq!(about_attempts(&mut pool), ["3 cancelled"]);
}

#[test]
fn pause_reaches_subtrees_where_they_are() {
    let mut pool = every_state();
    (1..=5).filter(|element| *element != 2).for_each(|element| pool.pause(key(element), true));
    assert!(about_attempts(&mut pool).is_empty());
    pool.on_connected(&"c@c:1".into(), v1::WorkerHello::default(), seconds(1));
    assert!(about_attempts(&mut pool).is_empty(), "a paused subtree is not sent");
    pool.pause(key(5), false);
    pool.pause(key(5), true);
    assert_eq!(about_attempts(&mut pool), ["c@c:1: run 5", "c@c:1: pause 5 true"]);
}

#[test]
fn abandoned_attempts_are_cancelled_at_the_peer_that_has_them() {
    let mut pool = every_state();
    (1..=5).for_each(|element| pool.abandon(&key(element), Duration::ZERO));
    assert_eq!(about_attempts(&mut pool), ["a: cancel 2"]);
    // The worker that has the unsettled one reports it, and stops it.
    let known = v1::Known { processes: vec!["p".into()], running: vec![key(3).to_wire()], ..Default::default() };
    pool.on_known(&"a".into(), known);
    assert_eq!(about_attempts(&mut pool), ["a: cancel 3"]);
    pool.on_connected(&"c@c:1".into(), v1::WorkerHello::default(), seconds(1));
    pool.on_tick(seconds(20));
    // The queued one does not start either.
    pool.on_connected(&"a".into(), v1::WorkerHello { slots: 2, ..Default::default() }, seconds(20));
    pool.place_queued(seconds(20));
    assert!(about_attempts(&mut pool).is_empty());
}

#[test]
fn an_abandoned_attempt_does_not_return_to_its_worker() {
    let mut pool = impatient_pool(10, &["a"]);
    pool.dispatch(task(1, &[]));
    pool.place_queued(Duration::ZERO);
    assert_eq!(about_attempts(&mut pool), ["a: run 1"]);
    pool.abandon(&key(1), seconds(1));
    pool.dispatch(task(2, &[]));
    pool.place_queued(seconds(2));
    assert_eq!(about_attempts(&mut pool), ["a: cancel 1"]);
    pool.place_queued(seconds(12));
    assert_eq!(about_attempts(&mut pool), ["a: run 2"], "later the worker gets another chance");
}

#[test]
fn nothing_is_left_of_a_process_that_ended() {
    let mut pool = every_state();
    pool.end_process("p");
    pool.on_connected(&"c@c:1".into(), v1::WorkerHello::default(), seconds(1));
    pool.on_disconnected("a", seconds(1));
    (2..40).for_each(|second| pool.on_tick(Duration::from_millis(second * 500)));
    pool.place_queued(seconds(20));
    assert!(about_attempts(&mut pool).is_empty());
}

#[test]
fn a_loss_has_a_reason() {
    let tick_until = |pool: &mut Pool, end: u64| (1..=end * 2).for_each(|at| pool.on_tick(seconds(at) / 2));
    let mut silent = every_state();
    silent.on_disconnected("a", Duration::ZERO);
    tick_until(&mut silent, 11);
    assert_eq!(about_attempts(&mut silent), ["3 lost: Unclaimed", "2 lost: WorkerSilent"]);

    let mut restarted = every_state();
    restarted.on_connected(&"a".into(), v1::WorkerHello::default(), seconds(1));
    assert_eq!(about_attempts(&mut restarted), ["2 lost: UnknownToWorker"]);

    let mut pool = pool(&[]);
    let place = SubtreePlace { node: "c".into(), address: "c:1".into(), epoch: 1 };
    pool.recover_process(&"p".into(), 2, vec![recovered(subtree(6), Some(place))], Duration::ZERO);
    pool.on_connected(&"c@c:1".into(), v1::WorkerHello::default(), Duration::ZERO);
    pool.on_known(&"c@c:1".into(), v1::Known { processes: vec!["p".into()], ..Default::default() });
    assert_eq!(about_attempts(&mut pool), ["6 lost: UnknownToCoordinator"]);
}

/// A pool with workers, each with two slots, that takes attempts back after this many seconds without movement.
fn impatient_pool(patience: u64, workers: &[&str]) -> Pool {
    let workers: Vec<(&str, u32, &[u8])> = workers.iter().map(|name| (*name, 2, &[][..])).collect();
    Pool { patience: Some(seconds(patience)), ..pool(&workers) }
}

fn tick_from(pool: &mut Pool, from: u64, to: u64) {
    (from * 2..to * 2).for_each(|half| pool.on_tick(seconds(half) / 2));
}

fn running(elements: std::ops::RangeInclusive<u64>) -> v1::Running {
    v1::Running { attempts: elements.map(|element| key(element).to_wire()).collect() }
}

#[test]
fn attempts_that_a_worker_leaves_lying_are_recalled_and_then_lost() {
    let mut pool = impatient_pool(10, &["a"]);
    (1..=3).for_each(|element| pool.dispatch(task(element, &[])));
    pool.place_queued(Duration::ZERO);
    tick_from(&mut pool, 0, 11);
    assert_eq!(about_attempts(&mut pool), ["a: run 1", "a: run 2", "a: run 3"]);
    pool.on_tick(seconds(12));
    let recalled = pool.take_commands();
    assert!(matches!(&recalled[..], [PoolCommand::Send(_, Order::Recall)]), "{recalled:?}");
    // One returns, and one runs. The third is lost, and the worker gets nothing more for now.
    let refusal = v1::Refusal::for_now(v1::refusal_reason::Kind::Recalled(v1::Nothing {}));
    pool.on_refused("a", &key(3), refusal, seconds(12));
    pool.on_running(&"a".into(), &running(1..=1), seconds(20));
    tick_from(&mut pool, 12, 24);
    assert_eq!(about_attempts(&mut pool), ["a: cancel 2", "2 lost: NotMoving"]);
    pool.place_queued(seconds(24));
    assert!(about_attempts(&mut pool).is_empty(), "the worker gets nothing");
    assert_eq!(pool.on_answered("a", &[key(2)], seconds(24)), [key(2)], "a late answer is not believed");
    assert!(pool.on_answered("a", &[key(1)], seconds(24)).is_empty());
    pool.place_queued(seconds(24));
    assert_eq!(about_attempts(&mut pool), ["a: run 3"], "an answer restores trust");
}

#[test]
fn a_worker_confirms_no_more_than_its_slots() {
    let mut pool = impatient_pool(10, &["a", "b"]);
    pool.on_disconnected("b", Duration::ZERO);
    (1..=4).for_each(|element| pool.dispatch(task(element, &[])));
    pool.place_queued(Duration::ZERO);
    about_attempts(&mut pool);
    for now in (0..60).map(|half| seconds(half) / 2) {
        pool.on_running(&"a".into(), &running(1..=4), now);
        // Another worker cannot confirm them.
        pool.on_running(&"b".into(), &running(1..=4), now);
        pool.on_tick(now);
    }
    let expected = ["a: cancel 3", "3 lost: NotMoving", "a: cancel 4", "4 lost: NotMoving"];
    assert_eq!(about_attempts(&mut pool), expected);
}

#[test]
fn a_timeout_that_the_worker_ignores_ends_the_attempt() {
    let mut pool = impatient_pool(10, &["a"]);
    let mut limited = task(1, &[]);
    limited.job.timeout_ms = Some(5000);
    [limited, task(2, &[])].into_iter().for_each(|task| pool.dispatch(task));
    pool.place_queued(Duration::ZERO);
    about_attempts(&mut pool);
    for now in (0..34).map(|half| seconds(half) / 2) {
        pool.on_running(&"a".into(), &running(1..=2), now);
        pool.on_tick(now);
    }
    assert_eq!(about_attempts(&mut pool), ["a: cancel 1", "1 lost: Overdue"]);
}

#[test]
fn the_time_in_which_the_coordinator_does_not_listen_does_not_count() {
    let mut pool = impatient_pool(10, &["a"]);
    pool.dispatch(task(1, &[]));
    pool.place_queued(Duration::ZERO);
    for now in (0..120).map(|half| seconds(half) / 2) {
        pool.on_unread_reports("a", now);
        pool.on_tick(now);
    }
    // Nor does the time in which it was suspended.
    pool.on_tick(seconds(600));
    assert!(!pool.take_commands().iter().any(|it| matches!(it, PoolCommand::Send(_, Order::Recall))));
    tick_from(&mut pool, 601, 630);
    assert_eq!(about_attempts(&mut pool), ["a: cancel 1", "1 lost: NotMoving"]);
}

#[test]
fn a_worker_gets_no_more_than_it_has_shown_to_do() {
    let mut pool = pool(&[("a", u32::MAX, &[])]);
    (1..=500).for_each(|element| pool.dispatch(task(element, &[])));
    let given = |pool: &mut Pool| {
        pool.place_queued(Duration::ZERO);
        about_attempts(pool).len()
    };
    assert_eq!(given(&mut pool), 64);
    pool.on_running(&"a".into(), &running(1..=64), Duration::ZERO);
    assert_eq!(given(&mut pool), 64);
    pool.on_answered("a", &(1..=10).map(key).collect::<Vec<_>>(), Duration::ZERO);
    assert_eq!(given(&mut pool), 20, "as many as it answered, and as many more");
}

#[test]
fn an_activity_that_is_larger_than_a_window_gets_a_worker_for_itself() {
    let mut pool = pool(&[("a", 256, &[])]);
    let large = |element| Task { needs: Needs { cpus: 200, ..Needs::default() }, ..task(element, &[]) };
    (1..=2).for_each(|element| pool.dispatch(large(element)));
    pool.place_queued(Duration::ZERO);
    assert_eq!(about_attempts(&mut pool), ["a: run 1"]);
}

#[test]
fn only_the_peer_that_has_an_attempt_speaks_for_it() {
    let mut pool = every_state();
    pool.on_roster(
        v1::Roster {
            workers: vec![v1::NodeDescription { name: "b".into(), ..Default::default() }],
            ..Default::default()
        },
        Duration::ZERO,
    );
    pool.on_connected(&"b".into(), v1::WorkerHello::default(), Duration::ZERO);
    let all: Vec<AttemptKey> = (1..=6).map(key).collect();
    // After a recovery any worker may have an unsettled attempt.
    let others = [key(1), key(2), key(4), key(5), key(6)];
    assert_eq!(pool.not_held("b", &all), others);
    assert_eq!(pool.on_answered("b", &all, Duration::ZERO), others);
    assert_eq!(pool.not_held("a", &all), [key(1), key(3), key(4), key(5), key(6)]);
    assert!(pool.on_answered("a", &[key(2)], Duration::ZERO).is_empty());
    assert_eq!(pool.on_answered("a", &[key(2)], Duration::ZERO), [key(2)]);
    assert_eq!(pool.on_answered("nobody", &all[..1], Duration::ZERO), all[..1]);
}

#[test]
fn an_impaired_worker_gets_nothing_and_says_why() {
    let mut pool = pool(&[("a", 1, &[])]);
    let reason = v1::ImpairmentReason::from(v1::impairment_reason::Kind::AnswersUnwritable("full".into()));
    pool.on_impaired("a", Some(reason.clone()));
    assert!(placed(&mut pool, vec![task(1, &[])]).is_empty());
    let worker = v1::ImpairedWorker { node: "a".into(), reason: Some(reason) };
    let waits = v1::WaitReason::from(v1::wait_reason::Kind::Impaired(worker));
    assert_eq!(pool.whereabouts(&[key(1)]), [Some(Whereabouts::Waits(waits))]);
    pool.on_impaired("a", None);
    assert_eq!(names(&placed(&mut pool, vec![])), ["a"]);
}
