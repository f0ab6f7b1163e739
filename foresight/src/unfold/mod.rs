//! From a process type and parameters to a task graph: the walk through the elements, as the engine would go.
//!
//! | element | becomes |
//! |---|---|
//! | activity | a task, with the files that it reads and writes |
//! | sequence, `PAR` with `AFTER` | edges |
//! | subprocess | what its type unfolds to |
//! | `FOR`, `PARFOR` | its iterations, one by one up to a limit, in chunks beyond it |
//! | `SWITCH`, `PARSWITCH` | the cases whose conditions hold, or the expected one, or the one with the most work |
//! | `WHILE`, `PARWHILE` | iterations while the condition is known to hold, then the expected number, or a default |
//! | `FINALLY` | runs; `CATCH` and `RETRIES` do not, for nothing is assumed to fail |

mod activity_task;
mod loops;
mod switch;

use std::rc::Rc;

use thiserror::Error;
use xavantes_model::definition::{DefinitionNode, DefinitionNodeId, Kind, Program, Script};
use xavantes_model::script::{Sandbox, ScriptLimits};
use xavantes_model::value::Value;
use xavantes_scheduling::problem::{ProblemError, Work};

use crate::assumption::{Assumed, AssumptionLog};
use crate::expectation::{ExpectationError, Expectations};
use crate::forecast::{Forecast, TaskKind};
use crate::graph::{Frontier, Graph, GraphTask, union};
use crate::known_values::{CodeEvaluator, Known, ScopeFrame, Scopes, initial, list, merged};
use crate::past_runs::Histories;
use crate::stored_input::StoredInput;

/// Upper bound on the elements that one walk enters, tasks or not: a definition of a few lines can describe more than
/// anybody can plan.
const MAX_ELEMENTS: usize = 1_000_000;

/// Upper bound on the depth of calls of process types, as in the engine.
const MAX_CALL_DEPTH: usize = 200;

/// A type that calls itself under an assumption is entered this often; an assumed branch would recurse for ever.
const MAX_ASSUMED_CALLS: usize = 3;

/// Stack for one more level, and what is added when it is used up.
const STACK_LEFT: usize = 128 << 10;
const STACK_MORE: usize = 2 << 20;

/// How to unfold.
pub struct Options<'a> {
    /// What the user expects of elements.
    pub expectations: &'a Expectations,
    /// Past runs.
    pub histories: &'a Histories,
    /// Knows files that no task writes.
    pub input: &'a dyn Fn(&str) -> StoredInput,
    /// At most this many iterations of a loop become tasks of their own; more are planned in chunks.
    pub unroll: u64,
    /// Loops are planned in chunks so that the graph has about this many tasks at most.
    pub max_tasks: usize,
    /// Iterations of a loop whose number is neither known nor expected.
    pub iterations: u64,
    /// Seconds of an activity without estimate and history.
    pub seconds: f64,
}

/// Why a process has no task graph.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum Error {
    /// The process has too many elements.
    #[error("the process has more than {limit} elements: expect fewer iterations, or unroll fewer")]
    TooManyElements {
        /// How many it may have.
        limit: usize,
    },
    /// An expectation does not fit its element.
    #[error(transparent)]
    Expectation(#[from] ExpectationError),
    /// The expression of an estimate fails.
    #[error("{path}: line {line}: the estimate cannot be computed: {message}")]
    Estimate {
        /// The path of the activity.
        path: String,
        /// The line of the expression.
        line: u32,
        /// What is wrong.
        message: String,
    },
    /// The sandbox for code cannot be started.
    #[error("{0}")]
    Sandbox(String),
    /// The graph is no scheduling problem.
    #[error(transparent)]
    Problem(#[from] ProblemError),
}

/// Unfolds a process type with these parameters. Missing parameters have their defaults.
pub fn unfold(
    program: &Program,
    process: usize,
    parameters: &[(String, Value)],
    options: &Options<'_>,
) -> Result<Forecast, Error> {
    let sandbox = Sandbox::new(ScriptLimits::CONTROL, false).map_err(|error| Error::Sandbox(error.message))?;
    let mut walk = Walk {
        program,
        options,
        evaluator: CodeEvaluator { sandbox },
        graph: Graph::default(),
        assumptions: AssumptionLog::default(),
        elements: 0,
        path: Vec::new(),
        calls: Vec::new(),
    };
    let given = |name: &str| parameters.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value.clone());
    let variables = program.node(process, DefinitionNodeId::BODY).variables.iter();
    let values = variables.map(|variable| initial(variable, Known::Value(given(&variable.name).unwrap_or_default())));
    let context = WalkContext { budget: options.max_tasks, times: 1, assumed: false };
    walk.call(process, values.collect(), Rc::new([]), context)?;
    let (workflow, tasks) = walk.graph.build(options.input)?;
    Ok(Forecast { workflow, tasks, assumptions: walk.assumptions.finish() })
}

