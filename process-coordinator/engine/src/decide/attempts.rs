//! Activities and delegated subtrees: the engine hands out attempts, and each attempt is answered once.

use xavantes_model::definition::{DefinitionNode, DefinitionNodeId, Kind, Script, ScriptInput, Variable};
use xavantes_model::value::{Type, Value};

use crate::command::{Command, Delegation};
use crate::element_id::ElementId;
use crate::engine::{AgendaItem, Engine};
use crate::event::Event;
use crate::failure::{Failure, FailureKind};
use crate::input::Answer;
use crate::outcome::{Outcome, StopReason};
use crate::rejection::Rejection;
use crate::state::instance::{Instance, OutstandingAttempt, Phase};
use crate::state::size::bytes_of;
use crate::step_output::StepOutput;

impl Engine {
    /// Hands out an attempt of a leaf; an activity waits until there is capacity.
    pub(crate) fn send(&mut self, id: ElementId, out: &mut StepOutput) {
        let Some(instance) = self.state.instances.get(id) else { return };
        if !instance.delegated && !self.has_capacity() {
            return self.ready.push_back(id);
        }
        // A worker watches the time-out of an activity, which begins when the activity starts there.
        let timeout = self.policy(instance).timeout.filter(|_| instance.delegated);
        let deadline = timeout.map(|timeout| self.now.after(timeout));
        let attempt = instance.attempts + 1;
        self.emit(out, Event::Sent { id, attempt, deadline });
        out.commands.push(self.send_command(id));
    }

    /// The command that sends the current attempt to a worker or coordinator.
    pub(crate) fn send_command(&self, id: ElementId) -> Command {
        let Some(instance) = self.state.instances.get(id) else { return Command::Continue };
        let (attempt, variables) = (instance.attempts, instance.variables.clone());
        let site = self.program.node(instance.site_process as usize, instance.site);
        match site.kind {
            Kind::Activity { activity } if !instance.delegated => {
                let timeout = self.policy(instance).timeout;
                Command::Dispatch { element: id, attempt, activity, parameters: variables, timeout }
            }
            _ => Command::Delegate(Box::new(Delegation {
                element: id,
                attempt,
                process: instance.process as usize,
                node: instance.node,
                variables,
                captured: self.captured(id, instance),
                call_depth: instance.call_depth,
            })),
        }
    }

    /// Values that a delegated subtree reads from the scopes around it. A called process type reads none.
    fn captured(&self, id: ElementId, instance: &Instance) -> Vec<(ScriptInput, Value)> {
        let inputs = self.program.processes[instance.process as usize].captures(instance.node);
        inputs.into_iter().map(|input| (input, self.read(id, input).cloned().unwrap_or_default())).collect()
    }

    /// The element can run on another coordinator. Code can call only the shared objects of its own process, and objects
    /// do not move. So an element stays here if its code would call objects of this process, or return new ones.
    pub(crate) fn can_delegate(&self, parent: ElementId, site: &DefinitionNode, variables: &[Value]) -> bool {
        let is_object = |variable: &Variable| matches!(variable.ty, Some(Type::Shared(_)));
        let mut signature = self.program.signature(site).iter();
        let Some(around) = self.state.instances.get(parent) else { return false };
        if signature.any(|variable| variable.direction.is_out() && is_object(variable)) {
            return false;
        }
        let (process, root) = match site.kind {
            Kind::Process { process } => (process, DefinitionNodeId::BODY),
            _ => (around.process as usize, site.id),
        };
        let nodes = &self.program.processes[process].nodes;
        let inside = root.index()..nodes[root.index()].end.index();
        let given = |input: ScriptInput| match input {
            ScriptInput::Variable { node, slot } if node == root => variables.get(slot as usize),
            ScriptInput::Variable { node: scope, .. } | ScriptInput::Element { scope, .. } => {
                if inside.contains(&scope.index()) { None } else { self.read(parent, input) }
            }
            ScriptInput::LoopSummary(_) => None,
        };
        let calls = |script: &Script| script.inputs.iter().any(|input| given(*input).is_some_and(holds_object));
        nodes[inside.clone()].iter().all(|node| {
            // Passing an object to an activity does not call it.
            let passes = node.kind.is_activity() || node.id == root;
            let bindings = node.bindings.as_ref().filter(|_| !passes).and_then(|bindings| bindings.script.as_ref());
            !node.scripts().chain(bindings).any(calls)
        })
    }

