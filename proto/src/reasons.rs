//! Sentences for people, made from the typed reasons of the wire. Programs decide by the types, never by these texts.

use std::fmt;

use xavantes_model::digest::Digest;

use crate::v1::{
    FetchFailure, HeldReason, HolderFailure, ImpairmentReason, RefusalReason, Requirement, ReuseReason, StallReason,
    WaitReason, held_reason, holder_failure, impairment_reason, refusal_reason, requirement, reuse_reason,
    stall_reason, wait_reason,
};
use crate::{MAX_PAYLOAD_BYTES, v1};

const MIB: f64 = (1 << 20) as f64;

/// Builds the message of each kind of reason from the kind alone.
macro_rules! from_kind {
    ($($reason:ident, $kind:path;)*) => {
        $(impl From<$kind> for $reason {
            fn from(kind: $kind) -> Self {
                Self { kind: Some(kind) }
            }
        })*
    };
}

from_kind! {
    Requirement, requirement::Kind;
    WaitReason, wait_reason::Kind;
    StallReason, stall_reason::Kind;
    ImpairmentReason, impairment_reason::Kind;
    HeldReason, held_reason::Kind;
    RefusalReason, refusal_reason::Kind;
    ReuseReason, reuse_reason::Kind;
}

/// Completes "no connected worker …".
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use requirement::Kind;
        match &self.kind {
            Some(Kind::Interpreter(language)) => write!(f, "has an interpreter for {language:?}"),
            Some(Kind::Tag(tag)) => write!(f, "is tagged {tag:?}"),
            Some(Kind::Containers(_)) => write!(f, "runs containers"),
            Some(Kind::Gpus(count)) => write!(f, "has {count} GPUs"),
            Some(Kind::MemoryBytes(bytes)) => write!(f, "has {:.1} MiB of memory", *bytes as f64 / MIB),
            Some(Kind::Slots(count)) => write!(f, "has {count} slots"),
            None => write!(f, "meets a requirement that this version does not know"),
        }
    }
}

impl WaitReason {
    /// No worker that is connected now could ever run it: somebody must add one.
    pub fn needs_other_workers(&self) -> bool {
        matches!(self.kind, Some(wait_reason::Kind::NoWorker(_) | wait_reason::Kind::Unmet(_)))
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use wait_reason::Kind;
        match &self.kind {
            Some(Kind::NoWorker(_)) => write!(f, "no worker is connected"),
            Some(Kind::WorkersBusy(_)) => write!(f, "all workers that could run it are busy"),
            Some(Kind::Unmet(requirement)) => write!(f, "no connected worker {requirement}"),
            Some(Kind::CoordinatorSilentMs(ms)) => {
                write!(f, "its coordinator has not been heard of for {} s", ms / 1000)
            }
            Some(Kind::CoordinatorFull(size)) => write_full(f, size),
            Some(Kind::Impaired(worker)) => {
                let reason = worker.reason.clone().unwrap_or_default();
                write!(f, "the workers that could run it take no work: on {}, {reason}", worker.node)
            }
            Some(Kind::Siblings(siblings)) => write_siblings(f, siblings),
            Some(Kind::Room(_)) => write!(f, "it begins when there is room for one more: others must end first"),
            Some(Kind::RetryInMs(ms)) => write!(f, "its next attempt begins in {:.1} s", *ms as f64 / 1000.0),
            Some(Kind::Paused(path)) => write!(f, "{path} is paused; xavantes resume {path} continues it"),
            Some(Kind::WorkerSilent(worker)) => write!(
                f,
                "its worker {} has not been heard of for {} s; after {} s another worker runs it",
                worker.node,
                worker.silent_ms / 1000,
                worker.lost_after_ms / 1000
            ),
            Some(Kind::Placing(_)) => write!(f, "its coordinator looks for another coordinator that runs it"),
            Some(Kind::Recovering(_)) => write!(f, "its coordinator asks the workers which of them has it"),
            Some(Kind::Preparing(_)) => write!(f, "its coordinator records it, and then looks for a worker"),
            Some(Kind::SearchingCache(_)) => write!(f, "its coordinator looks for a result in the cache"),
            Some(Kind::RestoringFiles(_)) => {
                write!(f, "its coordinator makes files again that it needs and that are lost")
            }
            None => write!(f, "it waits for a reason that this version does not know"),
        }
    }
}

impl fmt::Display for StallReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use stall_reason::Kind;
        match &self.kind {
            Some(Kind::RepositoryUnavailable(error)) => write!(f, "the repository cannot write: {error}"),
            Some(Kind::Unreadable(error)) => write!(f, "the process cannot be read: {error}"),
            Some(Kind::Held(reason)) => write!(f, "held: {reason}"),
            Some(Kind::CoordinatorFull(size)) => write_full(f, size),
            None => write!(f, "the process stands still for a reason that this version does not know"),
        }
    }
}

fn write_siblings(f: &mut fmt::Formatter<'_>, v1::Siblings { names, more }: &v1::Siblings) -> fmt::Result {
    write!(f, "{}", names.join(", "))?;
    if *more > 0 {
        write!(f, " and {more} more")?;
    }
    write!(f, " must end first")
}

fn write_full(f: &mut fmt::Formatter<'_>, v1::SizeOverLimit { bytes, limit_bytes }: &v1::SizeOverLimit) -> fmt::Result {
    let (size, limit) = (*bytes as f64 / MIB, *limit_bytes as f64 / MIB);
    write!(f, "the processes of its coordinator take {size:.1} MiB, and --processes-mib allows {limit:.1} MiB")
}

