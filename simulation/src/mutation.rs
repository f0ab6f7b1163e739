//! Bugs that are planted in the shell around the pure cores, to see that the simulation finds them.

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutation {
    /// A coordinator acknowledges submissions, answers and steering before they are durable.
    AcknowledgeBeforeFlush,
    /// A coordinator does everything before it is durable why.
    ReleaseBeforeFlush,
    /// A coordinator takes an answer to any attempt of an element for one to the last.
    ForgetAttemptNumber,
    /// A coordinator goes on with processes that another one has.
    AdoptTwice,
    /// Workers are not asked what they have of a process that was recovered.
    SkipClaims,
    /// The repository takes what anybody writes, and tells nobody what was lost.
    NoFencing,
    /// Workers keep no answers.
    AnswersNotKept,
    /// Workers send answers before they are kept.
    SendBeforeDurable,
    /// A coordinator acknowledges answers of workers as they arrive.
    AckUnrecorded,
    /// A coordinator acknowledges answers of subtrees as they arrive.
    ParentAcksEarly,
    /// Some steering is acknowledged and forgotten.
    LoseSteering,
    /// Attempts of a recovered process are lost without a question.
    GiveUpAtOnce,
    /// Orders of a former stream count.
    OldStreamOrders,
}

impl Mutation {
    /// All, with their names.
    pub const ALL: [(&'static str, Mutation); 13] = [
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
    ];

    /// The one of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, mutation)| *mutation)
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, mutation)| *mutation == self).map_or("", |(name, _)| name)
    }
}
