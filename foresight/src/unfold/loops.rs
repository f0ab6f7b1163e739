//! Loops become their iterations: one by one up to a limit, in chunks beyond it.

use std::sync::Arc;

use xavantes_model::definition::{Bound, DefinitionNode, Direction, Kind, ListValues, LoopSource, Script};
use xavantes_model::value::{Type, Value};

use super::activity_task::items;
use super::{Error, Walk, WalkContext};
use crate::assumption::Assumed;
use crate::expectation::ExpectationError;
use crate::graph::{Frontier, union};
use crate::known_values::{Known, Scopes};

/// One iteration: the name in paths, and the values of `counter`, `item` and axes.
pub(super) struct Iteration<'a> {
    pub counter: i64,
    pub locals: Vec<Known>,
    pub collect: Option<&'a Script>,
}

/// The values that a loop goes through, as far as they are known.
enum IterationRange {
    Count {
        begin: i64,
        step: i64,
        total: u64,
    },
    List(Arc<Vec<Value>>),
    Grid(Vec<Arc<Vec<Value>>>, u64),
    /// This many iterations, with values that are not known.
    Assumed(u64),
}

impl IterationRange {
    fn total(&self) -> u64 {
        match self {
            IterationRange::Count { total, .. } | IterationRange::Grid(_, total) | IterationRange::Assumed(total) => {
                *total
            }
            IterationRange::List(items) => items.len() as u64,
        }
    }

    fn iteration<'a>(&self, ordinal: u64, node: &'a DefinitionNode) -> Iteration<'a> {
        let position = ordinal as i64 + 1;
        let collect = node.kind.collect();
        match self {
            IterationRange::Count { begin, step, .. } => {
                let counter = begin.saturating_add(step.saturating_mul(ordinal as i64));
                Iteration { counter, locals: vec![Known::Value(Value::Int(counter))], collect }
            }
            IterationRange::List(items) => {
                let item = items.get(ordinal as usize).cloned().unwrap_or_default();
                let locals = vec![Known::Value(Value::Int(position)), Known::Value(item)];
                Iteration { counter: position, locals, collect }
            }
            IterationRange::Grid(axes, _) => {
                let mut rest = ordinal;
                let mut values: Vec<Known> = Vec::with_capacity(axes.len() + 1);
                for axis in axes.iter().rev() {
                    let length = axis.len().max(1) as u64;
                    values.push(Known::Value(axis.get((rest % length) as usize).cloned().unwrap_or_default()));
                    rest /= length;
                }
                values.push(Known::Value(Value::Int(position)));
                values.reverse();
                Iteration { counter: position, locals: values, collect }
            }
            IterationRange::Assumed(_) => {
                let mut locals = vec![Known::later(); node.local_slots().len()];
                if let Some(counter) = locals.first_mut() {
                    *counter = Known::Value(Value::Int(position));
                }
                Iteration { counter: position, locals, collect }
            }
        }
    }
}

