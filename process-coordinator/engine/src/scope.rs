//! Values: what an element gets when it begins, what code sees, and what becomes of what it assigns.

use std::collections::BTreeMap;
use std::sync::Arc;

use xavantes_model::definition::{Kind, Node, NodeId, Program, Script, ScriptInput, ScriptTarget, Summary, Variable};
use xavantes_model::script::{Argument, Code, Effects, Error, ErrorKind, Sandbox};
use xavantes_model::value::Value;

use crate::engine::{Engine, MAX_CALL_DEPTH, Root};
use crate::event::{Outputs, Place};
use crate::failure::{Failure, FailureKind};
use crate::id::ElementId;
use crate::state::{Body, Phase};

/// The variables of a process from its parameters; everything that is wrong with them at once.
pub(crate) fn bind_root(
    program: &Program,
    root: Root,
    parameters: Vec<(String, Value)>,
) -> Result<Vec<Value>, Vec<String>> {
    let process = &program.processes[root.process];
    let node = program.node(root.process, root.node);
    let mut problems = Vec::new();
    let mut given: BTreeMap<&str, &Value> = BTreeMap::new();
    for (name, value) in &parameters {
        let known = process.parameters().iter().any(|variable| variable.direction.is_in() && *variable.name == **name);
        if !known {
            problems.push(format!("{} has no IN parameter {name:?}", process.name));
        } else if given.insert(name, value).is_some() {
            problems.push(format!("parameter {name:?} is given twice"));
        }
    }
    let mut variables = Vec::with_capacity(node.variables.len());
    for variable in &node.variables {
        let value = given.get(&*variable.name).map(|value| (*value).clone());
        variables.push(check_in(variable, value.unwrap_or_default()).unwrap_or_else(|problem| {
            problems.push(problem);
            Value::Null
        }));
    }
    if problems.is_empty() { Ok(variables) } else { Err(problems) }
}

