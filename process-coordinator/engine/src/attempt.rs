//! Leaves: activities and delegated subtrees. An attempt is handed out, may call shared objects, and is answered once.

use xavantes_model::definition::{Kind, Node, NodeId, Script, ScriptInput, Variable};
use xavantes_model::shared::{Call, Method, methods};
use xavantes_model::value::{Type, Value};

use crate::engine::{Engine, Output, Task};
use crate::event::Event;
use crate::failure::{Failure, FailureKind};
use crate::id::ElementId;
use crate::input::{Answer, Command, Delegation, Rejection, SharedCall};
use crate::state::{Instance, Out, Outcome, Phase, Stop};

/// Answers that are kept for a caller that has not acknowledged them: it may not run further ahead.
const MOST_UNACKNOWLEDGED: usize = 1024;

fn holds_object(value: &Value) -> bool {
    let mut found = false;
    value.each_shared(&mut |_| found = true);
    found
}

impl Engine {
    /// Hands a leaf out, if there is room.
    pub(crate) fn send(&mut self, id: ElementId, out: &mut Output) {
        let Some(instance) = self.state.instances.get(id) else { return };
        if !instance.delegated && !self.has_room() {
            return self.ready.push_back(id);
        }
        // Whoever runs an activity looks after its time, which begins when that does.
        let timeout = self.policy(instance).timeout.filter(|_| instance.delegated);
        let deadline = timeout.map(|timeout| self.now.after(timeout));
        let attempt = instance.attempts + 1;
        self.emit(out, Event::Sent { id, attempt, deadline });
        out.commands.push(self.send_command(id));
    }

    /// The command that hands out the current attempt.
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

    /// What a delegated subtree reads from the scopes around it. A called process type reads nothing.
    fn captured(&self, id: ElementId, instance: &Instance) -> Vec<(ScriptInput, Value)> {
        let inputs = self.program.processes[instance.process as usize].captures(instance.node);
        inputs.into_iter().map(|input| (input, self.read(id, input).cloned().unwrap_or_default())).collect()
    }

    /// Can an element run elsewhere? Code can call the shared objects of its own process alone, and they do not move:
    /// so not when its code would call those of this one, or hand out new ones.
    pub(crate) fn may_travel(&self, parent: ElementId, site: &Node, variables: &[Value]) -> bool {
        let is_object = |variable: &Variable| matches!(variable.ty, Some(Type::Shared(_)));
        let mut signature = self.program.signature(site).iter();
        let Some(around) = self.state.instances.get(parent) else { return false };
        if signature.any(|variable| variable.direction.is_out() && is_object(variable)) {
            return false;
        }
        let (process, root) = match site.kind {
            Kind::Process { process } => (process, NodeId::BODY),
            _ => (around.process as usize, site.id),
        };
        let nodes = &self.program.processes[process].nodes;
        let inside = root.index()..nodes[root.index()].end.index();
        let given = |input: ScriptInput| match input {
            ScriptInput::Variable { node, slot } if node == root => variables.get(slot as usize),
            ScriptInput::Variable { node: scope, .. } | ScriptInput::Element { scope, .. } => {
                if inside.contains(&scope.index()) { None } else { self.read(parent, input) }
            }
            ScriptInput::Summary(_) => None,
        };
        let calls = |script: &Script| script.inputs.iter().any(|input| given(*input).is_some_and(holds_object));
        nodes[inside.clone()].iter().all(|node| {
            // To pass an object on to an activity is not to call it.
            let passes = node.kind.is_activity() || node.id == root;
            let bindings = node.bindings.as_ref().filter(|_| !passes).and_then(|bindings| bindings.script.as_ref());
            !node.scripts().chain(bindings).any(calls)
        })
    }

    fn attempt_of(&self, element: ElementId, attempt: u32) -> Result<(&Instance, &Out), Rejection> {
        match self.state.instances.get(element) {
            Some(instance) if instance.attempts == attempt => match &instance.phase {
                Phase::Out(out) => Ok((instance, out)),
                _ => Err(Rejection::NotRunning { element, attempt }),
            },
            _ => Err(Rejection::NotRunning { element, attempt }),
        }
    }

