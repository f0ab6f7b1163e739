//! Bugs that tests plant around the pure cores, to see that the simulation finds them.

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// A coordinator acknowledges submissions, answers and steering before they are durable.
    AcknowledgeBeforeFlush,
    /// A coordinator carries out effects before their reason is durable.
    ReleaseBeforeFlush,
    /// A coordinator takes an answer to any attempt of an element for an answer to the last attempt.
    ForgetAttemptNumber,
    /// A coordinator takes over processes whose owner has a valid lease.
    AdoptTwice,
    /// Workers ignore the claims of a coordinator that recovered a process.
    SkipClaims,
    /// The repository accepts writes of coordinators that do not own the process, and reports no loss.
    NoFencing,
    /// Workers do not write answers to their disks.
    AnswersNotKept,
    /// Workers send answers before they are on their disks.
    SendBeforeDurable,
    /// A coordinator acknowledges answers of workers as they arrive.
    AckUnrecorded,
    /// A coordinator acknowledges answers of subtrees as they arrive.
    ParentAcksEarly,
    /// A coordinator acknowledges some steering and forgets it.
    LoseSteering,
    /// A coordinator takes all attempts of a recovered process for lost.
    GiveUpAtOnce,
    /// Workers carry out orders that arrive by a former stream.
    OldStreamOrders,
    /// A coordinator gives attempts to borrowed workers whose names it has not stored.
    LeaseNotStored,
    /// A draining worker leaves before its answers are on its disk.
    LeaveBeforeDurable,
    /// Workers ignore time-outs.
    IgnoreTimeouts,
    /// A coordinator acknowledges `set` and forgets it.
    LoseSet,
    /// A coordinator retries held elements when it recovers a process.
    RetryHeld,
    /// A coordinator recovers processes from damaged journals.
    RecoverDamaged,
    /// A coordinator waits without end for workers that do nothing with their attempts.
    EndlessPatience,
    /// A coordinator gives no budget to processes that it recovers.
    RecoverWithoutBudget,
    /// A coordinator runs recovered processes that exceed its budget.
    RecoverOverBudget,
    /// A coordinator that is full begins new processes.
    IgnoreMemory,
    /// Workers keep attempts that a coordinator recalls.
    IgnoreRecalls,
}

impl Mutation {
    /// All bugs, with their names.
    pub const ALL: [(&'static str, Mutation); 24] = [
        ("acknowledge-before-flush", Mutation::AcknowledgeBeforeFlush),
        ("release-before-flush", Mutation::ReleaseBeforeFlush),
        ("forget-attempt-number", Mutation::ForgetAttemptNumber),
        ("adopt-twice", Mutation::AdoptTwice),
        ("skip-claims", Mutation::SkipClaims),
        ("no-fencing", Mutation::NoFencing),
        ("answers-not-kept", Mutation::AnswersNotKept),
        ("send-before-durable", Mutation::SendBeforeDurable),
        ("ack-unrecorded", Mutation::AckUnrecorded),
        ("parent-acks-early", Mutation::ParentAcksEarly),
        ("lose-steering", Mutation::LoseSteering),
        ("give-up-at-once", Mutation::GiveUpAtOnce),
        ("old-stream-orders", Mutation::OldStreamOrders),
        ("lease-not-stored", Mutation::LeaseNotStored),
        ("leave-before-durable", Mutation::LeaveBeforeDurable),
        ("ignore-timeouts", Mutation::IgnoreTimeouts),
        ("lose-set", Mutation::LoseSet),
        ("retry-held", Mutation::RetryHeld),
        ("recover-damaged", Mutation::RecoverDamaged),
        ("endless-patience", Mutation::EndlessPatience),
        ("recover-without-budget", Mutation::RecoverWithoutBudget),
        ("recover-over-budget", Mutation::RecoverOverBudget),
        ("ignore-memory", Mutation::IgnoreMemory),
        ("ignore-recalls", Mutation::IgnoreRecalls),
    ];

    /// The bug of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, mutation)| *mutation)
    }

    /// The name of the bug.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, mutation)| *mutation == self).map_or("", |(name, _)| name)
    }
}