/// The value with which a variable begins: what was given, or its default, of the right type.
fn check_in(variable: &Variable, value: Value) -> Result<Value, String> {
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

impl Engine {
    /// The values with which an element begins, read off the scope around it.
    pub(crate) fn bind(
        &mut self,
        sandbox: &mut Sandbox,
        parent: ElementId,
        site: NodeId,
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
                let (computed, effects) = self.evaluate(sandbox, parent, &script.code, &script.inputs)?;
                if !effects.is_empty() {
                    let message = "an expression may read shared objects, not change them";
                    return Err(Box::new(Failure::new(FailureKind::Code, message).at_line(node.line)));
                }
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
            *value = check_in(variable, std::mem::take(value)).map_err(bad)?;
        }
        // A called type's BODY may have variables of its own behind the parameters.
        if let Some(process) = calls {
            for variable in &program.node(process, NodeId::BODY).variables[values.len()..] {
                values.push(check_in(variable, Value::Null).map_err(bad)?);
            }
        }
        Ok(values)
    }

    /// `counter`, `item` and the axes of an iteration; `error` of a `CATCH`.
    fn bind_locals(&self, node: &Node, around: &crate::state::Instance, ordinal: u64, values: &mut [Value]) {
        let locals = node.local_slots();
        if locals.is_empty() {
            return;
        }
        if let (Phase::Catching(error), Some(slot)) = (&around.phase, values.get_mut(locals.start)) {
            *slot = error.to_value();
            return;
        }
        let Body::Loop(it) = &around.body else { return };
        let locals = &mut values[locals];
        locals[0] = Value::Int(it.range.counter(ordinal));
        match &it.range {
            crate::state::Range::List(items) => {
                if let (Some(slot), Some(item)) = (locals.get_mut(1), items.get(ordinal as usize)) {
                    *slot = item.clone();
                }
            }
            crate::state::Range::Grid(axes, _) => {
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

    /// Runs statements in the scope of `id` and says what they assign.
    pub(crate) fn execute(
        &mut self,
        sandbox: &mut Sandbox,
        id: ElementId,
        script: &Script,
    ) -> Result<Outputs, Box<Failure>> {
        let (values, effects) = self.evaluate(sandbox, id, &script.code, &script.inputs)?;
        let program = self.program.clone();
        let mut sets = Vec::with_capacity(values.len());
        for (target, value) in script.outputs.iter().zip(values) {
            let Some((place, variable)) = self.place(&program, id, *target) else { continue };
            let value = match variable.ty {
                Some(ty) if !value.is_null() => ty.accept(value).map_err(|problem| {
                    let message = format!("{}: {problem}", self.target_name(&program, id, *target));
                    Box::new(Failure::new(FailureKind::Parameter, message).at_line(script.line))
                })?,
                _ => value,
            };
            if self.at(place) != Some(&value) && !(value.is_null() && self.at(place).is_none()) {
                sets.push((place, value));
            }
        }
        Ok(Outputs { sets, effects })
    }

    fn place<'a>(&self, program: &'a Program, id: ElementId, target: ScriptTarget) -> Option<(Place, &'a Variable)> {
        let process = self.state.instances.get(id)?.process as usize;
        match target {
            ScriptTarget::Variable { node, slot } => {
                let owner = self.state.scope(id, node)?;
                let variable = program.node(process, node).variables.get(slot as usize)?;
                Some((Place::Variable { owner, slot }, variable))
            }
            ScriptTarget::Element { element, slot } => {
                let variable = program.signature(program.node(process, element)).get(slot as usize)?;
                Some((Place::Parameter { owner: id, element, slot }, variable))
            }
        }
    }

    fn target_name(&self, program: &Program, id: ElementId, target: ScriptTarget) -> String {
        let Some((_, variable)) = self.place(program, id, target) else { return String::new() };
        match target {
            ScriptTarget::Variable { .. } => variable.name.to_string(),
            ScriptTarget::Element { element, .. } => {
                let process = self.state.instances.get(id).map_or(0, |instance| instance.process as usize);
                format!("{}.{}", program.node(process, element).name, variable.name)
            }
        }
    }

    fn at(&self, place: Place) -> Option<&Value> {
        match place {
            Place::Variable { owner, slot } => self.state.instances.get(owner)?.variables.get(slot as usize),
            Place::Parameter { owner, element, slot } => self.state.instances.get(owner)?.inputs.get(&(element, slot)),
        }
    }

    /// A condition: anything but `false` and nothing holds.
    pub(crate) fn holds(
        &mut self,
        sandbox: &mut Sandbox,
        id: ElementId,
        script: &Script,
    ) -> Result<bool, Box<Failure>> {
        let value = self.compute(sandbox, id, script)?;
        Ok(!matches!(value, Value::Null | Value::Bool(false)))
    }

    /// The value of one expression, which changes nothing.
    pub(crate) fn compute(
        &mut self,
        sandbox: &mut Sandbox,
        id: ElementId,
        script: &Script,
    ) -> Result<Value, Box<Failure>> {
        let (mut values, effects) = self.evaluate(sandbox, id, &script.code, &script.inputs)?;
        if !effects.is_empty() {
            let message = "an expression may read shared objects, not change them";
            return Err(Box::new(Failure::new(FailureKind::Code, message).at_line(script.line)));
        }
        Ok(values.pop().unwrap_or_default())
    }

    fn evaluate(
        &mut self,
        sandbox: &mut Sandbox,
        id: ElementId,
        code: &Code,
        inputs: &[ScriptInput],
    ) -> Result<(Vec<Value>, Effects), Box<Failure>> {
        let mut objects = std::mem::take(&mut self.state.objects);
        let numbers: Vec<Value> = inputs.iter().map(|input| self.number(id, *input)).collect();
        let arguments = inputs.iter().zip(&numbers).map(|(input, number)| self.argument(id, *input, number));
        let outcome = sandbox.run(code, arguments, &mut objects);
        self.state.objects = objects;
        outcome.map_err(|error| Box::new(script_failure(&error)))
    }

    /// The value of a summary that is a number; others have none.
    fn number(&self, id: ElementId, input: ScriptInput) -> Value {
        let ScriptInput::Summary(summary) = input else { return Value::Null };
        let Some(instance) = self.state.instances.get(id) else { return Value::Null };
        let Some(join) = instance.body.join() else { return Value::Null };
        Value::Int(match summary {
            Summary::Completed => join.completed as i64,
            Summary::Failed => join.failed as i64,
            Summary::Cancelled => join.cancelled as i64,
            Summary::Running => join.live.len() as i64,
            Summary::Counter => match &instance.body {
                Body::Loop(it) => it.next as i64 + 1,
                _ => 0,
            },
            Summary::Results => return Value::Null,
        })
    }

    fn argument<'a>(&'a self, id: ElementId, input: ScriptInput, number: &'a Value) -> Argument<'a> {
        static NOTHING: Value = Value::Null;
        if let ScriptInput::Summary(summary) = input {
            let instance = self.state.instances.get(id);
            return match (summary, instance.and_then(|instance| Some((instance, instance.body.join()?)))) {
                (Summary::Results, Some((instance, join))) => {
                    let of =
                        (self.unique, id.bits(), u64::from(instance.restarts) << 32 | u64::from(instance.attempts));
                    Argument::Growing { of, items: &join.results }
                }
                _ => Argument::Value(number),
            };
        }
        Argument::Value(self.read(id, input).unwrap_or(&NOTHING))
    }

    /// What a script in `id` finds under a name.
    pub(crate) fn read(&self, id: ElementId, input: ScriptInput) -> Option<&Value> {
        match input {
            ScriptInput::Variable { node, slot } => match self.state.scope(id, node) {
                Some(owner) => self.state.instances.get(owner)?.variables.get(slot as usize),
                None => self.state.captured.get(&input),
            },
            ScriptInput::Element { scope, element, slot } => match self.state.scope(id, scope) {
                Some(owner) => {
                    let owner = self.state.instances.get(owner)?;
                    let kept = owner.kept.get(&element).and_then(|values| values.get(slot as usize));
                    kept.or_else(|| owner.inputs.get(&(element, slot)))
                }
                None => self.state.captured.get(&input),
            },
            ScriptInput::Summary(_) => None,
        }
    }

    /// Is an `OUT` parameter of an element that is about to complete without a value?
    pub(crate) fn missing_out(&self, node: &Node, variables: &[Value]) -> Option<Arc<str>> {
        node.variables
            .iter()
            .enumerate()
            .find(|(slot, variable)| {
                variable.direction.is_out() && !variable.optional && variables.get(*slot).is_none_or(Value::is_null)
            })
            .map(|(_, variable)| variable.name.clone())
    }
}

pub(crate) fn script_failure(error: &Error) -> Failure {
    let kind = match error.kind {
        ErrorKind::Code => FailureKind::Code,
        _ => FailureKind::Limit,
    };
    Failure::new(kind, error.message.clone()).at_line(error.line)
}
