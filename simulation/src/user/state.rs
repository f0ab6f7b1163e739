//! Users, and what they know about the processes that they submitted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xavantes_process_coordinator::process::driver_input::Steering;

use crate::coordinator::state::SimDriver;

/// What a user knows about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Belief {
    /// Not requested, or rejected.
    No,
    /// Requested, without an answer.
    Maybe,
    /// Acknowledged.
    Yes,
}

/// A request without an answer.
#[derive(Debug, Clone)]
pub enum PendingRequest {
    Submit,
    Pause,
    Resume,
    /// With the belief before the request.
    Cancel(Belief),
    /// Run the element at this path again, instead of the attempt that ran then.
    Again(Arc<str>, Steering, u32),
    /// Retry the ended process.
    Reopen,
    /// Change the process.
    Set,
    /// Retry the held element at this path, or cancel a held process.
    Rescue(String),
}

/// A process that a user submits.
#[derive(Debug)]
pub struct Submission {
    pub id: Arc<str>,
    pub process_type: &'static str,
    pub n: i64,
    pub group: usize,
    pub acknowledged: bool,
    pub paused: Belief,
    pub cancelled: Belief,
    /// The user has asked to retry the process after its end. It may run again at any time since.
    pub retried: bool,
    /// The user has changed the process.
    pub changed: Belief,
    /// Paths and attempts that a coordinator has agreed to replace.
    pub again: Vec<(Arc<str>, u32)>,
}

/// All users.
#[derive(Debug, Default)]
pub struct Users {
    pub submissions: Vec<Submission>,
    /// Processes that some coordinator held because they exceed its budget: their users cancel them.
    pub held: BTreeSet<Arc<str>>,
    /// Paths of held elements whose last retry got no answer.
    pub unanswered: BTreeSet<String>,
    /// Pending requests by ticket, with the number of the submission.
    pub pending: BTreeMap<u64, (usize, PendingRequest)>,
}

impl Users {
    /// Adds a submission, and gives its number.
    pub fn add(&mut self, process_type: &'static str, n: i64, group: usize) -> usize {
        let id = format!("{process_type}-{}", self.submissions.len()).into();
        let (acknowledged, retried, again) = (false, false, Vec::new());
        let (paused, cancelled, changed) = (Belief::No, Belief::No, Belief::No);
        let submission =
            Submission { id, process_type, n, group, acknowledged, paused, cancelled, retried, changed, again };
        self.submissions.push(submission);
        self.submissions.len() - 1
    }

    /// Checks that a recovered process is in the state that its user knows. Gives the problem.
    pub fn check_recovered(&self, process: &str, driver: &SimDriver) -> Option<String> {
        let case = self.submissions.iter().find(|case| *case.id == *process)?;
        let engine = driver.engine();
        if engine.state().ended().is_some() {
            return None;
        }
        if case.paused == Belief::Yes && engine.state().counts().paused == 0 && case.cancelled == Belief::No {
            return Some(format!("{process} was paused, and is not any more"));
        }
        let lost = case.cancelled == Belief::Yes && !engine.is_cancelled();
        lost.then(|| format!("{process} was cancelled, and is not any more"))
    }
}