impl Walk<'_> {
    pub(super) fn iterate(
        &mut self,
        scopes: &mut Scopes,
        node: &DefinitionNode,
        entry: Frontier,
        context: WalkContext,
    ) -> Result<Frontier, Error> {
        match &node.kind {
            Kind::For { source, .. } => {
                let known = self.range(scopes, source);
                let assumed = known.is_none();
                let range = match known {
                    Some(range) => range,
                    None => IterationRange::Assumed(self.assumed_iterations()?),
                };
                self.chunks(
                    scopes,
                    node,
                    &range,
                    0,
                    entry,
                    WalkContext { assumed: context.assumed || assumed, ..context },
                )
            }
            Kind::While { condition, .. } => self.while_loop(scopes, node, condition, entry, context),
            _ => Ok(entry),
        }
    }

    /// Iterations while the condition is known to hold, then as many as are assumed.
    fn while_loop(
        &mut self,
        scopes: &mut Scopes,
        node: &DefinitionNode,
        condition: &Script,
        entry: Frontier,
        context: WalkContext,
    ) -> Result<Frontier, Error> {
        let most = self.options.unroll.min(context.budget as u64).max(1);
        let mut before = LoopEnd::new(entry, self.width(scopes, node));
        let mut done = 0;
        loop {
            match self.holds(scopes, condition) {
                Some(false) => return Ok(before.finish()),
                Some(true) if done < most => {
                    let iteration = IterationRange::Assumed(most).iteration(done, node);
                    self.iteration(scopes, node, &iteration, &mut before, context, 1)?;
                    done += 1;
                }
                _ => break,
            }
        }
        let expected = self.assumed_iterations()?;
        let rest = IterationRange::Assumed(expected.max(done));
        let context = WalkContext { assumed: true, ..context };
        self.chunks(scopes, node, &rest, done, before.finish(), context)
    }

    /// Runs the iterations from `first` on, in as many chunks as fit.
    fn chunks(
        &mut self,
        scopes: &mut Scopes,
        node: &DefinitionNode,
        range: &IterationRange,
        first: u64,
        entry: Frontier,
        context: WalkContext,
    ) -> Result<Frontier, Error> {
        let iterations = range.total().saturating_sub(first);
        let weight = self.weight(scopes.process, node.id) as u64;
        let room = (context.budget as u64 / weight).max(1);
        let chunks = iterations.min(self.options.unroll.max(1)).min(room);
        if chunks == 0 {
            return Ok(entry);
        }
        if chunks < iterations {
            self.assume(Assumed::Chunks { iterations, chunks });
        }
        let parallel = node.kind.parallel().is_some();
        let width = self.width(scopes, node);
        let entry = match parallel {
            true => self.graph.narrow(entry, chunks as usize, || format!("{}/begin", self.path.join("/"))),
            false => entry,
        };
        let mut before = LoopEnd::new(entry, width);
        let budget = (context.budget / chunks as usize).max(1);
        let edge = |chunk: u64| first + (u128::from(chunk) * u128::from(iterations) / u128::from(chunks)) as u64;
        for chunk in 0..chunks {
            let iteration = range.iteration(edge(chunk), node);
            let size = edge(chunk + 1) - edge(chunk);
            self.iteration(scopes, node, &iteration, &mut before, WalkContext { budget, ..context }, size)?;
        }
        if chunks < iterations && !parallel {
            self.forget_assigned(scopes, node);
        }
        Ok(before.finish())
    }

    /// Runs one iteration, or `size` of them as one.
    fn iteration(
        &mut self,
        scopes: &mut Scopes,
        node: &DefinitionNode,
        iteration: &Iteration<'_>,
        before: &mut LoopEnd,
        context: WalkContext,
        size: u64,
    ) -> Result<(), Error> {
        let Some(body) = node.elements.first().copied() else { return Ok(()) };
        let context = WalkContext { times: context.times.saturating_mul(size), ..context };
        let exit = self.element(scopes, body, Some(iteration), before.entry(), context)?;
        before.add(exit);
        if let Some(frame) = scopes.frames.last_mut() {
            frame.completed += size;
        }
        Ok(())
    }

    /// Iterations that may run at once.
    fn width(&mut self, scopes: &Scopes, node: &DefinitionNode) -> Option<usize> {
        let Some(parallel) = node.kind.parallel() else { return Some(1) };
        let most = parallel.max.as_ref()?;
        self.bound(scopes, most).map(|most| most.clamp(1, i64::from(u32::MAX)) as usize)
    }

    /// The number of iterations that the user expects, or the default.
    fn assumed_iterations(&mut self) -> Result<u64, Error> {
        let (count, expected) = match self.options.expectations.of(&self.path) {
            None => (self.options.iterations, false),
            Some(value) => {
                let wrong = |_| ExpectationError::Count { path: self.path.join("/"), value: value.to_owned() };
                (value.parse().map_err(wrong)?, true)
            }
        };
        self.assume(Assumed::Iterations { count, expected });
        Ok(count)
    }

    /// The values of a loop, if they are known.
    fn range(&mut self, scopes: &Scopes, source: &LoopSource) -> Option<IterationRange> {
        match source {
            LoopSource::Each(ListValues::Literal(list)) => Some(IterationRange::List(list.clone())),
            LoopSource::Each(ListValues::Code(script)) => {
                items(&self.expression(scopes, script)).map(IterationRange::List)
            }
            LoopSource::Grid(axes) => {
                let mut values = Vec::with_capacity(axes.len());
                for axis in axes {
                    values.push(match &axis.values {
                        ListValues::Literal(list) => list.clone(),
                        ListValues::Code(script) => items(&self.expression(scopes, script))?,
                    });
                }
                let total = values.iter().try_fold(1u64, |total, axis| total.checked_mul(axis.len() as u64))?;
                Some(IterationRange::Grid(values, total))
            }
            LoopSource::Count { from, to, step, inputs } => {
                let given: Vec<Known> = {
                    let frame = scopes.frames.last()?;
                    let slot = |offset: u32| frame.variables.get((inputs + offset) as usize).cloned();
                    (0..4).map(|offset| slot(offset).unwrap_or_else(Known::nothing)).collect()
                };
                match &given[3] {
                    Known::Later(_) => return None,
                    given if items(given).is_some() => return items(given).map(IterationRange::List),
                    _ => {}
                }
                let mut edge = |given: &Known, bound: &Option<Bound>, default: Option<i64>| match (given, bound) {
                    (Known::Later(_), _) => None,
                    (Known::Value(value), _) if !value.is_null() => whole(value),
                    (_, Some(bound)) => self.bound(scopes, bound),
                    (_, None) => default,
                };
                let begin = edge(&given[0], from, Some(1))?;
                let end = edge(&given[1], to, None)?;
                let step = edge(&given[2], step, Some(1))?;
                Some(IterationRange::Count { begin, step, total: count(begin, end, step)? })
            }
        }
    }

    /// The value of a bound, if it is known.
    fn bound(&mut self, scopes: &Scopes, bound: &Bound) -> Option<i64> {
        match bound {
            Bound::Literal(literal) => Some(*literal),
            Bound::Code(script) => self.expression(scopes, script).value().and_then(whole),
        }
    }

    /// After a sequential loop in chunks, what its iterations assigned is not known.
    fn forget_assigned(&self, scopes: &mut Scopes, node: &DefinitionNode) {
        let Some(frame) = scopes.frames.last_mut() else { return };
        for (variable, value) in node.variables.iter().zip(&mut frame.variables) {
            if matches!(variable.direction, Direction::Out | Direction::InOut) && !variable.implicit {
                *value = Known::later();
            }
        }
    }
}

