//! Scripts: the variables that code reads, and the effects of code.

use xavantes_model::definition::{LoopSummary, Program, Script, ScriptInput, ScriptTarget, Variable};
use xavantes_model::script::{Argument, Code, Effects, Error, ErrorKind, Sandbox};
use xavantes_model::value::Value;

use crate::element_id::ElementId;
use crate::engine::Engine;
use crate::event::{AssignmentTarget, ScriptOutputs};
use crate::failure::{Failure, FailureKind};
use crate::state::body::Body;

impl Engine {
    /// Runs statements in the scope of `id`. Returns their effects, without assignments that change nothing.
    pub(crate) fn execute(
        &mut self,
        sandbox: &mut Sandbox,
        id: ElementId,
        script: &Script,
    ) -> Result<ScriptOutputs, Box<Failure>> {
        let (values, effects) = self.evaluate(sandbox, id, &script.code, &script.inputs)?;
        let program = self.program.clone();
        let mut sets = Vec::with_capacity(values.len());
        for (target, value) in script.outputs.iter().zip(values) {
            let Some((assigned, variable)) = self.resolve(&program, id, *target) else { continue };
            let value = match variable.ty {
                Some(ty) if !value.is_null() => ty.accept(value).map_err(|problem| {
                    let message = format!("{}: {problem}", self.target_name(&program, id, *target));
                    Box::new(Failure::new(FailureKind::Parameter, message).at_line(script.line))
                })?,
                _ => value,
            };
            let before = self.assigned_value(assigned);
            if before != Some(&value) && !(value.is_null() && before.is_none()) {
                sets.push((assigned, value));
            }
        }
        let outputs = ScriptOutputs { sets, effects };
        self.check_outputs(id, &outputs).map_err(|failure| Box::new(failure.at_line(script.line)))?;
        Ok(outputs)
    }