/// What elements inherit from those around them.
#[derive(Debug, Clone, Copy)]
struct WalkContext {
    /// Tasks that the subtree should have at most.
    budget: usize,
    /// Iterations that each task stands for.
    times: u64,
    /// Whether the element runs only if an assumption holds.
    assumed: bool,
}

struct Walk<'a> {
    program: &'a Program,
    options: &'a Options<'a>,
    evaluator: CodeEvaluator,
    graph: Graph,
    assumptions: AssumptionLog,
    elements: usize,
    /// Names of the elements around, outermost first.
    path: Vec<String>,
    /// Process types around, outermost first.
    calls: Vec<usize>,
}

impl Walk<'_> {
    /// Unfolds an element of the innermost scope. Returns the tasks that have ended when it has ended.
    fn element(
        &mut self,
        scopes: &mut Scopes,
        site: DefinitionNodeId,
        iteration: Option<&loops::Iteration<'_>>,
        entry: Frontier,
        context: WalkContext,
    ) -> Result<Frontier, Error> {
        self.elements += 1;
        if self.elements > MAX_ELEMENTS {
            return Err(Error::TooManyElements { limit: MAX_ELEMENTS });
        }
        let node = self.program.node(scopes.process, site);
        let locals = iteration.map_or(&[][..], |iteration| &iteration.locals);
        self.path.push(iteration.map_or_else(|| node.name.to_string(), |iteration| format!("[{}]", iteration.counter)));
        let values = self.bind(scopes, node, locals);
        let done = stacker::maybe_grow(STACK_LEFT, STACK_MORE, || match node.kind {
            Kind::Activity { activity } => self.activity(scopes, node, activity, values, entry, context),
            Kind::Process { process } => self.call(process, values, entry, context),
            _ => {
                let collect = iteration.and_then(|iteration| iteration.collect);
                self.controller(scopes, node, values, collect, entry, context)
            }
        });
        self.path.pop();
        let (exit, values) = done?;
        if let Some(frame) = scopes.frames.last_mut()
            && iteration.is_none()
        {
            frame.results.insert(site, values);
        }
        Ok(exit)
    }

    /// The values with which an element begins. Those that code set come before attributes.
    fn bind(&mut self, scopes: &Scopes, node: &DefinitionNode, locals: &[Known]) -> Vec<Known> {
        let signature = self.program.signature(node);
        let mut values = vec![Known::nothing(); signature.len()];
        if let Some(bindings) = &node.bindings {
            for (slot, value) in &bindings.literals {
                values[*slot as usize] = Known::Value(value.clone());
            }
            if let Some(script) = &bindings.script {
                let computed = self.evaluate(scopes, script, bindings.targets.len());
                for (slot, value) in bindings.targets.iter().zip(computed) {
                    values[*slot as usize] = value;
                }
            }
        }
        if let Some(around) = scopes.frames.last() {
            for ((_, slot), value) in around.inputs.range((node.id, 0)..=(node.id, u32::MAX)) {
                values[*slot as usize] = value.clone();
            }
        }
        if !locals.is_empty() {
            for (slot, value) in node.local_slots().zip(locals) {
                values[slot] = value.clone();
            }
        }
        let mut values: Vec<_> =
            signature.iter().zip(values).map(|(variable, value)| initial(variable, value)).collect();
        // The BODY of a called type may have variables of its own after the parameters.
        if let Kind::Process { process } = node.kind {
            let own = &self.program.node(process, DefinitionNodeId::BODY).variables[values.len()..];
            values.extend(own.iter().map(|variable| initial(variable, Known::nothing())));
        }
        values
    }

    /// Unfolds the body of a process type.
    fn call(
        &mut self,
        process: usize,
        values: Vec<Known>,
        entry: Frontier,
        context: WalkContext,
    ) -> Result<(Frontier, Vec<Known>), Error> {
        let again = self.calls.iter().filter(|other| **other == process).count();
        if self.calls.len() >= MAX_CALL_DEPTH || (context.assumed && again >= MAX_ASSUMED_CALLS) {
            return Ok((self.cut(entry, context), vec![Known::later(); values.len()]));
        }
        self.calls.push(process);
        let mut scopes = Scopes { process, frames: Vec::new() };
        let body = self.program.node(process, DefinitionNodeId::BODY);
        let done = self.controller(&mut scopes, body, values, None, entry, context);
        self.calls.pop();
        let (exit, mut values) = done?;
        values.truncate(self.program.processes[process].parameters);
        Ok((exit, values))
    }

    /// One task in the place of a call.
    fn cut(&mut self, entry: Frontier, context: WalkContext) -> Frontier {
        self.assume(Assumed::Recursion);
        let work = Work::cpu(self.options.seconds * context.times as f64);
        let (name, kind) = (self.path.join("/"), TaskKind::Cut);
        self.graph.add(GraphTask { name, kind, work, cores: 1, after: entry, reads: Vec::new(), writes: Vec::new() })
    }

    /// Unfolds a controller or a part of one. `collect` is evaluated in its scope, for the loop around it.
    fn controller(
        &mut self,
        scopes: &mut Scopes,
        node: &DefinitionNode,
        values: Vec<Known>,
        collect: Option<&Script>,
        entry: Frontier,
        context: WalkContext,
    ) -> Result<(Frontier, Vec<Known>), Error> {
        scopes.frames.push(ScopeFrame::new(node.id, values));
        self.code(scopes, node.pre_code.as_deref());
        let mut exit = match &node.kind {
            Kind::Switch { conditions, parallel } => {
                self.switch(scopes, node, conditions, parallel.is_some(), entry, context)?
            }
            Kind::For { .. } | Kind::While { .. } => self.iterate(scopes, node, entry, context)?,
            Kind::Par { waits_for, dependents, .. } => self.par(scopes, node, waits_for, dependents, entry, context)?,
            _ => self.sequence(scopes, node, entry, context)?,
        };
        self.summarise(scopes, node);
        if node.kind.parallel().is_some_and(|parallel| parallel.exit.is_some() || parallel.join.is_some()) {
            self.assume(Assumed::AllElements);
        }
        self.code(scopes, node.post_code.as_deref());
        if let Some(finally) = node.finally {
            exit = self.element(scopes, finally, None, exit, context)?;
        }
        let collected = collect.map(|collect| self.expression(scopes, collect));
        let mut frame = scopes.frames.pop();
        if let Some(frame) = &mut frame {
            for forward in &node.forwards {
                let ended = frame.results.get(&forward.element).and_then(|values| values.get(forward.from as usize));
                frame.variables[forward.to as usize] = ended.cloned().unwrap_or_else(Known::nothing);
            }
        }
        let values = frame.map(|frame| frame.variables).unwrap_or_default();
        if let (Some(around), Some(collected)) = (scopes.frames.last_mut(), collected) {
            around.collected.push(collected);
        }
        Ok((exit, values))
    }

    fn sequence(
        &mut self,
        scopes: &mut Scopes,
        node: &DefinitionNode,
        entry: Frontier,
        context: WalkContext,
    ) -> Result<Frontier, Error> {
        let mut at = entry;
        for (element, context) in self.shares(scopes.process, &node.elements, context) {
            at = self.element(scopes, element, None, at, context)?;
        }
        Ok(at)
    }

    fn par(
        &mut self,
        scopes: &mut Scopes,
        node: &DefinitionNode,
        waits_for: &[u32],
        dependents: &[Vec<u32>],
        entry: Frontier,
        context: WalkContext,
    ) -> Result<Frontier, Error> {
        let shares = self.shares(scopes.process, &node.elements, context);
        let roots = waits_for.iter().filter(|waits| **waits == 0).count();
        let entry = self.graph.narrow(entry, roots, || format!("{}/begin", self.path.join("/")));
        let mut waits = waits_for.to_vec();
        let mut before: Vec<Vec<Frontier>> = vec![Vec::new(); shares.len()];
        let mut ends = Vec::new();
        // Elements in the order of the document where that is possible.
        let mut ready: std::collections::BTreeSet<usize> =
            (0..shares.len()).filter(|element| waits[*element] == 0).collect();
        while let Some(element) = ready.pop_first() {
            let waited = std::mem::take(&mut before[element]);
            let at = if waited.is_empty() { entry.clone() } else { union(waited) };
            let (site, context) = shares[element];
            let exit = self.element(scopes, site, None, at, context)?;
            scopes.frames.last_mut().into_iter().for_each(|frame| frame.completed += 1);
            let after = dependents.get(element).map(Vec::as_slice).unwrap_or_default();
            let exit = self.graph.narrow(exit, after.len(), || format!("{}/join", self.path.join("/")));
            for later in after.iter().map(|later| *later as usize) {
                before[later].push(exit.clone());
                waits[later] -= 1;
                if waits[later] == 0 {
                    ready.insert(later);
                }
            }
            if after.is_empty() {
                ends.push(exit);
            }
        }
        Ok(if ends.is_empty() { entry } else { union(ends) })
    }

    /// Elements, each with its part of the tasks that all should have.
    fn shares(
        &self,
        process: usize,
        elements: &[DefinitionNodeId],
        context: WalkContext,
    ) -> Vec<(DefinitionNodeId, WalkContext)> {
        let weights: Vec<usize> = elements.iter().map(|element| self.weight(process, *element)).collect();
        let total = weights.iter().sum::<usize>().max(1);
        let share = |(element, weight): (&DefinitionNodeId, usize)| {
            let budget = (context.budget as u128 * weight as u128 / total as u128) as usize;
            (*element, WalkContext { budget: budget.max(1), ..context })
        };
        elements.iter().zip(weights).map(share).collect()
    }

    /// Activities and calls in a subtree, at least one.
    fn weight(&self, process: usize, node: DefinitionNodeId) -> usize {
        let nodes = &self.program.processes[process].nodes;
        let inside = &nodes[node.index()..nodes[node.index()].end.index()];
        let works = |node: &&DefinitionNode| matches!(node.kind, Kind::Activity { .. } | Kind::Process { .. });
        inside.iter().filter(works).count().max(1)
    }

    /// What code around a loop or parallel controller reads after its end.
    fn summarise(&self, scopes: &mut Scopes, node: &DefinitionNode) {
        if !node.kind.is_loop() && node.kind.parallel().is_none() {
            return;
        }
        let Some(frame) = scopes.frames.last_mut() else { return };
        let number = |number: u64| Known::Value(Value::Int(number as i64));
        // Of a chunk only one value was collected.
        let results = match frame.completed == frame.collected.len() as u64 {
            true => list(&frame.collected),
            false => merged(&frame.collected),
        };
        let values = [number(frame.completed), number(0), number(0), results];
        let count = if node.kind.collect().is_some() { 4 } else { 3 };
        for (slot, value) in (node.summary as usize..).zip(values).take(count) {
            if let Some(place) = frame.variables.get_mut(slot) {
                *place = value;
            }
        }
    }

    /// Runs statements as far as what they read is known.
    fn code(&mut self, scopes: &mut Scopes, script: Option<&Script>) {
        let Some(script) = script else { return };
        let values = self.evaluate(scopes, script, script.outputs.len());
        for (target, value) in script.outputs.iter().zip(values) {
            scopes.assign(self.program, *target, value);
        }
    }

    fn evaluate(&mut self, scopes: &Scopes, script: &Script, wanted: usize) -> Vec<Known> {
        let (values, problem) = self.evaluator.run(scopes, script, wanted);
        if let Some(message) = problem {
            self.assume(Assumed::Code { message });
        }
        values
    }

    /// The value of one expression.
    fn expression(&mut self, scopes: &Scopes, script: &Script) -> Known {
        self.evaluate(scopes, script, 1).pop().unwrap_or_else(Known::nothing)
    }

    /// Whether a condition holds, if that is known.
    fn holds(&mut self, scopes: &Scopes, script: &Script) -> Option<bool> {
        let value = self.expression(scopes, script);
        value.value().map(|value| !matches!(value, Value::Null | Value::Bool(false)))
    }

    /// Notes an assumption about the element whose path this is, in all of its iterations.
    fn assume(&mut self, what: Assumed) {
        let names: Vec<&str> = self.path.iter().filter(|name| !name.starts_with('[')).map(String::as_str).collect();
        let element = if names.is_empty() { "the process".to_owned() } else { names.join("/") };
        self.assumptions.add(element, what);
    }
}
