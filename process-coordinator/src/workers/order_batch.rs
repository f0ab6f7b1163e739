//! Orders that go to a peer in one message. Pure, so that the simulation sends the same messages as the coordinator.

use std::collections::HashSet;

use xavantes_proto::{MAX_PAYLOAD_BYTES, Message, count_fitting, too_large, v1};

use crate::workers::worker_messages::Order;

/// Upper bound on the orders in one message, so that the first of them do not wait for the last.
pub const MAX_ORDERS_PER_MESSAGE: usize = 256;

/// Encoded size of an order in bytes, or an upper bound of it.
fn encoded_len(order: &Order) -> usize {
    match order {
        Order::Program(program) => program.encoded_len(),
        Order::Job(job) => job.encoded_len(),
        Order::Reply(reply) => reply.encoded_len(),
        Order::Cancel(key) | Order::Pause(key, _) | Order::Acknowledge(key) => key.process.len() + 32,
        Order::Claim(claims) => claims.iter().map(|claim| claim.encoded_len() + 4).sum(),
        Order::Release(release) => release.encoded_len(),
        Order::Recall => 2,
    }
}

/// Removes programs that the peer has got on this stream; `sent` holds their digests.
pub fn remove_sent_programs(batch: &mut Vec<Order>, sent: &mut HashSet<String>) {
    batch.retain(|order| !matches!(order, Order::Program(program) if !sent.insert(program.digest.clone())));
}

/// Drains the orders that fit into one message, and gives that message; `None` if no order is left.
pub fn next_order_message(batch: &mut Vec<Order>) -> Option<v1::WorkOrder> {
    if batch.is_empty() {
        return None;
    }
    let count = count_fitting(batch.iter().map(encoded_len));
    let mut message = v1::WorkOrder::default();
    for order in batch.drain(..count) {
        match order {
            Order::Program(program) => message.programs.push(v1::Program::clone(&program)),
            Order::Job(job) => message.jobs.push(*job),
            Order::Cancel(key) => message.cancels.push(key.to_wire()),
            Order::Pause(key, paused) => message.pauses.push(v1::PauseOrder { id: Some(key.to_wire()), paused }),
            Order::Reply(reply) => message.replies.push(sendable(reply)),
            Order::Acknowledge(key) => message.acknowledged.push(key.to_wire()),
            Order::Claim(claims) => message.claims.extend(claims),
            Order::Release(release) => message.releases.push(v1::Release::clone(&release)),
            Order::Recall => message.recall = true,
        }
    }
    Some(message)
}

/// Replaces a reply that is too large to be sent by an error: a shared object may be larger than a message.
fn sendable(reply: v1::SharedReply) -> v1::SharedReply {
    match reply.encoded_len() {
        size if size > MAX_PAYLOAD_BYTES => {
            let error = v1::shared_reply::Result::Error(too_large("the values", size));
            v1::SharedReply { ticket: reply.ticket, result: Some(error) }
        }
        _ => reply,
    }
}
