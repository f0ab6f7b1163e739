//! Elements that stop before their own end: after a failure, an exit condition, a cancellation or a request for a retry.
//! The engine cancels the elements in them first.

use xavantes_model::script::Sandbox;

use crate::command::Command;
use crate::element_id::ElementId;
use crate::engine::{AgendaItem, Engine};
use crate::event::Event;
use crate::failure::Failure;
use crate::outcome::{Outcome, StopReason};
use crate::state::instance::Phase;
use crate::step_output::StepOutput;

impl Engine {
    /// Fails an element, after the elements in it have been cancelled.
    pub(crate) fn fail(&mut self, id: ElementId, failure: Box<Failure>, out: &mut StepOutput) {
        let failure = self.with_path(id, failure);
        let Some(instance) = self.state.instances.get(id) else { return };
        if instance.has_children() {
            self.stop(id, StopReason::Failed(failure), out);
        } else {
            self.on_body_failed(id, failure, out);
        }
    }

    /// Begins to stop an element.
    pub(crate) fn stop(&mut self, id: ElementId, stop: StopReason, out: &mut StepOutput) {
        self.emit(out, Event::Stopping { id, stop });
        self.agenda.push(AgendaItem::Advance(id));
        self.stops.push(id);
    }

    /// Cancels the elements in a stopping element, unless a pause delays that.
    pub(crate) fn cancel_children(&mut self, id: ElementId, out: &mut StepOutput) {
        let Some(instance) = self.state.instances.get(id) else { return };
        if !matches!(instance.phase, Phase::Stopping(_)) || (self.is_paused(id) && !instance.is_cancelled()) {
            return;
        }
        let children: Vec<ElementId> = instance.children().collect();
        for child in children {
            self.cancel(child, out);
        }
    }

    /// Cancels an element, unless it is being cancelled already.
    pub(crate) fn cancel(&mut self, id: ElementId, out: &mut StepOutput) {
        let Some(instance) = self.state.instances.get(id) else { return };
        match &instance.phase {
            Phase::Outstanding(attempt) => {
                let asked = attempt.stop.is_some();
                if attempt.stop != Some(StopReason::Cancelled) {
                    let attempt = instance.attempts;
                    self.emit(out, Event::Stopping { id, stop: StopReason::Cancelled });
                    if !asked {
                        out.commands.push(Command::Cancel { element: id, attempt });
                    }
                }
            }
            Phase::Ready | Phase::Waiting { .. } | Phase::Held(_) => {
                self.end(id, Outcome::Cancelled, Vec::new(), None, out)
            }
            _ if instance.is_cancelled() => {}
            // FINALLY runs to its end. Pauses around a cancelled element no longer count.
            Phase::Finishing { .. } => {
                self.emit(out, Event::Stopping { id, stop: StopReason::Cancelled });
                if self.state.counts.paused > 0 {
                    self.wake(id, out);
                }
            }
            _ => self.stop(id, StopReason::Cancelled, out),
        }
    }

    /// Ends a stopping element, once no element in it is left.
    pub(crate) fn finish_stopping(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut StepOutput) {
        let Some(instance) = self.state.instances.get(id) else { return };
        let Phase::Stopping(stop) = &instance.phase else { return };
        if instance.has_children() {
            return;
        }
        match stop.clone() {
            StopReason::Exit => self.post(sandbox, id, out),
            StopReason::Cancelled => self.finish(id, Outcome::Cancelled, None, out),
            StopReason::Restart => self.finish(id, Outcome::Restart, None, out),
            StopReason::Failed(failure) => self.on_body_failed(id, failure, out),
        }
    }
}
