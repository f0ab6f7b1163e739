//! The orders of a coordinator that delegates subtrees, in the order in which they are carried out. Pure.

use xavantes_proto::v1;

/// A part of a [`v1::WorkOrder`] to a coordinator.
#[derive(Debug)]
pub enum ParentOrder {
    /// A program that later jobs refer to.
    Program(v1::Program),
    /// The caller has recorded the answer of this attempt.
    Acknowledge(v1::AttemptId),
    /// The caller owns these processes.
    Claim(Vec<v1::Claim>),
    /// A subtree to run.
    Job(Box<v1::Job>),
    /// Stop a subtree.
    Cancel(v1::AttemptId),
    /// Pause or resume a subtree.
    Pause(v1::PauseOrder),
    /// The reply to a forwarded call.
    Reply(v1::SharedReply),
}

impl ParentOrder {
    /// Splits a message into its orders.
    pub fn split(message: v1::WorkOrder) -> impl Iterator<Item = Self> {
        let v1::WorkOrder { programs, acknowledged, claims, jobs, cancels, pauses, replies, .. } = message;
        let claims = Some(claims).filter(|claims| !claims.is_empty());
        (programs.into_iter().map(Self::Program))
            .chain(acknowledged.into_iter().map(Self::Acknowledge))
            .chain(claims.map(Self::Claim))
            .chain(jobs.into_iter().map(|job| Self::Job(job.into())))
            .chain(cancels.into_iter().map(Self::Cancel))
            .chain(pauses.into_iter().map(Self::Pause))
            .chain(replies.into_iter().map(Self::Reply))
    }
}
