//! How elements end: `POST_CODE`, failure, `CATCH`, `FINALLY`, retries.
//!
//! ```text
//! body ──done or exit──▶ POST_CODE ──▶ completed ──────┐
//!   └─failed──▶ its elements are cancelled ──▶ CATCH ──┼─▶ FINALLY ──▶ retry, hold, or end
//!   └─cancelled──▶ its elements are cancelled ─────────┘
//! ```

use std::sync::Arc;

use xavantes_model::definition::{Kind, OnFailure, Policy};
use xavantes_model::script::Sandbox;
use xavantes_model::value::Value;

use crate::command::Command;
use crate::element_id::ElementId;
use crate::engine::{AgendaItem, Engine};
use crate::event::Event;
use crate::failure::{Failure, FailureKind};
use crate::outcome::Outcome;
use crate::state::body::Body;
use crate::state::instance::{Instance, Phase};
use crate::state::size::bytes_of;
use crate::step_output::{Product, StepOutput};

impl Engine {
    /// The body is done: runs `POST_CODE`, then completes the element.
    pub(crate) fn post(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut StepOutput) {
        let program = self.program.clone();
        let Some(instance) = self.state.instances.get(id) else { return };
        let Some(script) = &self.state.node(&program, instance).post_code else {
            return self.complete(sandbox, id, out);
        };
        match self.execute(sandbox, id, script) {
            Ok(outputs) => {
                self.emit(out, Event::Posted { id, outputs });
                self.agenda.push(AgendaItem::Advance(id));
            }
            Err(failure) => {
                let failure = self.with_path(id, failure);
                self.on_body_failed(id, failure, out);
            }
        }
    }

    /// Everything but `FINALLY` is done: checks the results and evaluates the value that the loop collects.
    pub(crate) fn complete(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut StepOutput) {
        let program = self.program.clone();
        let Some(instance) = self.state.instances.get(id) else { return };
        let node = self.state.node(&program, instance);
        if let Some(missing) = self.missing_out(node, &instance.variables) {
            let message = format!("OUT parameter {missing:?} has no value at the end");
            let failure = Failure::new(FailureKind::Parameter, message).at_line(node.line);
            let failure = self.with_path(id, Box::new(failure));
            return self.on_body_failed(id, failure, out);
        }
        let collect = instance.parent.and_then(|parent| self.state.instances.get(parent)).and_then(|around| {
            let around = program.node(around.process as usize, around.node);
            // The CATCH or FINALLY of a loop is not an iteration.
            if around.elements.first() == Some(&instance.site) { around.kind.collect() } else { None }
        });
        let collected = collect.map(|script| self.compute(sandbox, id, script)).transpose().and_then(|collected| {
            let added = collected.as_ref().map_or(0, Value::bytes);
            self.check_budget(id, None, added).map(|()| collected)
        });
        let collected = match collected {
            Ok(collected) => collected,
            Err(failure) => {
                let failure = self.with_path(id, failure);
                return self.on_body_failed(id, failure, out);
            }
        };
        self.finish(id, Outcome::Completed, collected, out);
    }

    /// The element failed and nothing runs in it: begins `CATCH`, unless the failure happened in `CATCH`.
    pub(crate) fn on_body_failed(&mut self, id: ElementId, failure: Box<Failure>, out: &mut StepOutput) {
        let Some(instance) = self.state.instances.get(id) else { return };
        if let Phase::Catching(before) = &instance.phase {
            let failure = failure.while_handling(before.clone());
            self.finish(id, Outcome::Failed(failure), None, out);
        } else if self.state.node(&self.program, instance).catch.is_some() {
            self.emit(out, Event::Catching { id, error: failure });
            self.agenda.push(AgendaItem::Advance(id));
        } else {
            self.finish(id, Outcome::Failed(failure), None, out);
        }
    }

