//! The effect of each event on the state. Only this module changes the state, live and in replay, so that the journal and
//! the state cannot disagree.
//!
//! | file | is about |
//! |---|---|
//! | `creation` | the root and every element in it |
//! | `attempts` | attempts, their calls of shared objects, failed tries |
//! | `code_effects` | the effects of `PRE_CODE` and `POST_CODE` |
//! | `ending` | ended elements: their results, and the element around them |
//! | `steering` | pause, resume and `set` |
//! | `reopening` | ended processes that go on |

mod attempts;
mod code_effects;
mod creation;
mod ending;
mod reopening;
mod steering;

use xavantes_model::definition::{DefinitionNode, DefinitionNodeId, Program};

use crate::element_id::ElementId;
use crate::event::Event;
use crate::outcome::{Outcome, StopReason};
use crate::state::EngineState;
use crate::state::body::Body;
use crate::state::instance::{Instance, Phase, Reached, has_bounds};
use crate::state::size::bytes_of;

/// An event does not fit the state: the journal belongs to another process, or is incomplete.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the event does not fit the state: {0}")]
pub struct ApplyError(pub String);

impl ApplyError {
    fn new(problem: impl Into<String>) -> Self {
        ApplyError(problem.into())
    }

    fn no_element(id: ElementId) -> Self {
        ApplyError(format!("no element {id}"))
    }
}

impl EngineState {
    /// Applies an event.
    pub fn apply(&mut self, program: &Program, event: &Event) -> Result<(), ApplyError> {
        match event {
            Event::Started { process, root_process, root, variables, captured, call_depth } => {
                self.on_started(program, process, *root_process, *root, variables, captured, *call_depth)?;
            }
            Event::Entered { id, parent, site, ordinal, variables, deadline, delegated } => {
                self.on_entered(program, *id, *parent, *site, *ordinal, variables, *deadline, *delegated)?;
            }
            Event::Prepared { id, outputs } => {
                self.apply_outputs(*id, outputs)?;
                let instance = self.instance(*id)?;
                let node = program.node(instance.process as usize, instance.node);
                (instance.phase, instance.reached) = match has_bounds(node) {
                    true => (Phase::Prepared, Reached::Prepared),
                    false => (Phase::Running, Reached::Began),
                };
            }
            Event::Began { id, bounds } => self.on_began(*id, bounds)?,
            Event::Closed { id } => {
                if let Body::Loop(body) = &mut self.instance(*id)?.body {
                    body.closed = true;
                }
            }
            Event::Posted { id, outputs } => {
                self.apply_outputs(*id, outputs)?;
                self.instance(*id)?.phase = Phase::Posted;
            }
            Event::Sent { id, attempt, deadline } => self.on_sent(*id, *attempt, *deadline)?,
            Event::Called { id, caller, sequence, acknowledged, call } => {
                self.on_called(*id, *caller, *sequence, *acknowledged, call)?;
            }
            Event::CallRepeated { id, caller, sequence, acknowledged, call } => {
                self.on_call_repeated(*id, *caller, *sequence, *acknowledged, call)?;
            }
            Event::Lost { id } => self.on_lost(*id)?,
            Event::Recalled { id, deadline } => self.on_recalled(program, *id, *deadline)?,
            Event::Stopping { id, stop } => self.on_stopping(*id, stop)?,
            Event::Catching { id, error } => {
                let instance = self.instance(*id)?;
                instance.phase = Phase::Catching(error.clone());
                instance.handled = None;
            }
            Event::Finishing { id, outcome, collected } => {
                let removed = self.instance(*id)?.phase.bytes();
                self.resize(bytes_of(collected), removed);
                let instance = self.instance(*id)?;
                instance.handled = None;
                instance.phase = Phase::Finishing { outcome: outcome.clone(), collected: collected.clone() };
                if *outcome == Outcome::Completed {
                    instance.reached = Reached::End;
                    // CATCH has handled their failure.
                    self.forget_unfinished(*id)?;
                }
            }
            Event::Waiting { id, until, error } => self.on_waiting(*id, *until, error)?,
            Event::Held { id, error } => self.on_held(*id, error)?,
            Event::Restarted { id, variables, deadline } => self.on_restarted(program, *id, variables, *deadline)?,
            Event::Ended { id, outcome, results, collected } => {
                self.on_ended(program, *id, outcome, results, collected)?;
            }
            Event::Paused { id, at } => {
                self.instance(*id)?.paused = Some(*at);
                self.counts.paused += 1;
            }
            Event::Resumed { id, shift } => self.on_resumed(*id, *shift)?,
            Event::Changed { id, change } => self.on_changed(*id, change)?,
            Event::Clock { at } => self.history.set_clock(*at),
            Event::Reopened { at } => self.on_reopened(program, *at)?,
            Event::Steered { path, what, by } => self.history.on_steered(path, what, by),
            Event::CallRefused { id, caller, sequence, acknowledged, message } => {
                self.on_call_answered(*id, *caller, *sequence, *acknowledged, Err(message.clone()))?;
            }
        }
        Ok(())
    }

    #[inline]
    fn instance(&mut self, id: ElementId) -> Result<&mut Instance, ApplyError> {
        self.instances.get_mut(id).ok_or_else(|| ApplyError::no_element(id))
    }

    fn on_stopping(&mut self, id: ElementId, stop: &StopReason) -> Result<(), ApplyError> {
        let instance = self.instance(id)?;
        if *stop == StopReason::Exit {
            instance.reached = Reached::Exit;
        }
        if !matches!(instance.phase, Phase::Outstanding(_) | Phase::Finishing { .. }) {
            self.uncount_phase(id)?;
        }
        match &mut self.instance(id)?.phase {
            Phase::Outstanding(attempt) => attempt.stop = Some(stop.clone()),
            // FINALLY runs to its end; only the outcome after it changes.
            Phase::Finishing { outcome, .. } => {
                *outcome = match stop {
                    StopReason::Restart => Outcome::Restart,
                    _ => Outcome::Cancelled,
                }
            }
            phase => *phase = Phase::Stopping(stop.clone()),
        }
        Ok(())
    }

    /// Removes an element from the count that its phase belongs to, and the values of the phase from the size of the
    /// state, because it leaves that phase.
    #[inline]
    fn uncount_phase(&mut self, id: ElementId) -> Result<(), ApplyError> {
        let removed = self.instance(id)?.phase.bytes();
        self.resize(0, removed);
        let instance = self.instance(id)?;
        match instance.phase {
            Phase::Outstanding(_) if instance.delegated => self.counts.delegated -= 1,
            Phase::Outstanding(_) => self.counts.outstanding -= 1,
            Phase::Ready => self.counts.ready -= 1,
            Phase::Waiting { .. } => self.counts.delayed -= 1,
            Phase::Held(_) => self.counts.held -= 1,
            _ => {}
        }
        Ok(())
    }
}

/// A node that a journal names, which a wrong journal may get wrong.
#[inline]
fn node_of(program: &Program, process: u32, node: DefinitionNodeId) -> Result<&DefinitionNode, ApplyError> {
    program
        .processes
        .get(process as usize)
        .and_then(|process| process.nodes.get(node.index()))
        .ok_or_else(|| ApplyError::new("no such node in the definition"))
}
