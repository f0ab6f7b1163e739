//! The bounds of a controller: the iterations of a loop, the cases of a `PARSWITCH`, `JOIN` and `MAX_PARALLEL`.

use std::sync::Arc;

use xavantes_model::definition::{Bound, DefinitionNode, Kind, ListValues, LoopSource, Parallel, Script};
use xavantes_model::script::Sandbox;
use xavantes_model::value::{Type, Value};

use crate::element_id::ElementId;
use crate::engine::Engine;
use crate::event::Bounds;
use crate::failure::{Failure, FailureKind};
use crate::state::body::{Range, count_of};

impl Engine {
    pub(crate) fn evaluate_bounds(
        &mut self,
        sandbox: &mut Sandbox,
        id: ElementId,
        node: &DefinitionNode,
    ) -> Result<Bounds, Box<Failure>> {
        let mut bounds = Bounds::default();
        match &node.kind {
            Kind::For { source, .. } => bounds.range = Some(self.range(sandbox, id, node, source)?),
            Kind::Switch { conditions, .. } => {
                for (position, condition) in conditions.iter().enumerate() {
                    if self.holds(sandbox, id, condition)? {
                        bounds.selected.push(position as u32);
                    }
                }
                if bounds.selected.is_empty() && node.elements.len() > conditions.len() {
                    bounds.selected.push(conditions.len() as u32);
                }
            }
            _ => {}
        }
        if let Some(Parallel { join, max, .. }) = node.kind.parallel() {
            bounds.join = self.count(sandbox, id, node, "JOIN", join.as_ref())?;
            bounds.max = self.count(sandbox, id, node, "MAX_PARALLEL", max.as_ref())?;
        }
        Ok(bounds)
    }

    /// The value of `JOIN` or `MAX_PARALLEL`, which must be positive.
    fn count(
        &mut self,
        sandbox: &mut Sandbox,
        id: ElementId,
        node: &DefinitionNode,
        name: &str,
        bound: Option<&Bound>,
    ) -> Result<Option<u64>, Box<Failure>> {
        let Some(bound) = bound else { return Ok(None) };
        match self.bound(sandbox, id, name, bound)? {
            count @ 1.. => Ok(Some(count as u64)),
            count => Err(Box::new(
                Failure::new(FailureKind::Parameter, format!("{name} must be at least 1, got {count}"))
                    .at_line(node.line),
            )),
        }
    }

    fn bound(&mut self, sandbox: &mut Sandbox, id: ElementId, name: &str, bound: &Bound) -> Result<i64, Box<Failure>> {
        match bound {
            Bound::Literal(literal) => Ok(*literal),
            Bound::Code(script) => {
                let value = self.compute(sandbox, id, script)?;
                whole(name, value).map_err(|failure| Box::new(failure.at_line(script.line)))
            }
        }
    }

    fn range(
        &mut self,
        sandbox: &mut Sandbox,
        id: ElementId,
        node: &DefinitionNode,
        source: &LoopSource,
    ) -> Result<Range, Box<Failure>> {
        let bad = |message: String| Box::new(Failure::new(FailureKind::Parameter, message).at_line(node.line));
        match source {
            LoopSource::Each(ListValues::Literal(items)) => Ok(Range::List(items.clone())),
            LoopSource::Each(ListValues::Code(script)) => Ok(Range::List(self.list(sandbox, id, "EACH", script)?)),
            LoopSource::Grid(axes) => {
                let mut values = Vec::with_capacity(axes.len());
                let mut total = 1u64;
                for axis in axes {
                    let list = match &axis.values {
                        ListValues::Literal(list) => list.clone(),
                        ListValues::Code(script) => {
                            let list = self.list(sandbox, id, &axis.name, script)?;
                            let typed: Result<Vec<Value>, String> =
                                list.iter().map(|value| axis.ty.accept(value.clone())).collect();
                            Arc::new(typed.map_err(|problem| bad(format!("axis {:?}: {problem}", axis.name)))?)
                        }
                    };
                    total = total
                        .checked_mul(list.len() as u64)
                        .ok_or_else(|| bad("the grid has more than 2^64 points".into()))?;
                    values.push(list);
                }
                Ok(Range::Grid(values, total))
            }
            LoopSource::Count { from, to, step, inputs } => {
                let given = |engine: &Engine, offset: u32| {
                    let instance = engine.state.instances.get(id)?;
                    instance.variables.get((inputs + offset) as usize).filter(|value| !value.is_null()).cloned()
                };
                if let Some(Value::List(items)) = given(self, 3) {
                    return Ok(Range::List(items));
                }
                // As with all parameters, a value that code assigned comes before an attribute.
                let mut edge = |bound: &Option<Bound>, offset: u32, name: &str| match (given(self, offset), bound) {
                    (Some(value), _) => whole(name, value).map(Some),
                    (None, Some(bound)) => self.bound(sandbox, id, name, bound).map(Some),
                    (None, None) => Ok(None),
                };
                let begin = edge(from, 0, "FROM")?.unwrap_or(1);
                let end =
                    edge(to, 1, "TO")?.ok_or_else(|| bad("the loop has no bound: set TO or counterEnd".into()))?;
                let step = edge(step, 2, "STEP")?.unwrap_or(1);
                let total = count_of(begin, end, step).ok_or_else(|| bad("STEP must not be 0".into()))?;
                Ok(Range::Count { begin, step, total })
            }
        }
    }

    fn list(
        &mut self,
        sandbox: &mut Sandbox,
        id: ElementId,
        name: &str,
        script: &Script,
    ) -> Result<Arc<Vec<Value>>, Box<Failure>> {
        let value = self.compute(sandbox, id, script)?;
        match Type::List.accept(value) {
            Ok(Value::List(items)) => Ok(items),
            Ok(other) => Err(Box::new(Failure::new(FailureKind::Parameter, other.describe()).at_line(script.line))),
            Err(problem) => {
                let failure = Failure::new(FailureKind::Parameter, format!("{name}: {problem}"));
                Err(Box::new(failure.at_line(script.line)))
            }
        }
    }
}

/// The value of the bound `name`, which must be a whole number.
fn whole(name: &str, value: Value) -> Result<i64, Box<Failure>> {
    match Type::Int.accept(value) {
        Ok(Value::Int(i)) => Ok(i),
        Ok(other) => Err(Box::new(Failure::new(FailureKind::Parameter, format!("{name}: {}", other.describe())))),
        Err(problem) => Err(Box::new(Failure::new(FailureKind::Parameter, format!("{name}: {problem}")))),
    }
}
