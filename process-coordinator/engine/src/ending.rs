//! How elements end: `POST_CODE`, exits, failure, `CATCH`, `FINALLY`, retries, cancellation.
//!
//! ```text
//! body ──done or exit──▶ POST_CODE ──▶ completed ─┐
//!   └─failed──▶ what runs is cancelled ──▶ CATCH ──┼─▶ FINALLY ──▶ retry, hold, or end
//!   └─cancelled──▶ what runs is cancelled ─────────┘
//! ```

use std::sync::Arc;

use xavantes_model::definition::{Kind, OnFailure, Policy};
use xavantes_model::script::Sandbox;
use xavantes_model::value::Value;

use crate::engine::{Engine, Output, Product, Task};
use crate::event::Event;
use crate::failure::{Failure, FailureKind};
use crate::id::ElementId;
use crate::input::Command;
use crate::state::{Body, Instance, Outcome, Phase, Stop};

impl Instance {
    /// It is being cancelled, or is in its `FINALLY` after that.
    pub(crate) fn is_cancelled(&self) -> bool {
        matches!(&self.phase, Phase::Stopping(Stop::Cancelled) | Phase::Finishing { outcome: Outcome::Cancelled, .. })
    }

    /// Somebody wanted a new try of what was running: no failure of it.
    pub(crate) fn is_restarted(&self) -> bool {
        match &self.phase {
            Phase::Out(out) => out.stop == Some(Stop::Restart),
            Phase::Stopping(stop) => *stop == Stop::Restart,
            Phase::Finishing { outcome, .. } => *outcome == Outcome::Restart,
            _ => false,
        }
    }

    /// A pause holds it and its time-out, unlike an activity that is out.
    pub(crate) fn can_stand_still(&self) -> bool {
        self.delegated || !matches!(self.phase, Phase::Out(_))
    }
}

impl Engine {
    /// The body is done: `POST_CODE`, then completion.
    pub(crate) fn post(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut Output) {
        let program = self.program.clone();
        let Some(instance) = self.state.instances.get(id) else { return };
        let Some(script) = &self.state.node(&program, instance).post_code else {
            return self.complete(sandbox, id, out);
        };
        match self.execute(sandbox, id, script) {
            Ok(outputs) => {
                self.emit(out, Event::Posted { id, outputs });
                self.agenda.push(Task::Advance(id));
            }
            Err(failure) => {
                let failure = self.placed(id, failure);
                self.failed(id, failure, out);
            }
        }
    }

    /// All is done; are the results there?
    pub(crate) fn complete(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut Output) {
        let program = self.program.clone();
        let Some(instance) = self.state.instances.get(id) else { return };
        let node = self.state.node(&program, instance);
        if let Some(missing) = self.missing_out(node, &instance.variables) {
            let message = format!("OUT parameter {missing:?} has no value at the end");
            let failure = Failure::new(FailureKind::Parameter, message).at_line(node.line);
            let failure = self.placed(id, Box::new(failure));
            return self.failed(id, failure, out);
        }
        let collect = instance.parent.and_then(|parent| self.state.instances.get(parent)).and_then(|around| {
            let around = program.node(around.process as usize, around.node);
            // CATCH and FINALLY of a loop are no iterations of it.
            if around.elements.first() == Some(&instance.site) { around.kind.collect() } else { None }
        });
        let collected = match collect.map(|script| self.compute(sandbox, id, script)).transpose() {
            Ok(collected) => collected,
            Err(failure) => {
                let failure = self.placed(id, failure);
                return self.failed(id, failure, out);
            }
        };
        self.finish(id, Outcome::Completed, collected, out);
    }

    /// Something in the element went wrong: what still runs in it is cancelled first.
    pub(crate) fn fail(&mut self, id: ElementId, failure: Box<Failure>, out: &mut Output) {
        let failure = self.placed(id, failure);
        let Some(instance) = self.state.instances.get(id) else { return };
        if instance.has_children() {
            self.stop(id, Stop::Failed(failure), out);
        } else {
            self.failed(id, failure, out);
        }
    }

    /// Winds an element down.
    pub(crate) fn stop(&mut self, id: ElementId, stop: Stop, out: &mut Output) {
        self.emit(out, Event::Stopping { id, stop });
        self.agenda.push(Task::Advance(id));
        self.stops.push(id);
    }

    pub(crate) fn stop_children(&mut self, id: ElementId, out: &mut Output) {
        let Some(instance) = self.state.instances.get(id) else { return };
        if !matches!(instance.phase, Phase::Stopping(_)) || (self.is_paused(id) && !instance.is_cancelled()) {
            return;
        }
        let children: Vec<ElementId> = instance.children().collect();
        for child in children {
            self.cancel(child, out);
        }
    }

