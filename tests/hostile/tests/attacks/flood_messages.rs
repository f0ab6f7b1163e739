//! Large messages that begin and do not end, and many of them at once.

use tonic::Code;
use xavantes_hostile::fake_coordinator::FakeCoordinator;
use xavantes_hostile::{block_on, client, connect};
use xavantes_proto::message_memory::MAX_HELD_BYTES_PER_PEER;
use xavantes_proto::{MAX_PART_BYTES, MAX_PAYLOAD_BYTES};
use xavantes_tests::{Grid, free_address};

/// Streams with a message that begins and does not end.
const STREAMS: usize = 8;
/// Parts of each message: as much as one message may have.
const PARTS: usize = MAX_PAYLOAD_BYTES / MAX_PART_BYTES;
/// The memory of a node beside the messages that it receives, generously.
const OTHER_MIB: u64 = 400;

#[test]
fn unfinished_messages_take_bounded_memory() {
    let mut grid = Grid::new();
    let (manager, worker) = (grid.group("a", &[], &[]), free_address());
    grid.start("a/w", &worker, &["--roles", "activity-manager", "--join", &manager]);
    block_on(async {
        for (address, is_worker) in [(&worker, true), (&manager, false)] {
            let mut refusals = tokio::task::JoinSet::new();
            for number in 0..STREAMS {
                let (channel, hello) = (connect(address).await, FakeCoordinator::hello(&format!("c{number}")));
                let mut stream = match is_worker {
                    true => FakeCoordinator::to_worker(&channel, hello).await.expect("it is accepted"),
                    false => FakeCoordinator::to_coordinator(&channel, hello).await.expect("it is accepted"),
                };
                refusals.spawn(async move {
                    for _ in 0..PARTS {
                        if !stream.send_part(MAX_PART_BYTES, false).await {
                            break;
                        }
                    }
                    stream.refusal().await
                });
            }
            // The node takes as many messages as the limit allows. Which ones depends on the order in which the parts arrive.
            for _ in 0..STREAMS - MAX_HELD_BYTES_PER_PEER / MAX_PAYLOAD_BYTES {
                let status = refusals.join_next().await.expect("a stream is left").expect("the node refuses it");
                assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
                assert!(status.message().contains("send fewer at once"), "{status:?}");
            }
        }
    });
    for node in ["a/w", "a/main"] {
        let peak = grid.peak_mib(node);
        assert!(peak < (MAX_HELD_BYTES_PER_PEER as u64 >> 20) + OTHER_MIB, "{node} took {peak} MiB");
    }
    assert_eq!(grid.nodes(&manager).len(), 2);
}

#[test]
fn many_large_submissions_at_once_take_bounded_memory() {
    let mut grid = Grid::new();
    let address = grid.group("a", &[], &[]);
    let (taken, refused) = block_on(async {
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..40 {
            let address = address.clone();
            calls.spawn(async move { client::submit(&connect(&address).await, &" ".repeat(15 << 20)).await });
        }
        let (mut taken, mut refused) = (0, 0);
        while let Some(answer) = calls.join_next().await {
            match answer.expect("it ends").expect_err("no document is valid").code() {
                Code::InvalidArgument => taken += 1,
                Code::ResourceExhausted => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        (taken, refused)
    });
    assert!(taken > 0, "{taken} taken, {refused} refused");
    let peak = grid.peak_mib("a/main");
    assert!(peak < 2 * (MAX_HELD_BYTES_PER_PEER as u64 >> 20) + OTHER_MIB, "the node took {peak} MiB");
    grid.cli(&address, &["list"]).ok();
}