    /// Where an assignment in `id` stores its value, and the variable's definition.
    fn resolve<'a>(
        &self,
        program: &'a Program,
        id: ElementId,
        target: ScriptTarget,
    ) -> Option<(AssignmentTarget, &'a Variable)> {
        let process = self.state.instances.get(id)?.process as usize;
        match target {
            ScriptTarget::Variable { node, slot } => {
                let owner = self.state.scope(id, node)?;
                let variable = program.node(process, node).variables.get(slot as usize)?;
                Some((AssignmentTarget::Variable { owner, slot }, variable))
            }
            ScriptTarget::Element { element, slot } => {
                let variable = program.signature(program.node(process, element)).get(slot as usize)?;
                Some((AssignmentTarget::Parameter { owner: id, element, slot }, variable))
            }
        }
    }

    /// The name of an assignment's target, for messages.
    fn target_name(&self, program: &Program, id: ElementId, target: ScriptTarget) -> String {
        let Some((_, variable)) = self.resolve(program, id, target) else { return String::new() };
        match target {
            ScriptTarget::Variable { .. } => variable.name.to_string(),
            ScriptTarget::Element { element, .. } => {
                let process = self.state.instances.get(id).map_or(0, |instance| instance.process as usize);
                format!("{}.{}", program.node(process, element).name, variable.name)
            }
        }
    }

    /// The current value at the target of an assignment.
    pub(crate) fn assigned_value(&self, target: AssignmentTarget) -> Option<&Value> {
        match target {
            AssignmentTarget::Variable { owner, slot } => self.state.instances.get(owner)?.variables.get(slot as usize),
            AssignmentTarget::Parameter { owner, element, slot } => {
                self.state.instances.get(owner)?.inputs.get(&(element, slot))
            }
        }
    }

    /// The value of a condition. It holds unless it is `false` or `nil`.
    pub(crate) fn holds(
        &mut self,
        sandbox: &mut Sandbox,
        id: ElementId,
        script: &Script,
    ) -> Result<bool, Box<Failure>> {
        let value = self.compute(sandbox, id, script)?;
        Ok(!matches!(value, Value::Null | Value::Bool(false)))
    }

    /// The value of one expression, which may not change shared objects.
    pub(crate) fn compute(
        &mut self,
        sandbox: &mut Sandbox,
        id: ElementId,
        script: &Script,
    ) -> Result<Value, Box<Failure>> {
        let mut values = self.evaluate_pure(sandbox, id, &script.code, &script.inputs, script.line)?;
        Ok(values.pop().unwrap_or_default())
    }

    /// The values of expressions at `line` of the definition, which may not change shared objects.
    pub(crate) fn evaluate_pure(
        &mut self,
        sandbox: &mut Sandbox,
        id: ElementId,
        code: &Code,
        inputs: &[ScriptInput],
        line: u32,
    ) -> Result<Vec<Value>, Box<Failure>> {
        let (values, effects) = self.evaluate(sandbox, id, code, inputs)?;
        if !effects.is_empty() {
            let message = "an expression may read shared objects, not change them";
            return Err(Box::new(Failure::new(FailureKind::Code, message).at_line(line)));
        }
        Ok(values)
    }

    /// Runs code in the scope of `id`. Returns the values of its outputs and its effects on shared objects.
    fn evaluate(
        &mut self,
        sandbox: &mut Sandbox,
        id: ElementId,
        code: &Code,
        inputs: &[ScriptInput],
    ) -> Result<(Vec<Value>, Effects), Box<Failure>> {
        // The code needs the objects mutably while its arguments borrow the state. The sandbox undoes all changes of
        // the objects; `apply` makes them from the event.
        let mut objects = std::mem::take(&mut self.state.objects);
        let numbers: Vec<Value> = inputs.iter().map(|input| self.summary_number(id, *input)).collect();
        let arguments = inputs.iter().zip(&numbers).map(|(input, number)| self.argument(id, *input, number));
        let outcome = sandbox.run(code, arguments, &mut objects);
        self.state.objects = objects;
        outcome.map_err(|error| Box::new(script_failure(&error)))
    }

    /// The value of an input that is a number of the summary of a controller; `Null` for every other input.
    fn summary_number(&self, id: ElementId, input: ScriptInput) -> Value {
        let ScriptInput::LoopSummary(summary) = input else { return Value::Null };
        let Some(instance) = self.state.instances.get(id) else { return Value::Null };
        let Some(join) = instance.body.join() else { return Value::Null };
        Value::Int(match summary {
            LoopSummary::Completed => join.completed as i64,
            LoopSummary::Failed => join.failed as i64,
            LoopSummary::Cancelled => join.cancelled as i64,
            LoopSummary::Running => join.live.len() as i64,
            LoopSummary::Counter => match &instance.body {
                Body::Loop(body) => body.next as i64 + 1,
                _ => 0,
            },
            LoopSummary::Results => return Value::Null,
        })
    }

    /// The argument for an input of code. `number` is its value if it is a number of a summary.
    fn argument<'a>(&'a self, id: ElementId, input: ScriptInput, number: &'a Value) -> Argument<'a> {
        static NOTHING: Value = Value::Null;
        if let ScriptInput::LoopSummary(summary) = input {
            let instance = self.state.instances.get(id);
            return match (summary, instance.and_then(|instance| Some((instance, instance.body.join()?)))) {
                (LoopSummary::Results, Some((instance, join))) => {
                    let of =
                        (self.number, id.bits(), u64::from(instance.restarts) << 32 | u64::from(instance.attempts));
                    Argument::Growing { of, items: &join.results }
                }
                _ => Argument::Value(number),
            };
        }
        Argument::Value(self.read(id, input).unwrap_or(&NOTHING))
    }

    /// The value that code in `id` reads from a variable, or from a parameter or result of an element.
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
            ScriptInput::LoopSummary(_) => None,
        }
    }
}

fn script_failure(error: &Error) -> Failure {
    let kind = match error.kind {
        ErrorKind::Code => FailureKind::Code,
        _ => FailureKind::Limit,
    };
    Failure::new(kind, error.message.clone()).at_line(error.line)
}
