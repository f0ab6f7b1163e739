//! The part of a coordinator's order that concerns the attempt table. Pure.

use xavantes_proto::v1;

use super::action::TableAction;
use super::attempt_table::{AttemptTable, ReadyJob};
use super::realm_attempt::{CoordinatorStream, RealmAttempt};

/// A job that arrives with an order.
#[derive(Debug)]
struct ArrivingJob<J> {
    attempt: RealmAttempt,
    /// Epoch of the process.
    epoch: u64,
    ready: Result<ReadyJob<J>, v1::Refusal>,
}

/// An order with its jobs prepared. Preparing needs no lock on the table.
#[derive(Debug)]
pub struct TableOrder<J> {
    claims: Vec<v1::Claim>,
    recall: bool,
    acknowledged: Vec<v1::AttemptId>,
    jobs: Vec<ArrivingJob<J>>,
    cancels: Vec<v1::AttemptId>,
    replies: Vec<v1::SharedReply>,
}

impl<J> TableOrder<J> {
    /// The order that arrived by this stream. `prepare` makes a job ready to run, or refuses it.
    pub fn new(
        stream: &CoordinatorStream,
        order: v1::WorkOrder,
        mut prepare: impl FnMut(RealmAttempt, v1::Job) -> Result<ReadyJob<J>, v1::Refusal>,
    ) -> Self {
        let v1::WorkOrder { claims, recall, acknowledged, jobs, cancels, replies, .. } = order;
        let jobs = jobs.into_iter().filter_map(|mut job| {
            let (attempt, epoch) = (stream.attempt(&job.id.take()?), job.epoch);
            Some(ArrivingJob { attempt: attempt.clone(), epoch, ready: prepare(attempt, job) })
        });
        Self { claims, recall, acknowledged, jobs: jobs.collect(), cancels, replies }
    }
}

impl<J: Clone> AttemptTable<J> {
    /// Handles an order of a coordinator. `None` if the stream is not the newest of the coordinator.
    pub fn on_order(&mut self, stream: &CoordinatorStream, order: TableOrder<J>) -> Option<Vec<TableAction<J>>> {
        if !self.is_current(stream) {
            return None;
        }
        let TableOrder { claims, recall, acknowledged, jobs, cancels, replies } = order;
        let mut actions = Vec::new();
        if !claims.is_empty() {
            actions.extend(self.claim(stream, claims));
        }
        if recall {
            actions.extend(self.recall(stream));
        }
        for id in &acknowledged {
            actions.extend(self.acknowledge(stream, id));
        }
        for ArrivingJob { attempt, epoch, ready } in jobs {
            actions.extend(self.on_job(stream, attempt, epoch, ready));
        }
        for id in &cancels {
            actions.extend(self.cancel(stream, id));
        }
        for reply in replies {
            if self.on_reply(stream, reply.ticket) {
                actions.push(TableAction::Reply(reply));
            }
        }
        actions.extend(self.inform_of_backlogs());
        Some(actions)
    }
}
