//! Who gets what, and when it is given back.

use super::placement::is_called;
use std::sync::Arc;
use std::time::Duration;

use xavantes_model::digest::Digest;
use xavantes_proto::v1;

use super::pool::*;
use crate::attempt::{AttemptKey, Needs, Task};
use crate::data::locations::Need;

fn digest(number: u8) -> Digest {
    Digest([number; 32])
}

/// Workers by name, with slots and with objects that they have.
fn pool(workers: &[(&str, u32, &[u8])]) -> Pool {
    let mut pool = Pool::default();
    let address = |name: &str| format!("{name}:1");
    let node = |name: &str| v1::NodeDescription { name: name.into(), address: address(name), ..Default::default() };
    let workers_known = workers.iter().map(|(name, ..)| node(name)).collect();
    pool.roster(v1::Roster { workers: workers_known, ..v1::Roster::default() }, Duration::ZERO);
    for (name, slots, holds) in workers {
        let holds = holds.iter().map(|number| digest(*number).0.to_vec()).collect();
        let hello = v1::WorkerHello { slots: *slots, queue: 100, holds, ..v1::WorkerHello::default() };
        pool.connected(&Arc::from(*name), hello, Duration::ZERO);
    }
    pool.began("p".into(), 1);
    pool.effects();
    pool
}

fn task(element: u64, files: &[(u8, u64)]) -> Task {
    let need = |(number, size): &(u8, u64)| Need { digest: digest(*number), size: *size, holders: Vec::new() };
    let key: AttemptKey = AttemptKey::new("p", element, 1);
    let job = v1::Job { id: Some(key.to_wire()), ..v1::Job::default() };
    let files = files.iter().map(need).collect();
    Task { key, program: Arc::default(), needs: Needs { cpus: 1, ..Needs::default() }, files, avoid: None, job }
}

/// Who gets these, in order, and whom they are told to ask.
fn placed(pool: &mut Pool, tasks: Vec<Task>) -> Vec<(String, Vec<String>)> {
    tasks.into_iter().for_each(|task| pool.dispatch(task));
    pool.place(Duration::ZERO);
    let jobs = pool.effects().into_iter().filter_map(|effect| match effect {
        Effect::Order(name, Order::Job(job)) => {
            let told = job.holdings.iter().flat_map(|holding| holding.addresses.clone()).collect();
            Some((name.to_string(), told))
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
        // Who has nothing of it, or if there is nothing to have: most room.
        (&[(9, 10)][..], "a"),
        (&[][..], "a"),
    ] {
        assert_eq!(names(&placed(&mut pool(workers), vec![task(1, files)])), [expected], "{files:?}");
    }
}

#[test]
fn what_failed_at_a_worker_is_tried_at_another_one_if_there_is_room() {
    let failed = |element| Task { avoid: Some("a".into()), ..task(element, &[(1, 10)]) };
    let workers: &[(&str, u32, &[u8])] = &[("a", 8, &[1]), ("b", 1, &[])];
    assert_eq!(names(&placed(&mut pool(workers), vec![failed(1)])), ["b"]);
    assert_eq!(names(&placed(&mut pool(&workers[..1]), vec![failed(1)])), ["a"]);
    assert!(is_called("g/a", "a") && !is_called("b", "a"));
}

#[test]
fn no_slot_stays_free_for_the_sake_of_files() {
    let mut pool = pool(&[("a", 1, &[]), ("b", 1, &[1])]);
    let tasks = (1..=4).map(|element| task(element, &[(1, 10)])).collect();
    let placed = placed(&mut pool, tasks);
    // The third and fourth wait where the file is, and who does not have it is told who does.
    assert_eq!(names(&placed)[..3], ["b", "a", "b"]);
    assert_eq!(placed[1].1, ["b:1"]);
    assert!(placed[0].1.is_empty());
}

#[test]
fn fast_workers_get_more_ahead_and_slow_ones_give_it_back() {
    let ms = Duration::from_millis;
    let key = |element: u64| -> AttemptKey { AttemptKey::new("p", element, 1) };
    let given = |pool: &mut Pool, now: Duration| {
        pool.place(now);
        let orders = pool.effects().into_iter();
        orders.filter(|effect| matches!(effect, Effect::Order(_, Order::Job(_)))).count()
    };
    let mut pool = pool(&[("a", 2, &[])]);
    (1..=1000).for_each(|element| pool.dispatch(task(element, &[])));
    assert_eq!(given(&mut pool, ms(0)), 18, "nothing is known of it");
    // Both slots answer at once after long: that is slow.
    for wave in 0..8 {
        pool.answered("a", &[key(1 + 2 * wave), key(2 + 2 * wave)], ms(5000 * (wave + 1)));
        assert_eq!(given(&mut pool, ms(5000 * (wave + 1))), 0);
    }
    pool.answered("a", &[key(17), key(18)], ms(45_000));
    assert_eq!(given(&mut pool, ms(45_000)), 2);
    // Two in two milliseconds, again and again, with some time in which it has nothing to do.
    let waves = (0..10).map(|wave| {
        let (now, first) = (ms(46_000 + 10 * wave), 19 + 2 * wave);
        pool.answered("a", &[key(first), key(first + 1)], now);
        given(&mut pool, now + ms(8))
    });
    assert!(waves.max() > Some(50));
    // Now it takes long, and another one comes.
    pool.queues.clear();
    pool.roster(
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
    pool.connected(&Arc::from("b"), hello, ms(46_200));
    let mut recalls = |from: u64, to: u64| {
        (from..to).step_by(100).for_each(|now| pool.look(ms(now)));
        let all = pool.effects();
        all.iter().filter(|effect| matches!(effect, Effect::Order(name, Order::Recall) if **name == *"a")).count()
    };
    assert_eq!(recalls(46_200, 47_000), 0, "it has not been slow for long");
    assert_eq!(recalls(47_000, 47_500), 1);
}

#[test]
fn who_worked_with_a_file_has_it() {
    let mut pool = pool(&[("a", 1, &[]), ("b", 2, &[])]);
    assert_eq!(names(&placed(&mut pool, vec![task(1, &[(1, 10)])])), ["b"]);
    pool.answered("b", &[AttemptKey::new("p", 1, 1)], Duration::ZERO);
    pool.holds("a", vec![digest(2)]);
    assert_eq!((pool.holders(&digest(1)), pool.holders(&digest(2))), (vec!["b:1".into()], vec!["a:1".into()]));
    assert_eq!(names(&placed(&mut pool, vec![task(2, &[(2, 10)])])), ["a"]);
    pool.lacks("b", &[digest(1)]);
    pool.disconnected("a", Duration::ZERO);
    assert!(pool.holders(&digest(1)).is_empty() && pool.holders(&digest(2)).is_empty());
}
