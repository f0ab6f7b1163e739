//! Controllers: which element of a sequence, switch, loop or `PAR` comes next.

use std::cmp::Reverse;

use xavantes_model::definition::{DefinitionNode, DefinitionNodeId, Delegate, Kind, Script};
use xavantes_model::script::Sandbox;

use crate::element_id::ElementId;
use crate::engine::{AgendaItem, Engine};
use crate::event::Event;
use crate::failure::{Failure, FailureKind};
use crate::outcome::{Outcome, StopReason};
use crate::state::body::{Body, Range};
use crate::state::instance::Phase;
use crate::state::size::{INSTANCE_BYTES, bytes_of};
use crate::step_output::StepOutput;

/// What a controller does next.
enum Next {
    /// Creates the element at this site, with this ordinal.
    Enter(DefinitionNodeId, u64),
    /// Waits for the elements in it.
    Wait,
    /// Waits for capacity to create more elements.
    AwaitCapacity,
    /// Has done everything; `POST_CODE` comes next.
    Done,
    /// Begins no more iterations, and waits for those that run.
    Close,
    /// Fails.
    Fail(Box<Failure>),
}

impl Engine {
    /// Lets an element go on to its next phase, if it does not have to wait.
    pub(crate) fn advance(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut StepOutput) {
        let Some(instance) = self.state.instances.get(id) else { return };
        if self.is_paused(id) {
            return;
        }
        match &instance.phase {
            Phase::Entered => self.prepare(sandbox, id, out),
            Phase::Prepared => self.begin(sandbox, id, out),
            Phase::Running => self.run(sandbox, id, out),
            Phase::Stopping(_) => self.finish_stopping(sandbox, id, out),
            Phase::Posted => self.complete(sandbox, id, out),
            Phase::Catching(_) => self.catch(sandbox, id, out),
            Phase::Finishing { .. } => self.finalise(sandbox, id, out),
            Phase::Waiting { until, .. } if *until <= self.now => self.restart(sandbox, id, out),
            Phase::Ready => self.send(id, out),
            Phase::Waiting { .. } | Phase::Held(_) | Phase::Outstanding(_) => {}
        }
    }

    /// Runs `PRE_CODE`.
    fn prepare(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut StepOutput) {
        let program = self.program.clone();
        let Some(instance) = self.state.instances.get(id) else { return };
        let Some(script) = &self.state.node(&program, instance).pre_code else { return };
        match self.execute(sandbox, id, script) {
            Ok(outputs) => {
                self.emit(out, Event::Prepared { id, outputs });
                self.agenda.push(AgendaItem::Advance(id));
            }
            Err(failure) => self.fail(id, failure, out),
        }
    }

    /// Evaluates the bounds.
    fn begin(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut StepOutput) {
        let program = self.program.clone();
        let Some(instance) = self.state.instances.get(id) else { return };
        let node = self.state.node(&program, instance);
        let bounds = self.evaluate_bounds(sandbox, id, node).and_then(|bounds| {
            let added = bounds.range.as_ref().map_or(0, Range::bytes);
            self.check_budget(id, None, added).map(|()| bounds)
        });
        match bounds {
            Ok(bounds) => {
                self.emit(out, Event::Began { id, bounds: Box::new(bounds) });
                self.agenda.push(AgendaItem::Advance(id));
            }
            Err(failure) => self.fail(id, failure, out),
        }
    }

    /// An element of the controller ended: checks the exit condition, then lets the controller go on.
    pub(crate) fn on_child_ended(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut StepOutput) {
        let program = self.program.clone();
        let Some(instance) = self.state.instances.get(id) else { return };
        if let (Phase::Running, None, Some(join)) = (&instance.phase, &instance.pending_failure, instance.body.join())
            && join.ended() > 0
            && !self.is_paused(id)
        {
            let node = self.state.node(&program, instance);
            match self.exits(sandbox, id, node) {
                Ok(false) => {}
                Ok(true) => return self.stop(id, StopReason::Exit, out),
                Err(failure) => return self.fail(id, failure, out),
            }
        }
        self.advance(sandbox, id, out);
    }

