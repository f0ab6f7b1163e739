//! Users that steer a running process: cancel, pause, resume and retry.

use xavantes_model::script::Sandbox;

use crate::command::Command;
use crate::element_id::ElementId;
use crate::engine::{AgendaItem, Engine};
use crate::event::Event;
use crate::input::Action;
use crate::outcome::StopReason;
use crate::rejection::Rejection;
use crate::state::element_path::PathTarget;
use crate::state::instance::Phase;
use crate::step_output::StepOutput;

impl Engine {
    pub(crate) fn on_steered(
        &mut self,
        sandbox: &mut Sandbox,
        path: &str,
        action: Action,
        out: &mut StepOutput,
    ) -> Result<(), Rejection> {
        if self.state.ended.is_some() {
            return Err(Rejection::Ended);
        }
        let program = self.program.clone();
        match (self.state.find(&program, path)?, action) {
            (PathTarget::Live(id), Action::Cancel) => self.on_cancel(id, path, out),
            (PathTarget::Live(id), Action::Pause) => self.on_pause(id, path, out),
            (PathTarget::Live(id), Action::Resume) => self.on_resume(id, path, out),
            (PathTarget::Live(id), Action::Retry) => self.on_retry(sandbox, id, path, out),
            (PathTarget::Live(id), Action::Set { key, value }) => self.on_set_bound(id, path, &key, &value, out),
            (PathTarget::Absent { scope, element }, Action::Set { key, value }) => {
                self.on_set_parameter(scope, element, path, &key, &value, out)
            }
            (PathTarget::Absent { .. }, _) => Err(Rejection::no_such_element(format!("{path} has ended or not begun"))),
        }
    }

    /// Cancels an element. A second cancel also cancels every `FINALLY` that runs in it.
    fn on_cancel(&mut self, id: ElementId, path: &str, out: &mut StepOutput) -> Result<(), Rejection> {
        let Some(instance) = self.state.instances.get(id) else { return Err(Rejection::Ended) };
        let asked = instance.is_cancelled()
            || matches!(&instance.phase, Phase::Outstanding(attempt) if attempt.stop == Some(StopReason::Cancelled));
        if !asked {
            self.cancel(id, out);
            return Ok(());
        }
        if instance.delegated {
            // Its FINALLY runs on the other coordinator.
            return Err(Rejection::Delegated { element: id, attempt: instance.attempts });
        }
        let handlers: Vec<ElementId> = self.subtree(id).into_iter().filter_map(|id| self.finally_of(id)).collect();
        if handlers.is_empty() {
            return Err(Rejection::not_possible(format!("{path} is being cancelled already")));
        }
        handlers.into_iter().for_each(|handler| self.cancel(handler, out));
        Ok(())
    }

    /// The running `FINALLY` of an element, unless it is being cancelled too.
    fn finally_of(&self, id: ElementId) -> Option<ElementId> {
        let instance = self.state.instances.get(id)?;
        let handler = instance.handler.filter(|_| matches!(instance.phase, Phase::Finishing { .. }))?;
        self.state.instances.get(handler).filter(|handler| !handler.is_cancelled()).map(|_| handler)
    }

    fn on_pause(&mut self, id: ElementId, path: &str, out: &mut StepOutput) -> Result<(), Rejection> {
        let Some(instance) = self.state.instances.get(id) else { return Err(Rejection::Ended) };
        if instance.paused.is_some() {
            return Err(Rejection::not_possible(format!("{path} is paused already")));
        }
        let running: Vec<ElementId> = self.subtree(id).into_iter().filter(|id| !self.is_paused(*id)).collect();
        self.emit(out, Event::Paused { id, at: self.now });
        self.pause_outstanding(&running, true, out);
        Ok(())
    }

