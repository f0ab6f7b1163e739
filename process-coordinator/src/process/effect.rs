//! What a process wants done: the output of its driver.

use bytes::Bytes;
use xavantes_engine::{Product, Rejection};
use xavantes_proto::v1;

use crate::cache::cache_entry::{CacheLookup, CacheWrite};
use crate::memo::memo_log::MemoWrite;
use crate::task::Task;
use crate::workers::pool::pool_input::PoolInput;
use crate::workers::worker_messages::Order;
use xavantes_proto::AttemptKey;

/// An effect that may happen once the reason for it is recorded. For `C` and `A` see
/// [`ProcessInput`](crate::process::driver_input::ProcessInput).
#[derive(Debug)]
pub enum ProcessEffect<C, A> {
    /// Dispatch an activity to a worker.
    Dispatch(Task),
    /// Search the result cache before the activity is dispatched.
    SearchCache(AttemptKey, Box<CacheLookup>),
    /// Publish the results of a completed element.
    Publish {
        /// The results.
        product: Product,
        /// They come from the result cache.
        reused: bool,
    },
    /// Find a coordinator for a subtree.
    Delegate(Task),
    /// Send a subtree to the coordinator that was found for it.
    HandOver(AttemptKey),
    /// Stop an attempt.
    Cancel(AttemptKey),
    /// Pause (true) or resume (false) an attempt.
    Pause(AttemptKey, bool),
    /// Forget an attempt: its answer no longer matters.
    Abandon(AttemptKey),
    /// Acknowledge an answer: it is recorded, or not wanted.
    Acknowledge(C, AttemptKey),
    /// Answer a call of a shared object.
    Reply(C, v1::SharedReply),
    /// Tell an asker the decision.
    Decide(A, Result<v1::SteerEffect, Rejection>),
}

/// An effect, by who carries it out.
#[derive(Debug)]
pub enum EffectStep<C, A> {
    /// The pool takes an input.
    Pool(Box<PoolInput>),
    /// A connection sends an order.
    Send(C, Order),
    /// An asker gets a decision.
    Decide(A, Result<v1::SteerEffect, Rejection>),
    /// The result cache is searched.
    SearchCache(AttemptKey, Box<CacheLookup>),
    /// Watchers get the results of an element.
    Publish {
        /// The results.
        product: Product,
        /// They come from the result cache.
        reused: bool,
    },
}

/// Performs effects in their order. Consecutive activities go to the pool together.
pub fn perform_effects<C, A>(effects: Vec<ProcessEffect<C, A>>, mut perform: impl FnMut(EffectStep<C, A>)) {
    let mut tasks: Vec<Task> = Vec::new();
    for effect in effects {
        let step = match effect {
            ProcessEffect::Dispatch(task) => {
                tasks.push(task);
                continue;
            }
            ProcessEffect::Publish { product, reused } => {
                perform(EffectStep::Publish { product, reused });
                continue;
            }
            ProcessEffect::SearchCache(key, lookup) => EffectStep::SearchCache(key, lookup),
            ProcessEffect::Delegate(task) => EffectStep::Pool(Box::new(PoolInput::Delegate(task))),
            ProcessEffect::HandOver(key) => EffectStep::Pool(Box::new(PoolInput::HandOver(key))),
            ProcessEffect::Cancel(key) => EffectStep::Pool(Box::new(PoolInput::Cancel(key))),
            ProcessEffect::Pause(key, paused) => EffectStep::Pool(Box::new(PoolInput::Pause(key, paused))),
            ProcessEffect::Abandon(key) => EffectStep::Pool(Box::new(PoolInput::Abandon(key))),
            ProcessEffect::Acknowledge(connection, key) => EffectStep::Send(connection, Order::Acknowledge(key)),
            ProcessEffect::Reply(connection, reply) => EffectStep::Send(connection, Order::Reply(reply)),
            ProcessEffect::Decide(asker, decision) => EffectStep::Decide(asker, decision),
        };
        if !tasks.is_empty() {
            perform(EffectStep::Pool(Box::new(PoolInput::Dispatch(std::mem::take(&mut tasks)))));
        }
        perform(step);
    }
    if !tasks.is_empty() {
        perform(EffectStep::Pool(Box::new(PoolInput::Dispatch(tasks))));
    }
}

/// A write to the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JournalWrite {
    /// Append a record.
    Append(Bytes),
    /// Replace the journal by a snapshot.
    Compact(Bytes),
}

/// Writes, and the effects that may happen once they are durable.
#[derive(Debug)]
pub struct EffectBatch<C, A> {
    /// Nothing if the process has nothing to record.
    pub journal: Option<JournalWrite>,
    /// Changes of the result cache, durable not later than the journal.
    pub cache: Vec<CacheWrite>,
    /// Changes of the memo, in order. They may be lost.
    pub memo: Vec<MemoWrite>,
    /// Effects, in order.
    pub effects: Vec<ProcessEffect<C, A>>,
}