    /// An outstanding attempt and its element.
    pub(crate) fn attempt_of(
        &self,
        element: ElementId,
        attempt: u32,
    ) -> Result<(&Instance, &OutstandingAttempt), Rejection> {
        match self.state.instances.get(element) {
            Some(instance) if instance.attempts == attempt => match &instance.phase {
                Phase::Outstanding(outstanding) => Ok((instance, outstanding)),
                _ => Err(Rejection::NotRunning { element, attempt }),
            },
            _ => Err(Rejection::NotRunning { element, attempt }),
        }
    }

    /// An attempt was answered. If the engine had asked it to stop, the reason for the stop decides, not the answer.
    pub(crate) fn on_answered(
        &mut self,
        id: ElementId,
        attempt: u32,
        answer: Answer,
        out: &mut StepOutput,
    ) -> Result<(), Rejection> {
        let (instance, attempt) = self.attempt_of(id, attempt)?;
        let delegated = instance.delegated;
        match (attempt.stop.clone(), answer) {
            (Some(StopReason::Failed(failure)), _) => self.conclude(id, Outcome::Failed(failure), None, out),
            (Some(StopReason::Restart), _) => self.conclude(id, Outcome::Restart, None, out),
            (Some(StopReason::Cancelled | StopReason::Exit), _) => {
                self.end(id, Outcome::Cancelled, Vec::new(), None, out)
            }
            (None, Answer::Completed(values)) => match self.check_results(id, values) {
                Ok(values) => self.end(id, Outcome::Completed, values, None, out),
                Err(failure) => {
                    let failure = self.with_path(id, failure);
                    self.conclude(id, Outcome::Failed(failure), None, out);
                }
            },
            (None, Answer::Failed(failure)) => {
                let failure = self.with_path(id, failure);
                self.conclude(id, Outcome::Failed(failure), None, out);
            }
            (None, Answer::Refused) if delegated => {
                let deadline = self.policy(instance).timeout.map(|timeout| self.now.after(timeout));
                self.emit(out, Event::Recalled { id, deadline });
                self.agenda.push(AgendaItem::Advance(id));
            }
            (None, Answer::Lost | Answer::Cancelled | Answer::Refused) => {
                self.emit(out, Event::Lost { id });
                self.agenda.push(AgendaItem::Advance(id));
            }
        }
        Ok(())
    }

    /// Checks that an answer has a value for each result, and converts it to the type of the result.
    fn check_results(&self, id: ElementId, mut values: Vec<Value>) -> Result<Vec<Value>, Box<Failure>> {
        let Some(instance) = self.state.instances.get(id) else { return Ok(values) };
        let site = self.program.node(instance.site_process as usize, instance.site);
        let bad = |message: String| Box::new(Failure::new(FailureKind::Parameter, message).at_line(site.line));
        let outs = self.program.signature(site).iter().filter(|variable| variable.direction.is_out());
        let expected = outs.clone().count();
        if values.len() != expected {
            return Err(bad(format!("expected {expected} results, got {}", values.len())));
        }
        for (variable, value) in outs.zip(&mut values) {
            match (std::mem::take(value), variable.ty) {
                (Value::Null, _) => {
                    if let Some(default) = &variable.default {
                        *value = default.clone();
                    } else if !variable.optional {
                        return Err(bad(format!("OUT parameter {:?} has no value at the end", variable.name)));
                    }
                }
                (given, None) => *value = given,
                (given, Some(ty)) => {
                    *value = ty
                        .accept(given)
                        .map_err(|problem| bad(format!("OUT parameter {:?}: {problem}", variable.name)))?;
                }
            }
        }
        // Results that no code can read leave the state with their element.
        let added = if site.kept { bytes_of(&values) } else { 0 };
        self.check_budget(id, None, added)?;
        Ok(values)
    }
}

/// The value is a shared object or contains one.
fn holds_object(value: &Value) -> bool {
    let mut found = false;
    value.each_shared(&mut |_| found = true);
    found
}
