//! How a command ends, as scripts see it.

/// Exit codes of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Success = 0,
    /// The process failed.
    Failed = 1,
    /// Wrong usage or a wrong definition.
    Usage = 2,
    /// The grid cannot be reached.
    Unreachable = 3,
    Cancelled = 4,
    TimedOut = 124,
    /// The user ended the command with Ctrl-C, and nothing else.
    Interrupted = 130,
}

impl Exit {
    /// This code, or the other one if this is success.
    pub(crate) fn or(self, other: Exit) -> Exit {
        if self == Exit::Success { other } else { self }
    }
}
