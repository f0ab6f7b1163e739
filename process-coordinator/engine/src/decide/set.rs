//! `set`: a user changes a bound or condition of a running controller, or a parameter of an element that has not begun.

use std::sync::Arc;

use xavantes_model::definition::{DefinitionNodeId, Script};
use xavantes_model::diagnostic::did_you_mean;
use xavantes_model::load;
use xavantes_model::value::{Type, Value};

use crate::element_id::ElementId;
use crate::engine::{AgendaItem, Engine};
use crate::event::{ElementChange, Event};
use crate::rejection::Rejection;
use crate::state::body::{Body, Range, count_of};
use crate::state::instance::Phase;
use crate::step_output::StepOutput;

impl Engine {
    /// Sets a parameter of the element at node `element`, which has not begun in `scope`.
    pub(crate) fn on_set_parameter(
        &mut self,
        scope: ElementId,
        element: DefinitionNodeId,
        path: &str,
        key: &str,
        text: &str,
        out: &mut StepOutput,
    ) -> Result<(), Rejection> {
        let program = self.program.clone();
        let Some(instance) = self.state.instances.get(scope) else { return Err(Rejection::Ended) };
        let node = program.node(instance.process as usize, element);
        let (begun, never) = match &instance.body {
            Body::Sequence { next, .. } => (node.position < *next, false),
            Body::Par(body) => (body.has_begun(node.position), body.never_begins(node.position)),
            _ => (true, false),
        };
        if begun {
            return Err(Rejection::not_possible(format!("{path} has begun: its parameters can no longer be set")));
        }
        if never || !matches!(instance.phase, Phase::Entered | Phase::Prepared | Phase::Running) {
            return Err(Rejection::not_possible(format!("{path} will never begin")));
        }
        let signature = program.signature(node);
        let Some(slot) = signature.iter().position(|variable| *variable.name == *key && variable.direction.is_in())
        else {
            let hint = did_you_mean(key, signature.iter().map(|variable| &*variable.name));
            let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
            return Err(Rejection::not_possible(format!("{path} has no IN parameter {key:?}{hint}")));
        };
        let value = match signature[slot].ty {
            Some(ty) => ty.parse(text).map_err(|problem| Rejection::not_possible(format!("{key}: {problem}")))?,
            None => Value::from(text),
        };
        self.check_budget(scope, None, value.bytes()).map_err(|failure| Rejection::not_possible(failure.message))?;
        self.emit(out, Event::Changed { id: scope, change: ElementChange::Parameter(element, slot as u32, value) });
        Ok(())
    }

    /// Sets a bound or the exit condition of a running controller.
    pub(crate) fn on_set_bound(
        &mut self,
        id: ElementId,
        path: &str,
        key: &str,
        text: &str,
        out: &mut StepOutput,
    ) -> Result<(), Rejection> {
        let Some(instance) = self.state.instances.get(id) else { return Err(Rejection::Ended) };
        match (&instance.phase, &instance.body) {
            (Phase::Outstanding(_), _) if instance.delegated => {
                return Err(Rejection::Delegated { element: id, attempt: instance.attempts });
            }
            (_, Body::Leaf) => {
                return Err(Rejection::not_possible(format!("{path} has begun: its parameters can no longer be set")));
            }
            (Phase::Running, _) => {}
            _ => return Err(Rejection::not_possible(format!("{path} is not running"))),
        }
        let parallel = self.state.node(&self.program, instance).kind.parallel().is_some();
        let whole = || match Type::Int.parse(text) {
            Ok(Value::Int(number)) => Ok(number),
            _ => Err(Rejection::not_possible(format!("{key}: expected int, got {text:?}"))),
        };
        let at_least_one = || match whole()? {
            number @ 1.. => Ok(number as u64),
            number => Err(Rejection::not_possible(format!("{key} must be at least 1, got {number}"))),
        };
        let change = match key {
            "TO" => match &instance.body {
                Body::Loop(body) => match body.range {
                    Range::Count { begin, step, .. } => {
                        // Iterations that have begun stay.
                        ElementChange::Total(count_of(begin, whole()?, step).unwrap_or(0).max(body.next))
                    }
                    _ => return Err(Rejection::not_possible(format!("{path} has no TO: it does not count"))),
                },
                _ => return Err(Rejection::not_possible(format!("{path} is not a loop"))),
            },
            "MAX_PARALLEL" | "JOIN" | "EXIT_CONDITION" if !parallel => {
                return Err(Rejection::not_possible(format!("{path} is not a parallel controller")));
            }
            "MAX_PARALLEL" => ElementChange::MaxParallel(at_least_one()?),
            "JOIN" => ElementChange::Join(at_least_one()?),
            "EXIT_CONDITION" => {
                self.exit_condition(id, text)
                    .map_err(|problem| Rejection::not_possible(format!("EXIT_CONDITION: {problem}")))?;
                ElementChange::ExitCondition(text.into())
            }
            _ => {
                return Err(Rejection::not_possible(format!(
                    "{path} has begun: TO, MAX_PARALLEL, JOIN and EXIT_CONDITION can be set, {key:?} cannot"
                )));
            }
        };
        self.emit(out, Event::Changed { id, change });
        self.agenda.push(AgendaItem::ChildEnded(id));
        Ok(())
    }

    /// An exit condition from `set`, compiled once.
    pub(crate) fn exit_condition(&mut self, id: ElementId, text: &str) -> Result<Script, String> {
        let Some(instance) = self.state.instances.get(id) else { return Err("the process has ended".into()) };
        let key = (instance.process, instance.node, Arc::from(text));
        if let Some(script) = self.conditions.get(&key) {
            return Ok(script.clone());
        }
        let script = load::compile_exit_condition(&self.program, instance.process as usize, instance.node, text)?;
        self.conditions.insert(key, script.clone());
        Ok(script)
    }
}
