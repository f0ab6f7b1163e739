//! Controllers: what comes next. Everything is read off the state, so looking twice does no harm.

use std::cmp::Reverse;
use std::sync::Arc;

use xavantes_model::definition::{AxisValues, Bound, Delegate, Kind, LoopSource, Node, NodeId, Parallel, Script};
use xavantes_model::script::Sandbox;
use xavantes_model::value::{Type, Value};

use crate::engine::{Engine, Output, Task};
use crate::event::{Begin, Event};
use crate::failure::{Failure, FailureKind};
use crate::id::ElementId;
use crate::state::{Body, Outcome, Phase, Range, Stop};

/// What a controller does next.
enum Next {
    /// Creates this element, as this iteration.
    Enter(NodeId, u64),
    /// Waits for what runs in it, or for room.
    Wait,
    /// Would create more if there were room.
    Hunger,
    /// Has done everything.
    Done,
    /// Forks no more.
    Close,
    /// Fails.
    Fail(Box<Failure>),
}

impl Engine {
    /// Lets an element go on as far as it can by itself.
    pub(crate) fn advance(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut Output) {
        let Some(instance) = self.state.instances.get(id) else { return };
        if self.is_paused(id) {
            return;
        }
        match &instance.phase {
            Phase::Entered => self.prepare(sandbox, id, out),
            Phase::Prepared => self.begin(sandbox, id, out),
            Phase::Running => self.run(sandbox, id, out),
            Phase::Stopping(_) => self.stopped(sandbox, id, out),
            Phase::Posted => self.complete(sandbox, id, out),
            Phase::Catching(_) => self.catch(sandbox, id, out),
            Phase::Finishing { .. } => self.finalise(sandbox, id, out),
            Phase::Waiting { until, .. } if *until <= self.now => self.restart(sandbox, id, out),
            Phase::Ready => self.send(id, out),
            Phase::Waiting { .. } | Phase::Held(_) | Phase::Out(_) => {}
        }
    }

    fn prepare(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut Output) {
        let program = self.program.clone();
        let Some(instance) = self.state.instances.get(id) else { return };
        let Some(script) = &self.state.node(&program, instance).pre_code else { return };
        match self.execute(sandbox, id, script) {
            Ok(outputs) => {
                self.emit(out, Event::Prepared { id, outputs });
                self.agenda.push(Task::Advance(id));
            }
            Err(failure) => self.fail(id, failure, out),
        }
    }

    fn begin(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut Output) {
        let program = self.program.clone();
        let Some(instance) = self.state.instances.get(id) else { return };
        let node = self.state.node(&program, instance);
        match self.bounds(sandbox, id, node) {
            Ok(begin) => {
                self.emit(out, Event::Began { id, begin: Box::new(begin) });
                self.agenda.push(Task::Advance(id));
            }
            Err(failure) => self.fail(id, failure, out),
        }
    }

    fn bounds(&mut self, sandbox: &mut Sandbox, id: ElementId, node: &Node) -> Result<Begin, Box<Failure>> {
        let mut begin = Begin::default();
        match &node.kind {
            Kind::For { source, .. } => begin.range = Some(self.range(sandbox, id, node, source)?),
            Kind::Switch { conditions, .. } => {
                for (position, condition) in conditions.iter().enumerate() {
                    if self.holds(sandbox, id, condition)? {
                        begin.selected.push(position as u32);
                    }
                }
                if begin.selected.is_empty() && node.elements.len() > conditions.len() {
                    begin.selected.push(conditions.len() as u32);
                }
            }
            _ => {}
        }
        if let Some(Parallel { join, max, .. }) = node.kind.parallel() {
            begin.join = self.count(sandbox, id, node, "JOIN", join.as_ref())?;
            begin.max = self.count(sandbox, id, node, "MAX_PARALLEL", max.as_ref())?;
        }
        Ok(begin)
    }

    fn count(
        &mut self,
        sandbox: &mut Sandbox,
        id: ElementId,
        node: &Node,
        what: &str,
        bound: Option<&Bound>,
    ) -> Result<Option<u64>, Box<Failure>> {
        let Some(bound) = bound else { return Ok(None) };
        match self.bound(sandbox, id, what, bound)? {
            count @ 1.. => Ok(Some(count as u64)),
            count => Err(Box::new(
                Failure::new(FailureKind::Parameter, format!("{what} must be at least 1, got {count}"))
                    .at_line(node.line),
            )),
        }
    }

