//! What the attempt table asks the attempt manager to do, in this order.

use std::sync::Arc;

use xavantes_proto::v1;

use super::realm_attempt::RealmAttempt;

/// Attempts that a coordinator must know of as soon as it connects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Welcome {
    /// Attempts of the coordinator that run, wait, or have an answer that is not durable yet.
    pub running: Vec<v1::AttemptId>,
    /// Attempts of the coordinator whose answers follow.
    pub answered: Vec<v1::AttemptId>,
}

/// A message to a coordinator.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerReport {
    /// An attempt ended or was refused.
    Answer(Arc<v1::Answer>),
    /// A running attempt calls a shared object.
    Call(Arc<v1::SharedCall>),
    /// The attempts of the processes that the coordinator claimed.
    Known(v1::Known),
    /// This worker takes no new attempts.
    Draining,
    /// The attempts of the coordinator that run.
    Running(v1::Running),
    /// This worker takes no attempts for now, or takes them again.
    Impairment(v1::Impairment),
}

/// An answer with the attempt that it is for and the coordinator that must receive it.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnedAnswer {
    /// The attempt that ended.
    pub attempt: RealmAttempt,
    /// The coordinator that receives the answer.
    pub owner: Arc<str>,
    /// The answer.
    pub answer: Arc<v1::Answer>,
}

/// One effect. `J` is the type of the job that runs.
#[derive(Debug, Clone, PartialEq)]
pub enum TableAction<J> {
    /// Start the attempt, and call [`AttemptTable::on_finished`](super::attempt_table::AttemptTable::on_finished) at its end.
    Start(J),
    /// Ask the attempt to end soon.
    Stop(J),
    /// Send a report to the coordinator of that name.
    Send(Arc<str>, WorkerReport),
    /// Make the answer durable, then call [`AttemptTable::on_persisted`](super::attempt_table::AttemptTable::on_persisted).
    Persist(OwnedAnswer),
    /// Delete the durable answer of the attempt.
    Forget(RealmAttempt),
    /// Pass the reply on to the activity that made the call.
    Reply(v1::SharedReply),
}
