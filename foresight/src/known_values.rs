//! Values that are known before the process runs, in the scopes of its elements, and the code that computes them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use xavantes_model::definition::{DefinitionNodeId, LoopSummary, Program, Script, ScriptInput, ScriptTarget, Variable};
use xavantes_model::script::{Argument, Sandbox};
use xavantes_model::shared_objects::Objects;
use xavantes_model::value::Value;

/// A value, as far as it is known.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    /// The value.
    Value(Value),
    /// It comes from activities. If they write files, the value may refer to these.
    Later(Sources),
}

/// Files of the graph that a value may refer to.
pub(crate) type Sources = Rc<BTreeSet<u32>>;

impl Known {
    pub(crate) fn nothing() -> Self {
        Self::Value(Value::Null)
    }

    pub(crate) fn later() -> Self {
        Self::Later(Sources::default())
    }

    pub(crate) fn value(&self) -> Option<&Value> {
        match self {
            Self::Value(value) => Some(value),
            Self::Later(_) => None,
        }
    }
}

/// What depends on all of these values.
pub(crate) fn merged<'a>(values: impl IntoIterator<Item = &'a Known>) -> Known {
    let mut sources = Sources::default();
    for value in values {
        let Known::Later(more) = value else { continue };
        if sources.is_empty() {
            sources = more.clone();
        } else if !more.is_empty() && !Rc::ptr_eq(more, &sources) {
            Rc::make_mut(&mut sources).extend(more.iter());
        }
    }
    Known::Later(sources)
}

/// A scope: an element that has begun.
#[derive(Debug, Clone)]
pub(crate) struct ScopeFrame {
    pub node: DefinitionNodeId,
    pub variables: Vec<Known>,
    /// Parameters of elements that code has set.
    pub inputs: BTreeMap<(DefinitionNodeId, u32), Known>,
    /// Parameters and results of elements that have ended.
    pub results: BTreeMap<DefinitionNodeId, Vec<Known>>,
    /// Iterations or elements that have ended.
    pub completed: u64,
    /// What `COLLECT` gave so far.
    pub collected: Vec<Known>,
}

impl ScopeFrame {
    pub(crate) fn new(node: DefinitionNodeId, variables: Vec<Known>) -> Self {
        let (inputs, results) = (BTreeMap::new(), BTreeMap::new());
        Self { node, variables, inputs, results, completed: 0, collected: Vec::new() }
    }
}

/// The scopes of one call of a process type, outermost first.
#[derive(Debug, Clone)]
pub(crate) struct Scopes {
    pub process: usize,
    pub frames: Vec<ScopeFrame>,
}

impl Scopes {
    fn frame(&self, node: DefinitionNodeId) -> Option<&ScopeFrame> {
        self.frames.iter().rev().find(|frame| frame.node == node)
    }

    fn frame_mut(&mut self, node: DefinitionNodeId) -> Option<&mut ScopeFrame> {
        self.frames.iter_mut().rev().find(|frame| frame.node == node)
    }

    /// The value that code in the innermost scope reads.
    pub(crate) fn read(&self, input: ScriptInput) -> Known {
        let found = match input {
            ScriptInput::Variable { node, slot } => {
                self.frame(node).and_then(|frame| frame.variables.get(slot as usize).cloned())
            }
            ScriptInput::Element { scope, element, slot } => self.frame(scope).and_then(|frame| {
                let ended = frame.results.get(&element).and_then(|values| values.get(slot as usize));
                ended.or_else(|| frame.inputs.get(&(element, slot))).cloned()
            }),
            ScriptInput::LoopSummary(summary) => self.frames.last().map(|frame| match summary {
                LoopSummary::Completed => Known::Value(Value::Int(frame.completed as i64)),
                LoopSummary::Counter => Known::Value(Value::Int(frame.completed as i64 + 1)),
                LoopSummary::Failed | LoopSummary::Cancelled => Known::Value(Value::Int(0)),
                LoopSummary::Running => Known::later(),
                LoopSummary::Results => list(&frame.collected),
            }),
        };
        found.unwrap_or_else(Known::nothing)
    }

    /// Sets what a script of the innermost scope assigned.
    pub(crate) fn assign(&mut self, program: &Program, target: ScriptTarget, value: Known) {
        match target {
            ScriptTarget::Variable { node, slot } => {
                let typed = typed(program.node(self.process, node).variables.get(slot as usize), value);
                if let Some(place) = self.frame_mut(node).and_then(|frame| frame.variables.get_mut(slot as usize)) {
                    *place = typed;
                }
            }
            ScriptTarget::Element { element, slot } => {
                let signature = program.signature(program.node(self.process, element));
                let typed = typed(signature.get(slot as usize), value);
                if let Some(frame) = self.frames.last_mut() {
                    frame.inputs.insert((element, slot), typed);
                }
            }
        }
    }
}

/// A list of these values.
pub(crate) fn list(values: &[Known]) -> Known {
    let known: Option<Vec<Value>> = values.iter().map(|value| value.value().cloned()).collect();
    known.map_or_else(|| merged(values), |values| Known::Value(values.into()))
}

/// The value as its variable takes it. What does not fit would fail; here it is not known.
fn typed(variable: Option<&Variable>, value: Known) -> Known {
    match (variable.and_then(|variable| variable.ty), value) {
        (Some(ty), Known::Value(value)) if !value.is_null() => {
            ty.accept(value).map_or_else(|_| Known::later(), Known::Value)
        }
        (_, value) => value,
    }
}

/// The value with which a variable begins.
pub(crate) fn initial(variable: &Variable, value: Known) -> Known {
    match (value, &variable.default) {
        (Known::Value(Value::Null), Some(default)) => Known::Value(default.clone()),
        (value, _) => typed(Some(variable), value),
    }
}

/// Runs code where all that it reads is known.
pub(crate) struct CodeEvaluator {
    pub sandbox: Sandbox,
}

impl CodeEvaluator {
    /// The values of a script, as many as wanted. Code that reads what is not known, uses shared objects or fails gives
    /// values that are not known; the error is the message of the failure.
    pub(crate) fn run(&mut self, scopes: &Scopes, script: &Script, wanted: usize) -> (Vec<Known>, Option<String>) {
        let inputs: Vec<Known> = script.inputs.iter().map(|input| scopes.read(*input)).collect();
        let unknown = || vec![merged(&inputs); wanted];
        let values: Option<Vec<&Value>> = inputs.iter().map(Known::value).collect();
        let Some(values) = values else { return (unknown(), None) };
        if values.iter().any(|value| has_shared(value)) {
            return (unknown(), None);
        }
        let arguments = values.into_iter().map(Argument::Value);
        match self.sandbox.run(&script.code, arguments, &mut Objects::default()) {
            Ok((mut results, effects)) => {
                results.resize(wanted, Value::Null);
                // Objects live on a coordinator: here nobody would see their changes.
                let known = |value: Value| if has_shared(&value) { Known::later() } else { Known::Value(value) };
                match effects.is_empty() {
                    true => (results.into_iter().map(known).collect(), None),
                    false => (unknown(), None),
                }
            }
            Err(error) => (unknown(), Some(format!("line {}: {error}", error.line))),
        }
    }
}

fn has_shared(value: &Value) -> bool {
    let mut shared = false;
    value.each_shared(&mut |_| shared = true);
    shared
}