    /// `JOIN` or the exit condition ends the controller.
    fn exits(&mut self, sandbox: &mut Sandbox, id: ElementId, node: &DefinitionNode) -> Result<bool, Box<Failure>> {
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

    /// Lets the body go on.
    fn run(&mut self, sandbox: &mut Sandbox, id: ElementId, out: &mut StepOutput) {
        let program = self.program.clone();
        let Some(instance) = self.state.instances.get(id) else { return };
        if let Some(failure) = &instance.pending_failure {
            let failure = failure.clone();
            return self.fail(id, failure, out);
        }
        let node = self.state.node(&program, instance);
        match self.next(sandbox, id, node) {
            Next::Enter(site, ordinal) => self.enter(sandbox, id, site, ordinal, out),
            Next::Wait => {}
            Next::AwaitCapacity => {
                let depth = self.state.instances.get(id).map_or(0, |instance| instance.depth);
                let starved = if node.spreads { &mut self.starved_spreading } else { &mut self.starved };
                starved.insert((Reverse(depth), id));
            }
            Next::Done => self.post(sandbox, id, out),
            Next::Close => {
                self.emit(out, Event::Closed { id });
                self.agenda.push(AgendaItem::Advance(id));
            }
            Next::Fail(failure) => self.fail(id, failure, out),
        }
    }

    /// Decides what the body does next.
    fn next(&mut self, sandbox: &mut Sandbox, id: ElementId, node: &DefinitionNode) -> Next {
        let Some(instance) = self.state.instances.get(id) else { return Next::Wait };
        match (&instance.body, &node.kind) {
            (Body::Sequence { current: Some(_), .. } | Body::Choice { current: Some(_), .. }, _) => Next::Wait,
            (Body::Sequence { next, .. }, _) => {
                node.elements.get(*next as usize).map_or(Next::Done, |element| Next::Enter(*element, 0))
            }
            (Body::Choice { chosen: true, .. }, _) => Next::Done,
            (Body::Choice { .. }, Kind::Switch { conditions, .. }) => self.choose(sandbox, id, node, conditions),
            (Body::Par(body), _) => match body.ready.front() {
                None if body.join.live.is_empty() => Next::Done,
                None => Next::Wait,
                Some(_) if !body.join.admits_more() => Next::Wait,
                Some(_) if !self.has_capacity_to_create(node.spreads) => Next::AwaitCapacity,
                Some(position) => Next::Enter(node.elements[*position as usize], 0),
            },
            (Body::Loop(_), _) => self.next_iteration(sandbox, id, node),
            _ => Next::Wait,
        }
    }

    fn next_iteration(&mut self, sandbox: &mut Sandbox, id: ElementId, node: &DefinitionNode) -> Next {
        let Some(Body::Loop(body)) = self.state.instances.get(id).map(|instance| &instance.body) else {
            return Next::Wait;
        };
        let parallel = node.kind.parallel().is_some();
        let (live, exhausted) = (!body.join.live.is_empty(), body.closed || body.next >= body.range.total());
        match (live, exhausted) {
            (false, true) => return Next::Done,
            (true, true) => return Next::Wait,
            (true, false) if !parallel || !body.join.admits_more() => return Next::Wait,
            _ if parallel && !self.has_capacity_to_create(node.spreads) => return Next::AwaitCapacity,
            _ => {}
        }
        let iteration = Next::Enter(node.elements[0], body.next);
        let Kind::While { condition, .. } = &node.kind else { return iteration };
        match self.holds(sandbox, id, condition) {
            Ok(true) => iteration,
            Ok(false) if live => Next::Close,
            Ok(false) => Next::Done,
            Err(failure) => Next::Fail(failure),
        }
    }

    /// The first case of a `SWITCH` whose condition holds, or its `DEFAULT`.
    fn choose(&mut self, sandbox: &mut Sandbox, id: ElementId, node: &DefinitionNode, conditions: &[Script]) -> Next {
        for (condition, case) in conditions.iter().zip(&node.elements) {
            match self.holds(sandbox, id, condition) {
                Ok(true) => return Next::Enter(*case, 0),
                Ok(false) => {}
                Err(failure) => return Next::Fail(failure),
            }
        }
        node.elements.get(conditions.len()).map_or(Next::Done, |default| Next::Enter(*default, 0))
    }

    /// Creates an element. If its parameters are wrong, it fails before any of its code or elements run.
    pub(crate) fn enter(
        &mut self,
        sandbox: &mut Sandbox,
        parent: ElementId,
        site: DefinitionNodeId,
        ordinal: u64,
        out: &mut StepOutput,
    ) {
        let program = self.program.clone();
        let Some(around) = self.state.instances.get(parent) else { return };
        let node = program.node(around.process as usize, site);
        let bound = self.bind(sandbox, parent, site, ordinal).and_then(|variables| {
            let added = INSTANCE_BYTES + bytes_of(&variables);
            self.check_budget(parent, Some(site), added).map(|()| variables)
        });
        let max_delegations = match node.delegate {
            Delegate::Always => self.max_delegations,
            Delegate::Auto => self.max_auto_delegations,
            Delegate::Never => 0,
        };
        let delegated = self.state.counts.delegated < max_delegations
            && bound.as_ref().is_ok_and(|variables| self.can_delegate(parent, node, variables));
        let leaf = delegated || node.kind.is_activity();
        let deadline = node.policy.timeout.filter(|_| !leaf).map(|timeout| self.now.after(timeout));
        let id = self.state.instances.next_id();
        let (variables, failure) = match bound {
            Ok(variables) => (variables, None),
            Err(failure) => (Vec::new(), Some(failure)),
        };
        self.emit(out, Event::Entered { id, parent, site, ordinal, variables, deadline, delegated });
        // A parallel controller creates its next element after this one has gone as far as it can.
        let around = self.state.instances.get(parent).map(|around| self.state.node(&program, around));
        if around.is_some_and(|around| around.kind.parallel().is_some()) {
            self.agenda.push(AgendaItem::Advance(parent));
        }
        match failure {
            Some(failure) => {
                let failure = self.with_path(id, failure);
                self.conclude(id, Outcome::Failed(failure), None, out);
            }
            None => self.agenda.push(AgendaItem::Advance(id)),
        }
    }
}
