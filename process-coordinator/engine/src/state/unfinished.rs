//! Unfinished elements: they failed or were cancelled, and the element around them failed or was cancelled with them. The
//! state keeps them as they were, so that a user can reopen the process. They go when the element around them completes
//! after all, begins anew, or ends in a way that does not make its own surroundings fail.
//!
//! They are few: a controller stops at its first failure, so there are not many more than elements were live then.

use serde::{Deserialize, Serialize};
use xavantes_model::definition::{DefinitionNode, OnFailure, Program};

use crate::outcome::{Outcome, StopReason};
use crate::state::body::Body;
use crate::state::instance::{Instance, Phase, Reached};

/// An ended element with which a reopened process goes on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Unfinished {
    /// The element as it was at its end. Its phase says nothing.
    pub instance: Instance,
    /// It failed; otherwise it was cancelled.
    pub failed: bool,
    pub resumption: Resumption,
}

/// Where a reopened element goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Resumption {
    /// It begins a new try: an activity, a delegated element, or an element in which nothing had begun.
    Anew,
    /// Its body goes on.
    Body,
    /// `POST_CODE` comes next.
    PostCode,
    /// `FINALLY` comes next.
    Finally,
    /// The evaluation of its bounds comes next.
    Bounds,
}

impl Resumption {
    /// Where an element goes on that ended in this state. `node` is the node that it runs.
    pub fn of(instance: &Instance, node: &DefinitionNode) -> Self {
        let rests = matches!(instance.phase, Phase::Waiting { .. } | Phase::Held(_));
        match instance.reached {
            _ if rests || matches!(instance.body, Body::Leaf) => Resumption::Anew,
            Reached::Exit => Resumption::PostCode,
            Reached::End => Resumption::Finally,
            Reached::Prepared => Resumption::Bounds,
            Reached::Began => Resumption::Body,
            Reached::Body if instance.unfinished.is_empty() && instance.body == Body::new(node) => Resumption::Anew,
            Reached::Body => Resumption::Body,
        }
    }
}

/// Does the element `around` keep an element in its body that ended like this? It does if it fails because of that element,
/// or if the element was cancelled because `around` stops.
pub(crate) fn is_kept(program: &Program, around: &Instance, site: &DefinitionNode, outcome: &Outcome) -> bool {
    let stops = matches!(around.phase, Phase::Stopping(StopReason::Failed(_) | StopReason::Cancelled));
    let continues = site.policy.on_failure == OnFailure::Continue;
    around.reached.is_in_body()
        && match outcome {
            Outcome::Failed(_) => !continues,
            Outcome::Cancelled => {
                let parallel = program.node(around.process as usize, around.node).kind.parallel().is_some();
                stops || (!parallel && !continues)
            }
            Outcome::Completed | Outcome::Restart => false,
        }
}
