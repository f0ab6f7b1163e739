//! Parameters: the values with which an element begins, and the results that it must have when it completes.

use std::sync::Arc;

use xavantes_model::definition::{DefinitionNode, DefinitionNodeId, Kind, Variable};
use xavantes_model::script::Sandbox;
use xavantes_model::value::Value;

use crate::element_id::ElementId;
use crate::engine::Engine;
use crate::failure::{Failure, FailureKind};
use crate::state::body::{Body, Range};
use crate::state::instance::{Instance, Phase};

/// Upper bound on the depth of calls of process types, which may call each other and themselves.
pub const MAX_CALL_DEPTH: u32 = 200;

impl Engine {
    /// The values with which an element begins, computed in the scope around it. A parameter that code set comes before
    /// an attribute.
    pub(crate) fn bind(
        &mut self,
        sandbox: &mut Sandbox,
        parent: ElementId,
        site: DefinitionNodeId,
        ordinal: u64,
    ) -> Result<Vec<Value>, Box<Failure>> {
        let program = self.program.clone();
        let Some(around) = self.state.instances.get(parent) else { return Ok(Vec::new()) };
        let node = program.node(around.process as usize, site);
        let signature = program.signature(node);
        let calls = match node.kind {
            Kind::Process { process } => Some(process),
            _ => None,
        };
        if calls.is_some() && around.call_depth >= MAX_CALL_DEPTH {
            let message = format!("process types call each other more than {MAX_CALL_DEPTH} deep");
            return Err(Box::new(Failure::new(FailureKind::Limit, message).at_line(node.line)));
        }
        if signature.is_empty() && calls.is_none() {
            return Ok(Vec::new());
        }
        let mut values = vec![Value::Null; signature.len()];
        if let Some(bindings) = &node.bindings {
            for (slot, value) in &bindings.literals {
                values[*slot as usize] = value.clone();
            }
            if let Some(script) = &bindings.script {
                let computed = self.evaluate_pure(sandbox, parent, &script.code, &script.inputs, node.line)?;
                for (slot, value) in bindings.targets.iter().zip(computed) {
                    values[*slot as usize] = value;
                }
            }
        }
        let Some(around) = self.state.instances.get(parent) else { return Ok(Vec::new()) };
        for ((_, slot), value) in around.inputs.range((site, 0)..=(site, u32::MAX)) {
            values[*slot as usize] = value.clone();
        }
        self.bind_locals(node, around, ordinal, &mut values);
        let bad = |problem| Box::new(Failure::new(FailureKind::Parameter, problem).at_line(node.line));
        for (variable, value) in signature.iter().zip(&mut values) {
            *value = initial_value(variable, std::mem::take(value)).map_err(bad)?;
        }
        // The BODY of a called type may have variables of its own after the parameters.
        if let Some(process) = calls {
            for variable in &program.node(process, DefinitionNodeId::BODY).variables[values.len()..] {
                values.push(initial_value(variable, Value::Null).map_err(bad)?);
            }
        }
        Ok(values)
    }

    /// Sets `counter`, `item` and the axes of an iteration, or `error` of a `CATCH`.
    fn bind_locals(&self, node: &DefinitionNode, around: &Instance, ordinal: u64, values: &mut [Value]) {
        let locals = node.local_slots();
        if locals.is_empty() {
            return;
        }
        if let (Phase::Catching(error), Some(slot)) = (&around.phase, values.get_mut(locals.start)) {
            *slot = error.to_value();
            return;
        }
        let Body::Loop(body) = &around.body else { return };
        let locals = &mut values[locals];
        locals[0] = Value::Int(body.range.counter(ordinal));
        match &body.range {
            Range::List(items) => {
                if let (Some(slot), Some(item)) = (locals.get_mut(1), items.get(ordinal as usize)) {
                    *slot = item.clone();
                }
            }
            Range::Grid(axes, _) => {
                let mut rest = ordinal;
                for (slot, axis) in locals[1..].iter_mut().zip(axes).rev() {
                    let length = axis.len().max(1) as u64;
                    *slot = axis.get((rest % length) as usize).cloned().unwrap_or_default();
                    rest /= length;
                }
            }
            _ => {}
        }
    }

    /// The first `OUT` parameter without a value, of an element that is about to complete.
    pub(crate) fn missing_out(&self, node: &DefinitionNode, variables: &[Value]) -> Option<Arc<str>> {
        node.variables
            .iter()
            .enumerate()
            .find(|(slot, variable)| {
                variable.direction.is_out() && !variable.optional && variables.get(*slot).is_none_or(Value::is_null)
            })
            .map(|(_, variable)| variable.name.clone())
    }
}

/// The value with which a variable begins: the given value or the default, converted to the type of the variable.
pub(crate) fn initial_value(variable: &Variable, value: Value) -> Result<Value, String> {
    let value = match (value, &variable.default) {
        (Value::Null, Some(default)) => default.clone(),
        (value, _) => value,
    };
    if value.is_null() {
        return if variable.optional || !variable.direction.is_in() {
            Ok(value)
        } else {
            Err(format!("parameter {:?} is missing", variable.name))
        };
    }
    match variable.ty {
        Some(ty) => ty.accept(value).map_err(|problem| format!("parameter {:?}: {problem}", variable.name)),
        None => Ok(value),
    }
}
