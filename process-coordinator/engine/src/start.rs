//! How an engine begins: with a new process, from a snapshot, or from a journal.

use std::collections::BTreeMap;
use std::sync::Arc;

use xavantes_model::definition::{DefinitionNodeId, Program, ScriptInput};
use xavantes_model::value::Value;

use crate::apply::ApplyError;
use crate::decide::parameters::initial_value;
use crate::element_id::ElementId;
use crate::engine::{AgendaItem, Engine};
use crate::event::Event;
use crate::state::EngineState;
use crate::step_output::StepOutput;
use crate::time::Time;

/// The node of the program that a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    /// The process type.
    pub process: usize,
    /// The `BODY` of the process type, or a controller in it that another coordinator delegated.
    pub node: DefinitionNodeId,
}

/// A process to start.
#[derive(Debug, Clone)]
pub struct Start {
    /// The id of the process, with which every path begins.
    pub id: Arc<str>,
    /// What the process runs.
    pub root: Root,
    /// The root's parameters by name. A delegated root has `variables` instead.
    pub parameters: Vec<(String, Value)>,
    /// All variables of a delegated root, in order.
    pub variables: Option<Vec<Value>>,
    /// Values that a delegated root reads from the scopes around it.
    pub captured: Vec<(ScriptInput, Value)>,
    /// The number of calls of process types around the root.
    pub call_depth: u32,
}

impl Start {
    /// A process of a type, with its parameters by name.
    pub fn new(id: impl Into<Arc<str>>, process: usize, parameters: Vec<(String, Value)>) -> Self {
        let root = Root { process, node: DefinitionNodeId::BODY };
        Self { id: id.into(), root, parameters, variables: None, captured: Vec::new(), call_depth: 0 }
    }
}

impl Engine {
    /// Starts a process. The first step does the first work. If parameters are wrong, the process does not start, and
    /// the error lists everything that is wrong.
    pub fn start(program: Arc<Program>, start: Start, now: Time, out: &mut StepOutput) -> Result<Self, Vec<String>> {
        let variables = match start.variables {
            Some(variables) => variables,
            None => bind_root(&program, start.root, start.parameters)?,
        };
        let mut engine = Self::new(program, EngineState::default());
        engine.now = now;
        let event = Event::Started {
            process: start.id,
            root_process: start.root.process as u32,
            root: start.root.node,
            variables,
            captured: start.captured,
            call_depth: start.call_depth,
        };
        engine.emit(out, event);
        engine.agenda.extend(engine.state.root.map(AgendaItem::Advance));
        Ok(engine)
    }

    /// Continues from a snapshot.
    pub fn restore(program: Arc<Program>, state: EngineState) -> Self {
        let mut engine = Self::new(program, state);
        engine.examine_all();
        engine
    }

    /// Lets every live element go on, after they came into the state together.
    pub(crate) fn examine_all(&mut self) {
        let ids: Vec<ElementId> = self.state.instances.ids().collect();
        for id in ids {
            self.update_timer(id, None);
            self.agenda.push(AgendaItem::ChildEnded(id));
            self.stops.push(id);
        }
    }

    /// Continues from a journal: all events from the beginning, or those since the snapshot `state`.
    pub fn replay<'a>(
        program: Arc<Program>,
        mut state: EngineState,
        events: impl IntoIterator<Item = &'a Event>,
    ) -> Result<Self, ApplyError> {
        for event in events {
            state.apply(&program, event)?;
        }
        Ok(Self::restore(program, state))
    }
}

/// The root's variables from the parameters of the process. The error lists everything that is wrong with them.
fn bind_root(program: &Program, root: Root, parameters: Vec<(String, Value)>) -> Result<Vec<Value>, Vec<String>> {
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
        variables.push(initial_value(variable, value.unwrap_or_default()).unwrap_or_else(|problem| {
            problems.push(problem);
            Value::Null
        }));
    }
    if problems.is_empty() { Ok(variables) } else { Err(problems) }
}