impl fmt::Display for ImpairmentReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use impairment_reason::Kind;
        match &self.kind {
            Some(Kind::AnswersUnwritable(error)) => write!(f, "the answers of activities cannot be written: {error}"),
            Some(Kind::AnswersUnacknowledged(backlog)) => write!(
                f,
                "the coordinator has not recorded {} answers of {:.1} MiB together",
                backlog.answers,
                backlog.bytes as f64 / MIB
            ),
            None => write!(f, "the node takes no work for a reason that this version does not know"),
        }
    }
}

impl StallReason {
    /// The process is held for this reason.
    pub fn held(&self) -> Option<&HeldReason> {
        match &self.kind {
            Some(stall_reason::Kind::Held(reason)) => Some(reason),
            _ => None,
        }
    }
}

impl fmt::Display for HeldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use held_reason::Kind;
        match &self.kind {
            Some(Kind::Damaged(error)) => write!(f, "{error}"),
            Some(Kind::Unreadable(what)) => write!(f, "{what}"),
            Some(Kind::OverBudget(size)) => write!(
                f,
                "it takes {:.1} MiB, and --process-mib allows {:.1} MiB; raise that setting, then resume the process",
                size.bytes as f64 / MIB,
                size.limit_bytes as f64 / MIB
            ),
            Some(Kind::CrashedOwners(count)) => {
                write!(f, "{count} coordinators in a row ended soon after they continued it")
            }
            Some(Kind::InternalError(error)) => write!(f, "an error in the coordinator: {error}"),
            None => write!(f, "for a reason that this version does not know"),
        }
    }
}

impl fmt::Display for RefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use refusal_reason::Kind;
        match &self.kind {
            Some(Kind::NoRoom(_)) => write!(f, "all slots of the node are taken"),
            Some(Kind::Draining(_)) => write!(f, "the node is draining"),
            Some(Kind::Recalled(_)) => write!(f, "the coordinator recalled it"),
            Some(Kind::StillStopping(_)) => write!(f, "the node is still stopping an earlier attempt of that name"),
            Some(Kind::UnknownProgram(_)) => write!(f, "the node does not know the program"),
            Some(Kind::InvalidJob(problem)) => write!(f, "the job is invalid: {problem}"),
            Some(Kind::Unmet(requirement)) => write!(f, "it needs a worker that {requirement}"),
            Some(Kind::GroupNotAccepted(_)) => write!(f, "the group takes no work from this group"),
            Some(Kind::NoCoordinator(_)) => write!(f, "no other coordinator is known"),
            Some(Kind::CoordinatorUnreachable(_)) => write!(f, "the other coordinator cannot be reached"),
            Some(Kind::TakenElsewhere(_)) => write!(f, "another coordinator has it"),
            Some(Kind::NotRecorded(error)) => write!(f, "the subtree could not be recorded: {error}"),
            Some(Kind::TooLargeBytes(size)) => {
                let (size, limit) = (*size as f64 / MIB, MAX_PAYLOAD_BYTES >> 20);
                write!(f, "the variables of the subtree take {size:.1} MiB; at most {limit} MiB can be sent")
            }
            Some(Kind::Impaired(reason)) => write!(f, "the node takes no work for now: {reason}"),
            None => write!(f, "the node gave a reason that this version does not know"),
        }
    }
}

impl v1::Refusal {
    /// The node may take the attempt later.
    pub fn for_now(reason: refusal_reason::Kind) -> Self {
        Self { reason: Some(reason.into()), permanent: false }
    }

    /// The node never takes the attempt.
    pub fn permanent(reason: refusal_reason::Kind) -> Self {
        Self { reason: Some(reason.into()), permanent: true }
    }
}

impl fmt::Display for FetchFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Digest::from_bytes(&self.digest).map_or_else(|| "the file".into(), |digest| digest.short());
        if self.holders.is_empty() {
            return write!(f, "{name} cannot be fetched: no node is known to have it");
        }
        write!(f, "{name} cannot be fetched: ")?;
        write_holders(f, &self.holders)
    }
}

fn write_holders(f: &mut fmt::Formatter<'_>, holders: &[HolderFailure]) -> fmt::Result {
    for (at, holder) in holders.iter().enumerate() {
        if at > 0 {
            write!(f, "; ")?;
        }
        write!(f, "{holder}")?;
    }
    Ok(())
}

impl fmt::Display for HolderFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use holder_failure::Kind;
        let through = if self.relay { "through " } else { "" };
        match &self.kind {
            Some(Kind::Missing(_)) => write!(f, "{through}{} does not have it", self.address),
            Some(Kind::Damaged(_)) => write!(f, "{through}{}: its copy is damaged", self.address),
            Some(Kind::Unreachable(_)) => write!(f, "{} cannot be reached", self.address),
            Some(Kind::Relayed(failure)) if failure.holders.is_empty() => {
                write!(f, "{through}{}: no node is known to have it", self.address)
            }
            Some(Kind::Relayed(failure)) => {
                write!(f, "{through}{}: ", self.address)?;
                write_holders(f, &failure.holders)
            }
            Some(Kind::Error(error)) => write!(f, "{through}{}: {error}", self.address),
            None => write!(f, "{through}{} failed", self.address),
        }
    }
}