    fn bound(&mut self, sandbox: &mut Sandbox, id: ElementId, what: &str, bound: &Bound) -> Result<i64, Box<Failure>> {
        match bound {
            Bound::Literal(literal) => Ok(*literal),
            Bound::Code(script) => {
                let value = self.compute(sandbox, id, script)?;
                whole(what, value).map_err(|failure| Box::new(failure.at_line(script.line)))
            }
        }
    }

    fn range(
        &mut self,
        sandbox: &mut Sandbox,
        id: ElementId,
        node: &Node,
        source: &LoopSource,
    ) -> Result<Range, Box<Failure>> {
        let bad = |message: String| Box::new(Failure::new(FailureKind::Parameter, message).at_line(node.line));
        match source {
            LoopSource::Each(script) => Ok(Range::List(self.list(sandbox, id, "EACH", script)?)),
            LoopSource::Grid(axes) => {
                let mut values = Vec::with_capacity(axes.len());
                let mut total = 1u64;
                for axis in axes {
                    let list = match &axis.values {
                        AxisValues::Literal(list) => list.clone(),
                        AxisValues::Code(script) => {
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
                // As with all parameters, code comes before attributes.
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
        what: &str,
        script: &Script,
    ) -> Result<Arc<Vec<Value>>, Box<Failure>> {
        let value = self.compute(sandbox, id, script)?;
        match Type::List.accept(value) {
            Ok(Value::List(items)) => Ok(items),
            Ok(other) => Err(Box::new(Failure::new(FailureKind::Parameter, other.describe()).at_line(script.line))),
            Err(problem) => {
                let failure = Failure::new(FailureKind::Parameter, format!("{what}: {problem}"));
                Err(Box::new(failure.at_line(script.line)))
            }
        }
    }

    /// One of its elements ended: maybe the exit condition holds now.
    pub(crate) fn on_child_ended(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut Output) {
        let program = self.program.clone();
        let Some(instance) = self.state.instances.get(id) else { return };
        if let (Phase::Running, None, Some(join)) = (&instance.phase, &instance.trouble, instance.body.join())
            && join.ended() > 0
            && !self.is_paused(id)
        {
            let node = self.state.node(&program, instance);
            match self.exits(sandbox, id, node) {
                Ok(false) => {}
                Ok(true) => return self.stop(id, Stop::Exit, out),
                Err(failure) => return self.fail(id, failure, out),
            }
        }
        self.advance(sandbox, id, out);
    }

    fn exits(&mut self, sandbox: &mut Sandbox, id: ElementId, node: &Node) -> Result<bool, Box<Failure>> {
        let Some(parallel) = node.kind.parallel() else { return Ok(false) };
        let Some(join) = self.state.instances.get(id).and_then(|instance| instance.body.join()) else {
            return Ok(false);
        };
        if join.at_least.is_some_and(|count| join.completed >= count) {
            return Ok(true);
        }
        match (join.exit.clone(), &parallel.exit) {
            (Some(text), _) => {
                let script = self.exit_condition(id, &text).map_err(|problem| {
                    Box::new(Failure::new(FailureKind::Code, format!("EXIT_CONDITION: {problem}")))
                })?;
                self.holds(sandbox, id, &script)
            }
            (None, Some(script)) => self.holds(sandbox, id, script),
            (None, None) => Ok(false),
        }
    }

    fn run(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut Output) {
        let program = self.program.clone();
        let Some(instance) = self.state.instances.get(id) else { return };
        if let Some(trouble) = &instance.trouble {
            let failure = trouble.clone();
            return self.fail(id, failure, out);
        }
        let node = self.state.node(&program, instance);
        match self.next(sandbox, id, node) {
            Next::Enter(site, ordinal) => self.enter(sandbox, id, site, ordinal, out),
            Next::Wait => {}
            Next::Hunger => {
                let depth = self.state.instances.get(id).map_or(0, |instance| instance.depth);
                let waiting = if node.spreads { &mut self.spreading } else { &mut self.hungry };
                waiting.insert((Reverse(depth), id));
            }
            Next::Done => self.post(sandbox, id, out),
            Next::Close => {
                self.emit(out, Event::Closed { id });
                self.agenda.push(Task::Advance(id));
            }
            Next::Fail(failure) => self.fail(id, failure, out),
        }
    }

    fn next(&mut self, sandbox: &mut Sandbox, id: ElementId, node: &Node) -> Next {
        let Some(instance) = self.state.instances.get(id) else { return Next::Wait };
        match (&instance.body, &node.kind) {
            (Body::Sequence { current: Some(_), .. } | Body::Choice { current: Some(_), .. }, _) => Next::Wait,
            (Body::Sequence { next, .. }, _) => {
                node.elements.get(*next as usize).map_or(Next::Done, |element| Next::Enter(*element, 0))
            }
            (Body::Choice { chosen: true, .. }, _) => Next::Done,
            (Body::Choice { .. }, Kind::Switch { conditions, .. }) => self.choose(sandbox, id, node, conditions),
            (Body::Par(it), _) => match it.ready.front() {
                None if it.join.live.is_empty() => Next::Done,
                None => Next::Wait,
                Some(_) if !it.join.has_room() => Next::Wait,
                Some(_) if !self.has_room_to_create(node.spreads) => Next::Hunger,
                Some(position) => Next::Enter(node.elements[*position as usize], 0),
            },
            (Body::Loop(it), kind) => {
                let parallel = kind.parallel().is_some();
                let (live, over) = (!it.join.live.is_empty(), it.closed || it.next >= it.range.total());
                match (live, over) {
                    (false, true) => return Next::Done,
                    (true, true) => return Next::Wait,
                    (true, false) if !parallel || !it.join.has_room() => return Next::Wait,
                    _ if parallel && !self.has_room_to_create(node.spreads) => return Next::Hunger,
                    _ => {}
                }
                let turn = Next::Enter(node.elements[0], it.next);
                let Kind::While { condition, .. } = kind else { return turn };
                match self.holds(sandbox, id, condition) {
                    Ok(true) => turn,
                    Ok(false) if live => Next::Close,
                    Ok(false) => Next::Done,
                    Err(failure) => Next::Fail(failure),
                }
            }
            _ => Next::Wait,
        }
    }

    fn choose(&mut self, sandbox: &mut Sandbox, id: ElementId, node: &Node, conditions: &[Script]) -> Next {
        for (condition, case) in conditions.iter().zip(&node.elements) {
            match self.holds(sandbox, id, condition) {
                Ok(true) => return Next::Enter(*case, 0),
                Ok(false) => {}
                Err(failure) => return Next::Fail(failure),
            }
        }
        node.elements.get(conditions.len()).map_or(Next::Done, |default| Next::Enter(*default, 0))
    }

    /// Creates an element. One whose parameters are wrong fails before anything of it runs.
    pub(crate) fn enter(
        &mut self,
        sandbox: &mut Sandbox,
        parent: ElementId,
        site: NodeId,
        ordinal: u64,
        out: &mut Output,
    ) {
        let program = self.program.clone();
        let Some(around) = self.state.instances.get(parent) else { return };
        let node = program.node(around.process as usize, site);
        let bound = self.bind(sandbox, parent, site, ordinal);
        let most = match node.delegate {
            Delegate::Always => self.delegations,
            Delegate::Auto => self.auto_delegations,
            Delegate::Never => 0,
        };
        let delegated = self.state.counts.delegated < most
            && bound.as_ref().is_ok_and(|variables| self.may_travel(parent, node, variables));
        let leaf = delegated || node.kind.is_activity();
        let deadline = node.policy.timeout.filter(|_| !leaf).map(|timeout| self.now.after(timeout));
        let id = self.state.instances.next_id();
        let (variables, failure) = match bound {
            Ok(variables) => (variables, None),
            Err(failure) => (Vec::new(), Some(failure)),
        };
        self.emit(out, Event::Entered { id, parent, site, ordinal, variables, deadline, delegated });
        // A parallel controller looks for more once this one went as far as it can.
        let around = self.state.instances.get(parent).map(|around| self.state.node(&program, around));
        if around.is_some_and(|around| around.kind.parallel().is_some()) {
            self.agenda.push(Task::Advance(parent));
        }
        match failure {
            Some(failure) => {
                let failure = self.placed(id, failure);
                self.conclude(id, Outcome::Failed(failure), None, out);
            }
            None => self.agenda.push(Task::Advance(id)),
        }
    }
}

fn whole(what: &str, value: Value) -> Result<i64, Box<Failure>> {
    match Type::Int.accept(value) {
        Ok(Value::Int(i)) => Ok(i),
        Ok(other) => Err(Box::new(Failure::new(FailureKind::Parameter, format!("{what}: {}", other.describe())))),
        Err(problem) => Err(Box::new(Failure::new(FailureKind::Parameter, format!("{what}: {problem}")))),
    }
}

/// How many numbers there are from `begin` to `end`, both included.
pub(crate) fn count_of(begin: i64, end: i64, step: i64) -> Option<u64> {
    if step == 0 {
        return None;
    }
    let distance = i128::from(end) - i128::from(begin);
    let steps = distance / i128::from(step);
    let reached = distance == 0 || (distance > 0) == (step > 0);
    Some(if reached { u64::try_from(steps + 1).unwrap_or(u64::MAX) } else { 0 })
}