    /// Cancels an element, unless that is under way.
    pub(crate) fn cancel(&mut self, id: ElementId, out: &mut Output) {
        let Some(instance) = self.state.instances.get(id) else { return };
        match &instance.phase {
            Phase::Out(attempt) => {
                let asked = attempt.stop.is_some();
                if attempt.stop != Some(Stop::Cancelled) {
                    let attempt = instance.attempts;
                    self.emit(out, Event::Stopping { id, stop: Stop::Cancelled });
                    if !asked {
                        out.commands.push(Command::Cancel { element: id, attempt });
                    }
                }
            }
            Phase::Ready | Phase::Waiting { .. } | Phase::Held(_) => {
                self.end(id, Outcome::Cancelled, Vec::new(), None, out)
            }
            _ if instance.is_cancelled() => {}
            // FINALLY goes on to its end, and a pause further up does not count any more.
            Phase::Finishing { .. } => {
                self.emit(out, Event::Stopping { id, stop: Stop::Cancelled });
                if self.state.counts.paused > 0 {
                    self.wake(id, out);
                }
            }
            _ => self.stop(id, Stop::Cancelled, out),
        }
    }

    /// It winds down, and nothing runs in it any more.
    pub(crate) fn stopped(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut Output) {
        let Some(instance) = self.state.instances.get(id) else { return };
        let Phase::Stopping(stop) = &instance.phase else { return };
        if instance.has_children() {
            return;
        }
        match stop.clone() {
            Stop::Exit => self.post(sandbox, id, out),
            Stop::Cancelled => self.finish(id, Outcome::Cancelled, None, out),
            Stop::Restart => self.finish(id, Outcome::Restart, None, out),
            Stop::Failed(failure) => self.failed(id, failure, out),
        }
    }

    /// It failed and nothing runs in it: `CATCH`, unless that is what failed.
    fn failed(&mut self, id: ElementId, failure: Box<Failure>, out: &mut Output) {
        let Some(instance) = self.state.instances.get(id) else { return };
        if let Phase::Catching(before) = &instance.phase {
            let failure = failure.while_handling(before.clone());
            self.finish(id, Outcome::Failed(failure), None, out);
        } else if self.state.node(&self.program, instance).catch.is_some() {
            self.emit(out, Event::Catching { id, error: failure });
            self.agenda.push(Task::Advance(id));
        } else {
            self.finish(id, Outcome::Failed(failure), None, out);
        }
    }

    pub(crate) fn catch(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut Output) {
        let Some(instance) = self.state.instances.get(id) else { return };
        let Phase::Catching(error) = &instance.phase else { return };
        if instance.handler.is_some() {
            return;
        }
        match &instance.handled {
            None => {
                if let Some(handler) = self.state.node(&self.program, instance).catch {
                    self.enter(sandbox, id, handler, 0, out);
                }
            }
            Some(Outcome::Completed) => self.complete(sandbox, id, out),
            Some(Outcome::Failed(failure)) => {
                let failure = failure.clone();
                self.failed(id, failure, out);
            }
            Some(Outcome::Cancelled | Outcome::Restart) => {
                let error = error.clone();
                self.finish(id, Outcome::Failed(error), None, out);
            }
        }
    }

    /// How it ends is decided; `FINALLY` comes before.
    fn finish(&mut self, id: ElementId, outcome: Outcome, collected: Option<Value>, out: &mut Output) {
        let Some(instance) = self.state.instances.get(id) else { return };
        if self.state.node(&self.program, instance).finally.is_some() {
            self.emit(out, Event::Finishing { id, outcome, collected });
            self.agenda.push(Task::Advance(id));
        } else {
            self.conclude(id, outcome, collected, out);
        }
    }

    pub(crate) fn finalise(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut Output) {
        let Some(instance) = self.state.instances.get(id) else { return };
        let Phase::Finishing { outcome, collected } = &instance.phase else { return };
        if instance.handler.is_some() {
            return;
        }
        match (&instance.handled, outcome) {
            (None, _) => {
                if let Some(handler) = self.state.node(&self.program, instance).finally {
                    self.enter(sandbox, id, handler, 0, out);
                }
            }
            (Some(Outcome::Failed(failure)), Outcome::Completed | Outcome::Failed(_)) => {
                let failure = match outcome {
                    Outcome::Failed(before) => failure.clone().while_handling(before.clone()),
                    _ => failure.clone(),
                };
                self.conclude(id, Outcome::Failed(failure), None, out);
            }
            _ => {
                let (outcome, collected) = (outcome.clone(), collected.clone());
                self.conclude(id, outcome, collected, out);
            }
        }
    }

    /// A try is over: another one, a decision by somebody, or the end.
    pub(crate) fn conclude(&mut self, id: ElementId, outcome: Outcome, collected: Option<Value>, out: &mut Output) {
        let Some(instance) = self.state.instances.get(id) else { return };
        let policy = self.policy(instance);
        match outcome {
            Outcome::Failed(error) if !error.permanent && instance.failures < policy.retries => {
                let until = self.now.after(policy.delay_after(instance.failures + 1));
                self.emit(out, Event::Waiting { id, until, error });
                self.agenda.push(Task::Advance(id));
            }
            Outcome::Failed(error) if policy.on_failure == OnFailure::Hold => self.emit(out, Event::Held { id, error }),
            Outcome::Restart => {
                // On the agenda rather than here: a new try evaluates bindings, which needs the sandbox.
                let error = Box::new(Failure::new(FailureKind::Cancelled, "to be tried again"));
                self.emit(out, Event::Waiting { id, until: self.now, error });
                self.agenda.push(Task::Advance(id));
            }
            outcome => self.end(id, outcome, Vec::new(), collected, out),
        }
    }