    fn on_resume(&mut self, id: ElementId, path: &str, out: &mut StepOutput) -> Result<(), Rejection> {
        let since = self.state.instances.get(id).and_then(|instance| instance.paused);
        let Some(since) = since else { return Err(Rejection::not_possible(format!("{path} is not paused"))) };
        // The resume of an outer pause adds the time that both pauses cover.
        let mut until = self.now;
        let mut next = self.state.instances.get(id).and_then(|instance| instance.parent);
        while let Some(instance) = next.and_then(|id| self.state.instances.get(id)) {
            until = instance.paused.map_or(until, |outer| until.min(outer));
            next = instance.parent;
        }
        self.emit(out, Event::Resumed { id, shift: until.0.saturating_sub(since.0) });
        self.wake(id, out);
        Ok(())
    }

    /// Lets everything in an element go on after a pause, except what another pause still stops.
    pub(crate) fn wake(&mut self, id: ElementId, out: &mut StepOutput) {
        let awake: Vec<ElementId> = self.subtree(id).into_iter().filter(|id| !self.is_paused(*id)).collect();
        self.pause_outstanding(&awake, false, out);
        for id in awake {
            // A timer that fired during the pause had no effect; set it again.
            self.update_timer(id, None);
            self.agenda.push(AgendaItem::ChildEnded(id));
            self.stops.push(id);
        }
    }

    /// The element and all elements in it.
    fn subtree(&self, id: ElementId) -> Vec<ElementId> {
        let mut all = vec![id];
        let mut next = 0;
        while let Some(id) = all.get(next).copied() {
            all.extend(self.state.instances.get(id).into_iter().flat_map(|instance| instance.children()));
            next += 1;
        }
        all
    }

    /// Pauses or resumes the outstanding ones of some elements.
    fn pause_outstanding(&self, elements: &[ElementId], paused: bool, out: &mut StepOutput) {
        for id in elements {
            if let Some(instance) = self.state.instances.get(*id)
                && matches!(instance.phase, Phase::Outstanding(_))
            {
                out.commands.push(Command::Pause { element: *id, attempt: instance.attempts, paused });
            }
        }
    }

    /// Lets an ended process go on with everything that failed or was cancelled.
    pub(crate) fn on_reopened(&mut self, path: &str, out: &mut StepOutput) -> Result<(), Rejection> {
        self.state.check_unfinished(&self.program, path)?;
        self.emit(out, Event::Reopened { at: self.now });
        self.examine_all();
        Ok(())
    }

    /// Begins a new try. The current one, if it runs, is stopped first.
    /// Whether a retry of the element at a path stops a try that has begun.
    pub fn retry_restarts(&self, path: &str) -> bool {
        let instance = self.find(path).ok().flatten().and_then(|id| self.state.instances.get(id));
        instance.is_some_and(|instance| !matches!(instance.phase, Phase::Waiting { .. } | Phase::Held(_)))
    }

    fn on_retry(
        &mut self,
        sandbox: &mut Sandbox,
        id: ElementId,
        path: &str,
        out: &mut StepOutput,
    ) -> Result<(), Rejection> {
        if self.is_paused(id) {
            return Err(Rejection::not_possible(format!("{path} is paused: resume it first")));
        }
        let Some(instance) = self.state.instances.get(id) else { return Err(Rejection::Ended) };
        match &instance.phase {
            Phase::Waiting { .. } | Phase::Held(_) => self.restart(sandbox, id, out),
            Phase::Outstanding(attempt) if attempt.stop.is_none() => {
                let attempt = instance.attempts;
                self.emit(out, Event::Stopping { id, stop: StopReason::Restart });
                out.commands.push(Command::Cancel { element: id, attempt });
            }
            Phase::Ready => {
                return Err(Rejection::not_possible(format!("{path} waits for a worker: there is no try to repeat")));
            }
            Phase::Outstanding(_) | Phase::Stopping(_) | Phase::Finishing { .. } => {
                return Err(Rejection::not_possible(format!("{path} is ending already")));
            }
            // A user who means a part of the process must not lose the rest.
            _ if self.state.root == Some(id) => {
                return Err(Rejection::not_possible(format!(
                    "{path} is running: `retry` is for an element of it, or for a process that ended as failed or cancelled; \
                     `cancel {path}` ends it, and `retry {path}` then goes on with what has not completed"
                )));
            }
            _ => self.stop(id, StopReason::Restart, out),
        }
        Ok(())
    }
}