    /// Runs `CATCH`, then goes on according to how it ended.
    pub(crate) fn catch(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut StepOutput) {
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
                self.on_body_failed(id, failure, out);
            }
            Some(Outcome::Cancelled | Outcome::Restart) => {
                let error = error.clone();
                self.finish(id, Outcome::Failed(error), None, out);
            }
        }
    }

    /// The outcome of the try is known: begins `FINALLY`, if there is one.
    pub(crate) fn finish(&mut self, id: ElementId, outcome: Outcome, collected: Option<Value>, out: &mut StepOutput) {
        let Some(instance) = self.state.instances.get(id) else { return };
        if self.state.node(&self.program, instance).finally.is_some() {
            self.emit(out, Event::Finishing { id, outcome, collected });
            self.agenda.push(AgendaItem::Advance(id));
        } else {
            self.conclude(id, outcome, collected, out);
        }
    }

    /// Runs `FINALLY`, then concludes the try.
    pub(crate) fn finalise(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut StepOutput) {
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

    /// A try ended: begins another one, holds the element, or ends it.
    pub(crate) fn conclude(&mut self, id: ElementId, outcome: Outcome, collected: Option<Value>, out: &mut StepOutput) {
        let Some(instance) = self.state.instances.get(id) else { return };
        let policy = self.policy(instance);
        match outcome {
            Outcome::Failed(error) if !error.permanent && instance.failures < policy.retries => {
                let until = self.now.after(policy.delay_after(instance.failures + 1));
                self.emit(out, Event::Waiting { id, until, error });
                self.agenda.push(AgendaItem::Advance(id));
            }
            Outcome::Failed(error) if policy.on_failure == OnFailure::Hold => self.emit(out, Event::Held { id, error }),
            Outcome::Restart => {
                // The agenda begins the new try, because that evaluates bindings, which needs the sandbox.
                let error = Box::new(Failure::new(FailureKind::Cancelled, "a user asked for a new try"));
                self.emit(out, Event::Waiting { id, until: self.now, error });
                self.agenda.push(AgendaItem::Advance(id));
            }
            outcome => self.end(id, outcome, Vec::new(), collected, out),
        }
    }

    /// Ends an element.
    pub(crate) fn end(
        &mut self,
        id: ElementId,
        outcome: Outcome,
        results: Vec<Value>,
        collected: Option<Value>,
        out: &mut StepOutput,
    ) {
        let parent = self.state.instances.get(id).and_then(|instance| instance.parent);
        if self.followed && outcome == Outcome::Completed {
            out.products.extend(self.product(id, &results, collected.as_ref()));
        }
        self.emit(out, Event::Ended { id, outcome, results, collected });
        match (parent, &self.state.ended) {
            (Some(parent), _) => self.agenda.push(AgendaItem::ChildEnded(parent)),
            (None, Some((outcome, _))) => out.commands.push(Command::Finish { outcome: outcome.clone() }),
            (None, None) => {}
        }
    }

    /// The results of an activity, a subprocess, an iteration or a delegated element that completes now. `None` if it has
    /// no results, and for the root, whose results are in the state.
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

    /// Begins a new try, with parameters from the current values of the scope around.
    pub(crate) fn restart(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut StepOutput) {
        let Some(instance) = self.state.instances.get(id) else { return };
        let (site, ordinal, leaf) = (instance.site, instance.ordinal, matches!(instance.body, Body::Leaf));
        let policy = self.policy(instance);
        let bound = match instance.parent {
            Some(parent) => self.bind(sandbox, parent, site, ordinal),
            None => Ok(self.state.initial.clone()),
        };
        let bound = bound.and_then(|variables| {
            let before = self.state.instances.get(id).map_or(0, |instance| bytes_of(&instance.variables));
            self.check_budget(id, None, bytes_of(&variables).saturating_sub(before)).map(|()| variables)
        });
        match bound {
            Ok(variables) => {
                let deadline = policy.timeout.filter(|_| !leaf).map(|timeout| self.now.after(timeout));
                self.emit(out, Event::Restarted { id, variables, deadline });
                self.agenda.push(AgendaItem::Advance(id));
            }
            Err(failure) => {
                let failure = self.with_path(id, failure);
                self.conclude(id, Outcome::Failed(failure), None, out);
            }
        }
    }

    /// Retries, time-out and effect of a failure. A root has none of its own: the coordinator that delegated it applies
    /// its policy.
    pub(crate) fn policy(&self, instance: &Instance) -> Policy {
        match instance.parent {
            Some(_) => self.program.node(instance.site_process as usize, instance.site).policy,
            None => Policy::default(),
        }
    }

    /// Adds the path of the element in which the failure happened.
    pub(crate) fn with_path(&self, id: ElementId, mut failure: Box<Failure>) -> Box<Failure> {
        if failure.path.is_empty() {
            failure.path = self.state.path(&self.program, id);
        }
        failure
    }
}
