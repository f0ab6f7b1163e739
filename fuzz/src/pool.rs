//! The pool of a coordinator with any sequence of inputs. It gives a job only to a connected peer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use xavantes_process_coordinator::handover::{RecoveredAttempt, SubtreePlace};
use xavantes_process_coordinator::task::{Needs, Task};
use xavantes_process_coordinator::workers::pool::Pool;
use xavantes_process_coordinator::workers::pool::pool_input::PoolInput;
use xavantes_process_coordinator::workers::worker_messages::{Order, PoolCommand};
use xavantes_proto::{AttemptKey, v1};

use crate::byte_choices::ByteChoices;

const PEERS: [&str; 5] = ["a", "b", "g/x", "c@c:1", "nobody"];

fn peer(input: &mut ByteChoices<'_>) -> Arc<str> {
    PEERS[usize::from(input.below(5))].into()
}

fn task(input: &mut ByteChoices<'_>, subtree: bool) -> Task {
    let key = input.key();
    let job = v1::Job {
        id: Some(key.to_wire()),
        subtree: subtree.then(v1::Subtree::default),
        timeout_ms: (input.below(3) == 0).then(|| input.number()),
        ..Default::default()
    };
    let cpus = if subtree { 0 } else { input.number().min(4) as u32 };
    Task {
        key,
        program: Arc::default(),
        needs: Needs { cpus, ..Needs::default() },
        files: Vec::new(),
        avoid: None,
        job,
    }
}

fn node(name: &str) -> v1::NodeDescription {
    v1::NodeDescription { name: name.into(), address: format!("{name}:1"), ..Default::default() }
}

fn keys(input: &mut ByteChoices<'_>) -> Vec<v1::AttemptId> {
    (0..input.below(4)).map(|_| input.key().to_wire()).collect()
}

fn hello(input: &mut ByteChoices<'_>) -> v1::WorkerHello {
    v1::WorkerHello {
        slots: input.number() as u32,
        queue: input.number() as u32,
        memory: input.number(),
        running: keys(input),
        answered: keys(input),
        ..Default::default()
    }
}

fn input_of_pool(input: &mut ByteChoices<'_>) -> PoolInput {
    let process: Arc<str> = if input.below(2) == 0 { "p".into() } else { "q".into() };
    match input.below(22) {
        0 => PoolInput::Roster(v1::Roster {
            workers: ["a", "b"].into_iter().filter(|_| input.below(2) == 0).map(node).collect(),
            draining: ["a", "b"].into_iter().filter(|_| input.below(4) == 0).map(node).collect(),
            settling: input.below(4) == 0,
            free_slots: input.number() as u32,
            foreign_free_slots: input.number() as u32,
            foreign_coordinators: input.number() as u32,
            other_coordinators: input.number() as u32,
            ..Default::default()
        }),
        1 | 2 => PoolInput::Dispatch((0..input.below(4)).map(|_| task(input, false)).collect()),
        3 => PoolInput::Delegate(task(input, true)),
        4 => PoolInput::HandOver(input.key()),
        5 => PoolInput::PlaceFound(
            input.key(),
            (input.below(3) > 0).then(|| v1::NodeDescription {
                name: "c".into(),
                address: "c:1".into(),
                ..Default::default()
            }),
        ),
        6 => PoolInput::Borrowed(v1::PlaceResponse {
            node: (input.below(4) > 0).then(|| node("x")),
            group: "g".into(),
            slots: input.number() as u32,
            lease_ms: input.number(),
        }),
        7 => PoolInput::LeaseStored(peer(input)),
        8 => PoolInput::LeaseRestored("g/x".into(), "x:1".into()),
        9 => PoolInput::Cancel(input.key()),
        10 => PoolInput::Pause(input.key(), input.below(2) == 0),
        11 => PoolInput::Abandon(input.key()),
        12 => PoolInput::ProcessBegan(process, input.number()),
        13 => {
            let place = SubtreePlace { node: "c".into(), address: "c:1".into(), epoch: input.number() };
            let epoch = input.number();
            let attempts = (0..input.below(3)).map(|_| {
                let subtree = input.below(2) == 0;
                let place = Some(place.clone()).filter(|_| subtree && input.below(2) == 0);
                let task = task(input, subtree);
                RecoveredAttempt { task, place, stop: input.below(3) == 0, paused: None }
            });
            PoolInput::ProcessRecovered(process, epoch, attempts.collect())
        }
        14 => PoolInput::ProcessEnded(process),
        15 => PoolInput::ProcessLost(process),
        16 => {
            let (running, answered) = (keys(input), keys(input));
            PoolInput::Known(peer(input), v1::Known { processes: vec![process.to_string()], running, answered })
        }
        17 => PoolInput::Draining(peer(input)),
        18 => PoolInput::Running(
            peer(input),
            v1::Running {
                attempts: keys(input),
                slots_of_others: input.number() as u32,
                running_ms: vec![input.number()],
            },
        ),
        19 => PoolInput::Impaired(peer(input), (input.below(2) == 0).then(v1::ImpairmentReason::default)),
        20 => {
            PoolInput::Refused(peer(input), input.key(), v1::Refusal { permanent: input.below(3) == 0, reason: None })
        }
        _ => PoolInput::Answered(peer(input), (0..input.below(4)).map(|_| input.key()).collect()),
    }
}

/// Checks a sequence of inputs.
pub fn check(bytes: &[u8]) {
    let input = &mut ByteChoices(bytes);
    let mut pool = Pool::with_patience(Duration::from_secs(u64::from(input.below(20)) + 1));
    let mut now = Duration::ZERO;
    let mut connected: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut known: BTreeSet<Arc<str>> = BTreeSet::new();
    while input.has_more() {
        now += Duration::from_millis(input.number().min(40_000));
        match input.below(8) {
            0 => {
                let name = peer(input);
                let hello = hello(input);
                if known.contains(&name) {
                    pool.on_connected(&name, hello, now);
                    connected.insert(name);
                }
            }
            1 => {
                let name = peer(input);
                pool.on_disconnected(&name, now);
                connected.remove(&name);
            }
            2 => pool.on_tick(now),
            3 => {
                let place = SubtreePlace { node: "c".into(), address: "c:1".into(), epoch: input.number() };
                pool.on_moved(&input.key(), &place, now);
            }
            4 => {
                let keys: Vec<AttemptKey> = (0..input.below(4)).map(|_| input.key()).collect();
                let _ = (pool.whereabouts(&keys), pool.not_held(&peer(input), &keys), pool.vicinity("p/x"));
            }
            _ => {
                let next = input_of_pool(input);
                pool.handle(next, now);
            }
        }
        pool.place_queued(now);
        for command in pool.take_commands() {
            match command {
                PoolCommand::Connect(name, ..) => drop(known.insert(name)),
                PoolCommand::Disconnect(name) => {
                    known.remove(&name);
                    connected.remove(&name);
                }
                PoolCommand::Send(name, Order::Job(_)) => {
                    assert!(connected.contains(&name), "{name} gets a job and is not connected");
                }
                _ => {}
            }
        }
    }
}
