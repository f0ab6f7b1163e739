//! A report of a peer, sorted by who gets which part of it. Pure, so that the simulation sorts reports as the coordinator does.

use std::sync::Arc;

use xavantes_model::digest::Digest;
use xavantes_proto::message_limits::{bound_impairment, bound_refusal};
use xavantes_proto::{MAX_TEXT_BYTES, Message, v1};

use crate::engine_messages::stored_digests;
use crate::process::driver_input::{AnswerExtras, ProcessInput};
use crate::workers::pool::pool_input::PoolInput;
use xavantes_proto::AttemptKey;

/// The parts of a report. The pool and the processes get them in the order of these fields. For `C` and `A` see
/// [`ProcessInput`].
#[derive(Debug)]
pub struct PeerReport<C, A> {
    /// First report of a stream: the peer has connected.
    pub hello: Option<v1::WorkerHello>,
    /// Lines that activities printed. They go before the answers, because an answer removes the element that printed.
    pub printed: Vec<v1::Printed>,
    /// Inputs of the pool. The pool learns of new files before the processes, which may dispatch tasks for them at once.
    pub pool_inputs: Vec<PoolInput>,
    /// Answers, by process.
    pub answers: Vec<ProcessAnswers<C, A>>,
    /// Calls of shared objects.
    pub calls: Vec<v1::SharedCall>,
}

/// Consecutive answers to attempts of one process.
#[derive(Debug)]
pub struct ProcessAnswers<C, A> {
    /// The process.
    pub process: Arc<str>,
    /// The answers.
    pub inputs: Vec<ProcessInput<C, A>>,
}

impl<C: Clone, A> PeerReport<C, A> {
    /// Sorts a report of a peer that arrived by the connection `from`.
    pub fn sort(peer: &Arc<str>, from: &C, report: v1::WorkReport) -> Self {
        let v1::WorkReport {
            hello,
            known,
            draining,
            running,
            impairment,
            subtrees,
            printed,
            answers: unsorted,
            calls,
            ..
        } = report;
        let mut pool_inputs = Vec::new();
        pool_inputs.extend(known.map(|known| PoolInput::Known(peer.clone(), known)));
        if draining {
            pool_inputs.push(PoolInput::Draining(peer.clone()));
        }
        pool_inputs.extend(impairment.map(|mut it| {
            it.reason.iter_mut().for_each(bound_impairment);
            PoolInput::Impaired(peer.clone(), it.reason)
        }));
        pool_inputs.extend(running.map(|running| PoolInput::Running(peer.clone(), running)));
        if !subtrees.is_empty() {
            let bounded = subtrees.into_iter().map(|it| v1::SubtreeStatus {
                wait_reason: it.wait_reason.filter(|reason| reason.encoded_len() <= MAX_TEXT_BYTES),
                ..it
            });
            pool_inputs.push(PoolInput::Subtrees(peer.clone(), bounded.collect()));
        }
        let mut answered: Vec<AttemptKey> = Vec::with_capacity(unsorted.len());
        let mut answers: Vec<ProcessAnswers<C, A>> = Vec::new();
        let (mut held, mut lacked): (Vec<Digest>, Vec<Digest>) = Default::default();
        for mut answer in unsorted {
            let extras = AnswerExtras::extract(&mut answer);
            let (Some(id), Some(outcome)) = (answer.id, answer.outcome) else { continue };
            let key = match answered.last() {
                // Most reports are about one process: its name is shared.
                Some(last) if *last.process == *id.process => {
                    AttemptKey::new(last.process.clone(), id.element, id.attempt)
                }
                _ => AttemptKey::from(&id),
            };
            if let v1::answer::Outcome::Refused(mut refusal) = outcome {
                bound_refusal(&mut refusal);
                pool_inputs.push(PoolInput::Refused(peer.clone(), key, refusal));
                continue;
            }
            match &outcome {
                v1::answer::Outcome::Completed(completed) => {
                    held.extend(completed.results.iter().flat_map(stored_digests));
                }
                v1::answer::Outcome::Failed(failure) => {
                    lacked.extend(failure.gone.iter().filter_map(|bytes| Digest::from_bytes(bytes)));
                }
                _ => {}
            }
            answered.push(key.clone());
            let process = key.process.clone();
            let input = ProcessInput::Answered { key, outcome, extras, from: Some(from.clone()) };
            match answers.last_mut() {
                Some(last) if last.process == process => last.inputs.push(input),
                _ => answers.push(ProcessAnswers { process, inputs: vec![input] }),
            }
        }
        if !answered.is_empty() {
            pool_inputs.push(PoolInput::Answered(peer.clone(), answered));
        }
        if !held.is_empty() {
            pool_inputs.push(PoolInput::Holds(peer.clone(), held));
        }
        if !lacked.is_empty() {
            pool_inputs.push(PoolInput::Lacks(peer.clone(), lacked));
        }
        Self { hello, printed, pool_inputs, answers, calls }
    }
}

/// The reply to a call of a shared object of a process that has ended.
pub fn reply_ended(ticket: u64) -> v1::SharedReply {
    v1::SharedReply { ticket, result: Some(v1::shared_reply::Result::Error("the process has ended".into())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(process: &str, element: u64, outcome: v1::answer::Outcome) -> v1::Answer {
        let id = v1::AttemptId { process: process.into(), element, attempt: 1 };
        v1::Answer { id: Some(id), outcome: Some(outcome), ..v1::Answer::default() }
    }

    #[test]
    fn texts_of_a_worker_are_shortened() {
        let long = "x".repeat(1 << 20);
        let reason = v1::ImpairmentReason::from(v1::impairment_reason::Kind::AnswersUnwritable(long.clone()));
        let refusal = v1::Refusal::for_now(v1::refusal_reason::Kind::Impaired(reason.clone()));
        let invalid = v1::Refusal::permanent(v1::refusal_reason::Kind::InvalidJob(long));
        let refused = [refusal, invalid].map(v1::answer::Outcome::Refused);
        let report = v1::WorkReport {
            impairment: Some(v1::Impairment { reason: Some(reason) }),
            answers: refused.into_iter().map(|outcome| answer("a", 1, outcome)).collect(),
            ..v1::WorkReport::default()
        };
        let sorted: PeerReport<u8, ()> = PeerReport::sort(&"w".into(), &9, report);
        assert_eq!(sorted.pool_inputs.len(), 3);
        for input in sorted.pool_inputs {
            assert!(format!("{input:?}").len() < 16 << 10, "{input:?}");
        }
    }

    #[test]
    fn processes_get_answers_and_the_pool_gets_refusals_and_the_answered_attempts() {
        let cancelled = || v1::answer::Outcome::Cancelled(v1::Nothing {});
        let refused = v1::answer::Outcome::Refused(v1::Refusal::default());
        let answers = vec![answer("a", 1, cancelled()), answer("a", 2, refused), answer("b", 3, cancelled())];
        let report = v1::WorkReport { answers, draining: true, ..v1::WorkReport::default() };
        let sorted: PeerReport<u8, ()> = PeerReport::sort(&"w".into(), &9, report);
        let processes: Vec<(&str, usize)> =
            sorted.answers.iter().map(|answers| (&*answers.process, answers.inputs.len())).collect();
        assert_eq!(processes, [("a", 1), ("b", 1)]);
        match &sorted.pool_inputs[..] {
            [PoolInput::Draining(_), PoolInput::Refused(_, refused, _), PoolInput::Answered(_, answered)] => {
                assert_eq!((refused.element, answered.len()), (2, 2));
            }
            other => panic!("not the expected inputs: {other:?}"),
        }
    }
}