    pub(crate) fn end(
        &mut self,
        id: ElementId,
        outcome: Outcome,
        results: Vec<Value>,
        collected: Option<Value>,
        out: &mut Output,
    ) {
        let parent = self.state.instances.get(id).and_then(|instance| instance.parent);
        if self.followed && outcome == Outcome::Completed {
            out.products.extend(self.product(id, &results, collected.as_ref()));
        }
        self.emit(out, Event::Ended { id, outcome, results, collected });
        match (parent, &self.state.ended) {
            (Some(parent), _) => self.agenda.push(Task::ChildEnded(parent)),
            (None, Some((outcome, _))) => out.commands.push(Command::Finish { outcome: outcome.clone() }),
            (None, None) => {}
        }
    }

    /// What an activity, a subprocess, an iteration or anything that ran elsewhere gives, which completes now; nothing if
    /// that is nothing. What the whole process gives is told otherwise.
    fn product(&self, id: ElementId, results: &[Value], collected: Option<&Value>) -> Option<Product> {
        let instance = self.state.instances.get(id)?;
        instance.parent?;
        let site = self.program.node(instance.site_process as usize, instance.site);
        let outs =
            || self.program.signature(site).iter().enumerate().filter(|(_, variable)| variable.direction.is_out());
        let named = |(name, value): (&Arc<str>, &Value)| (name.clone(), value.clone());
        let results: Vec<(Arc<str>, Value)> = match (&site.kind, &instance.body) {
            (_, Body::Leaf) => outs().map(|(_, variable)| &variable.name).zip(results).map(named).collect(),
            (Kind::Process { .. }, _) => {
                let values =
                    outs().filter_map(|(slot, variable)| Some((&variable.name, instance.variables.get(slot)?)));
                values.map(named).collect()
            }
            _ => Vec::new(),
        };
        let given = !results.is_empty() || collected.is_some();
        given.then(|| Product { path: self.path(id), results, collected: collected.cloned() })
    }

    /// A new try, from what the scope around gives now.
    pub(crate) fn restart(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut Output) {
        let Some(instance) = self.state.instances.get(id) else { return };
        let (site, ordinal, leaf) = (instance.site, instance.ordinal, matches!(instance.body, Body::Leaf));
        let policy = self.policy(instance);
        let bound = match instance.parent {
            Some(parent) => self.bind(sandbox, parent, site, ordinal),
            None => Ok(self.state.initial.clone()),
        };
        match bound {
            Ok(variables) => {
                let deadline = policy.timeout.filter(|_| !leaf).map(|timeout| self.now.after(timeout));
                self.emit(out, Event::Restarted { id, variables, deadline });
                self.agenda.push(Task::Advance(id));
            }
            Err(failure) => {
                let failure = self.placed(id, failure);
                self.conclude(id, Outcome::Failed(failure), None, out);
            }
        }
    }

    /// The clock of an element rings.
    pub(crate) fn on_deadline(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut Output) {
        let Some(instance) = self.state.instances.get(id) else { return };
        if let Phase::Waiting { .. } = instance.phase {
            return self.advance(sandbox, id, out);
        }
        let is_out = matches!(instance.phase, Phase::Out(_));
        if instance.can_stand_still() && self.is_paused(id) {
            return;
        }
        let node = self.program.node(instance.site_process as usize, instance.site);
        let limit = node.policy.timeout.unwrap_or_default();
        let failure = Failure::new(FailureKind::Timeout, format!("took longer than its TIMEOUT of {limit:?}"));
        let failure = self.placed(id, Box::new(failure.at_line(node.line)));
        if is_out {
            let attempt = instance.attempts;
            self.emit(out, Event::Stopping { id, stop: Stop::Failed(failure) });
            out.commands.push(Command::Cancel { element: id, attempt });
        } else {
            self.fail(id, failure, out);
        }
    }

    /// Retries, time-out and what a failure means. Those of a delegated root are up to whoever delegated it.
    pub(crate) fn policy(&self, instance: &Instance) -> Policy {
        match instance.parent {
            Some(_) => self.program.node(instance.site_process as usize, instance.site).policy,
            None => Policy::default(),
        }
    }

    /// The failure with the path of the element in which it happened.
    pub(crate) fn placed(&self, id: ElementId, mut failure: Box<Failure>) -> Box<Failure> {
        if failure.path.is_empty() {
            failure.path = self.state.path(&self.program, id);
        }
        failure
    }
}