    pub(crate) fn on_answered(
        &mut self,
        id: ElementId,
        attempt: u32,
        answer: Answer,
        out: &mut Output,
    ) -> Result<(), Rejection> {
        let (instance, attempt) = self.attempt_of(id, attempt)?;
        let delegated = instance.delegated;
        match (attempt.stop.clone(), answer) {
            (Some(Stop::Failed(failure)), _) => self.conclude(id, Outcome::Failed(failure), None, out),
            (Some(Stop::Restart), _) => self.conclude(id, Outcome::Restart, None, out),
            (Some(Stop::Cancelled | Stop::Exit), _) => self.end(id, Outcome::Cancelled, Vec::new(), None, out),
            (None, Answer::Completed(values)) => match self.check_results(id, values) {
                Ok(values) => self.end(id, Outcome::Completed, values, None, out),
                Err(failure) => {
                    let failure = self.placed(id, failure);
                    self.conclude(id, Outcome::Failed(failure), None, out);
                }
            },
            (None, Answer::Failed(failure)) => {
                let failure = self.placed(id, failure);
                self.conclude(id, Outcome::Failed(failure), None, out);
            }
            (None, Answer::Refused) if delegated => {
                let deadline = self.policy(instance).timeout.map(|timeout| self.now.after(timeout));
                self.emit(out, Event::Recalled { id, deadline });
                self.agenda.push(Task::Advance(id));
            }
            (None, Answer::Lost | Answer::Cancelled | Answer::Refused) => {
                self.emit(out, Event::Lost { id });
                self.agenda.push(Task::Advance(id));
            }
        }
        Ok(())
    }

    /// Are these all results, each of its type?
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
        Ok(values)
    }

    pub(crate) fn on_called(&mut self, call: SharedCall, out: &mut Output) -> Result<(), Rejection> {
        let SharedCall { element, attempt, caller, sequence, acknowledged, object, method, arguments } = call;
        let (_, running) = self.attempt_of(element, attempt)?;
        let mut reply = |result| {
            out.commands.push(Command::Reply { element, attempt, caller, sequence, result });
            Ok(())
        };
        if !self.state.objects.is_home_of(&object) {
            return reply(Err(format!("this {} belongs to another process", object.kind.type_name())));
        }
        let kind = object.kind.type_name();
        let Some((name, _, least, most)) = methods(object.kind).iter().find(|(_, known, ..)| *known == method) else {
            return reply(Err(format!("a {kind} has no method {method:?}")));
        };
        if !(*least..=*most).contains(&arguments.len()) {
            return reply(Err(format!("{kind}:{name} takes {most} arguments, got {}", arguments.len())));
        }
        let call = Call { object: object.id, method, arguments };
        if !Method::changes(method) {
            return reply(self.state.objects.call(&call));
        }
        let window = running.calls.get(&caller);
        let last = window.map_or(0, |window| window.last);
        if sequence <= last {
            let answer = window.and_then(|window| window.answers.iter().find(|(number, _)| *number == sequence));
            return match answer {
                Some((_, answer)) => reply(answer.clone()),
                None => Err(Rejection::OldCall { sequence }),
            };
        }
        if sequence != last + 1 {
            return Err(Rejection::CallGap { sequence, expected: last + 1 });
        }
        let unacknowledged =
            |window: &crate::state::Window| window.answers.iter().filter(|(number, _)| *number > acknowledged).count();
        if window.map_or(0, unacknowledged) >= MOST_UNACKNOWLEDGED {
            return Err(Rejection::NotPossible(
                format!("more than {MOST_UNACKNOWLEDGED} answers are not acknowledged").into(),
            ));
        }
        self.emit(out, Event::Called { id: element, caller, sequence, acknowledged, call });
        let (_, running) = self.attempt_of(element, attempt)?;
        if let Some((_, answer)) = running.calls.get(&caller).and_then(|window| window.answers.back()) {
            let result = answer.clone();
            out.commands.push(Command::Reply { element, attempt, caller, sequence, result });
        }
        Ok(())
    }
}