/// Iterations that have ended. With a width, an iteration waits for the one that is `width` places before it.
struct LoopEnd {
    entry: Frontier,
    width: Option<usize>,
    exits: Vec<Frontier>,
}

impl LoopEnd {
    fn new(entry: Frontier, width: Option<usize>) -> Self {
        Self { entry, width, exits: Vec::new() }
    }

    /// What the next iteration waits for.
    fn entry(&self) -> Frontier {
        let before = self.width.and_then(|width| self.exits.len().checked_sub(width));
        before.map_or_else(|| self.entry.clone(), |place| self.exits[place].clone())
    }

    fn add(&mut self, exit: Frontier) {
        self.exits.push(exit);
    }

    /// What has ended when all iterations have.
    fn finish(self) -> Frontier {
        let last = match self.width {
            Some(width) => self.exits.len().saturating_sub(width),
            None => 0,
        };
        if self.exits.is_empty() { self.entry } else { union(self.exits.into_iter().skip(last)) }
    }
}

fn whole(value: &Value) -> Option<i64> {
    match Type::Int.accept(value.clone()) {
        Ok(Value::Int(number)) => Some(number),
        _ => None,
    }
}

/// Iterations from `begin` to `end`, which is included.
fn count(begin: i64, end: i64, step: i64) -> Option<u64> {
    let (begin, end, step) = (i128::from(begin), i128::from(end), i128::from(step));
    let steps = match step {
        0 => return None,
        1.. => (end - begin).div_euclid(step),
        _ => (begin - end).div_euclid(-step),
    };
    u64::try_from((steps + 1).max(0)).ok()
}
