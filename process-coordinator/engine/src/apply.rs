//! What each fact does to the state: the only place where the state changes, live and in replay.

use std::collections::BTreeMap;
use std::sync::Arc;

use xavantes_model::definition::{Kind, Node, NodeId, OnFailure, Program, Variable};
use xavantes_model::shared::Objects;
use xavantes_model::value::Value;

use crate::event::{Begin, Change, Event, Outputs, Place};
use crate::failure::{Failure, FailureKind};
use crate::history::Tally;
use crate::id::{ElementId, Time};
use crate::state::{Body, Instance, Outcome, Par, Phase, Range, State, Stop, has_bounds};

/// An event does not fit the state: the journal is not of this process, or not whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the event does not fit the state: {0}")]
pub struct Misfit(pub String);

fn misfit(what: impl Into<String>) -> Misfit {
    Misfit(what.into())
}

impl State {
    /// Applies a fact.
    pub fn apply(&mut self, program: &Program, event: &Event) -> Result<(), Misfit> {
        match event {
            Event::Started { process, root_process, root, variables, captured, call_depth } => {
                if self.root.is_some() {
                    return Err(misfit("started twice"));
                }
                let node = node_of(program, *root_process, *root)?;
                self.process = process.clone();
                self.objects = Objects::new(process.clone());
                self.captured = captured.iter().cloned().collect();
                self.initial = variables.clone();
                let place = (*root_process, *root);
                let instance = Instance {
                    call_depth: *call_depth,
                    variables: variables.clone(),
                    ..Instance::new(place, place, first_phase(node), Body::new(node))
                };
                self.root = Some(self.instances.insert(instance));
            }
            Event::Entered { id, parent, site, ordinal, variables, deadline, delegated } => {
                self.enter(program, *id, *parent, *site, *ordinal, variables, *deadline, *delegated)?;
            }
            Event::Prepared { id, outputs } => {
                self.put(*id, outputs)?;
                let instance = self.instance(*id)?;
                let node = program.node(instance.process as usize, instance.node);
                instance.phase = if has_bounds(node) { Phase::Prepared } else { Phase::Running };
            }
            Event::Began { id, begin } => {
                let instance = self.instance(*id)?;
                instance.phase = Phase::Running;
                begin_body(&mut instance.body, begin);
            }
            Event::Closed { id } => {
                if let Body::Loop(it) = &mut self.instance(*id)?.body {
                    it.closed = true;
                }
            }
            Event::Posted { id, outputs } => {
                self.put(*id, outputs)?;
                self.instance(*id)?.phase = Phase::Posted;
            }
            Event::Sent { id, attempt, deadline } => {
                let instance = self.instance(*id)?;
                if instance.phase != Phase::Ready {
                    return Err(misfit("sent but not ready"));
                }
                instance.attempts = *attempt;
                instance.deadline = *deadline;
                instance.phase = Phase::Out(Box::default());
                if instance.delegated {
                    self.counts.delegated += 1;
                } else {
                    self.counts.out += 1;
                    self.counts.attempts += 1;
                }
            }
            Event::Called { id, caller, sequence, acknowledged, call } => {
                let answer = self.objects.call(call);
                let Phase::Out(out) = &mut self.instance(*id)?.phase else { return Err(misfit("a call from nobody")) };
                let window = out.calls.entry(*caller).or_default();
                window.last = *sequence;
                window.answers.retain(|(number, _)| number > acknowledged);
                window.answers.push_back((*sequence, answer));
            }
            Event::Lost { id } => {
                self.leave_out(*id)?;
                let instance = self.instance(*id)?;
                instance.phase = Phase::Ready;
                let (process, site) = (instance.site_process, instance.site);
                self.history.at(process, site).lost += 1;
            }
            Event::Recalled { id, deadline } => {
                self.leave_out(*id)?;
                let instance = self.instance(*id)?;
                let node = program.node(instance.process as usize, instance.node);
                instance.delegated = false;
                instance.body = Body::new(node);
                instance.phase = first_phase(node);
                instance.deadline = *deadline;
            }
            Event::Stopping { id, stop } => {
                let instance = self.instance(*id)?;
                match &mut instance.phase {
                    Phase::Out(out) => out.stop = Some(stop.clone()),
                    // FINALLY runs to its end; only how the element will have ended changes.
                    Phase::Finishing { outcome, .. } => {
                        *outcome = match stop {
                            Stop::Restart => Outcome::Restart,
                            _ => Outcome::Cancelled,
                        }
                    }
                    phase => *phase = Phase::Stopping(stop.clone()),
                }
            }
            Event::Catching { id, error } => {
                let instance = self.instance(*id)?;
                instance.phase = Phase::Catching(error.clone());
                instance.handled = None;
            }
            Event::Finishing { id, outcome, collected } => {
                let instance = self.instance(*id)?;
                instance.handled = None;
                instance.phase = Phase::Finishing { outcome: outcome.clone(), collected: collected.clone() };
            }
            Event::Waiting { id, until, error } => {
                self.leave_out(*id)?;
                let instance = self.instance(*id)?;
                instance.failures += u32::from(!instance.is_restarted());
                instance.phase = Phase::Waiting { until: *until, error: error.clone() };
                self.counts.resting += 1;
            }
            Event::Held { id, error } => {
                self.leave_out(*id)?;
                let instance = self.instance(*id)?;
                instance.failures += 1;
                instance.phase = Phase::Held(error.clone());
                self.counts.resting += 1;
            }
            Event::Restarted { id, variables, deadline } => {
                self.leave_out(*id)?;
                let instance = self.instance(*id)?;
                let node = program.node(instance.process as usize, instance.node);
                if matches!(instance.body, Body::Leaf) {
                    instance.phase = Phase::Ready;
                } else {
                    instance.body = Body::new(node);
                    instance.phase = first_phase(node);
                }
                instance.restarts += 1;
                instance.variables.clone_from(variables);
                instance.deadline = *deadline;
                instance.inputs.clear();
                instance.kept.clear();
                instance.handler = None;
                instance.handled = None;
                instance.trouble = None;
                let owned = std::mem::take(&mut instance.owned);
                if instance.parent.is_some() {
                    let (process, site) = (instance.site_process, instance.site);
                    self.history.at(process, site).retried += 1;
                }
                owned.into_iter().for_each(|object| self.objects.remove(object));
            }
            Event::Ended { id, outcome, results, collected } => self.end(program, *id, outcome, results, collected)?,
            Event::Paused { id, at } => {
                self.instance(*id)?.paused = Some(*at);
                self.counts.paused += 1;
            }
            Event::Resumed { id, shift } => {
                let since = self.instance(*id)?.paused.take().ok_or_else(|| misfit("resumed but not paused"))?;
                self.counts.paused -= 1;
                self.shift_deadlines(*id, since, *shift);
            }
            Event::Changed { id, change } => self.change(*id, change)?,
            Event::Clock { at } => self.history.set_clock(*at),
            Event::Steered { path, what } => self.history.was_steered(path, what),
        }
        Ok(())
    }

    fn instance(&mut self, id: ElementId) -> Result<&mut Instance, Misfit> {
        self.instances.get_mut(id).ok_or_else(|| misfit(format!("no element {id}")))
    }

    #[allow(clippy::too_many_arguments)] // The fields of one event.
    fn enter(
        &mut self,
        program: &Program,
        id: ElementId,
        parent: ElementId,
        site: NodeId,
        ordinal: u64,
        variables: &[Value],
        deadline: Option<Time>,
        delegated: bool,
    ) -> Result<(), Misfit> {
        if self.instances.next_id() != id {
            return Err(misfit(format!("element {id} is not the next one")));
        }
        let around = self.instance(parent)?;
        let (depth, mut call_depth, site_process) = (around.depth + 1, around.call_depth, around.process);
        let around_node = around.node;
        let site_node = node_of(program, site_process, site)?;
        let is_handler = {
            let controller = program.node(site_process as usize, around_node);
            Some(site) == controller.catch || Some(site) == controller.finally
        };
        let around = self.instance(parent)?;
        if is_handler {
            around.handler = Some(id);
        } else {
            match &mut around.body {
                Body::Sequence { current, .. } => *current = Some(id),
                Body::Choice { current, chosen } => {
                    *current = Some(id);
                    *chosen = true;
                }
                Body::Loop(it) => {
                    it.next = ordinal + 1;
                    it.join.live.insert(ordinal, id);
                }
                Body::Par(it) => {
                    // It is the first, unless somebody else wrote the journal.
                    if it.ready.pop_front() != Some(site_node.position) {
                        return Err(misfit("an element of a PAR out of turn"));
                    }
                    it.join.live.insert(u64::from(site_node.position), id);
                }
                Body::Leaf => return Err(misfit("an element in an activity")),
            }
        }
        let (process, node) = match site_node.kind {
            Kind::Process { process } => {
                call_depth += 1;
                (process as u32, NodeId::BODY)
            }
            _ => (site_process, site),
        };
        let body_node = node_of(program, process, node)?;
        let leaf = delegated || site_node.kind.is_activity();
        let (phase, body) =
            if leaf { (Phase::Ready, Body::Leaf) } else { (first_phase(body_node), Body::new(body_node)) };
        self.instances.insert(Instance {
            parent: Some(parent),
            depth,
            call_depth,
            ordinal,
            delegated,
            variables: variables.to_vec(),
            deadline,
            ..Instance::new((site_process, site), (process, node), phase, body)
        });
        self.history.began(site_process, site);
        Ok(())
    }

    /// Assignments and effects of code that ran in `id`. Objects belong to the scope that created them, or to the one
    /// whose variable they were given to.
    fn put(&mut self, id: ElementId, outputs: &Outputs) -> Result<(), Misfit> {
        for created in &outputs.effects.created {
            let object = self.objects.create(created.kind);
            if object != *created {
                return Err(misfit("another shared object was created"));
            }
        }
        for call in &outputs.effects.calls {
            // It succeeded when the code ran, on the same content.
            self.objects.call(call).map_err(misfit)?;
        }
        self.instance(id)?.owned.extend(outputs.effects.created.iter().map(|created| created.id));
        for (place, value) in &outputs.sets {
            match place {
                Place::Variable { owner, slot } => {
                    if *owner != id {
                        let mut given = Vec::new();
                        value.each_shared(&mut |object| given.push(object.id));
                        let moved = self.instance(id)?.owned.extract_if(.., |object| given.contains(object));
                        let moved: Vec<u64> = moved.collect();
                        self.instance(*owner)?.owned.extend(moved);
                    }
                    let variables = &mut self.instance(*owner)?.variables;
                    let slot = *slot as usize;
                    if slot >= variables.len() {
                        variables.resize(slot + 1, Value::Null);
                    }
                    variables[slot] = value.clone();
                }
                Place::Parameter { owner, element, slot } => {
                    self.instance(*owner)?.inputs.insert((*element, *slot), value.clone());
                }
            }
        }
        Ok(())
    }

    /// The attempt of a leaf, if it has one, or the rest before a try is over.
    fn leave_out(&mut self, id: ElementId) -> Result<(), Misfit> {
        let instance = self.instance(id)?;
        match instance.phase {
            Phase::Out(_) if instance.delegated => self.counts.delegated -= 1,
            Phase::Out(_) => self.counts.out -= 1,
            Phase::Waiting { .. } | Phase::Held(_) => self.counts.resting -= 1,
            _ => {}
        }
        Ok(())
    }

    fn end(
        &mut self,
        program: &Program,
        id: ElementId,
        outcome: &Outcome,
        results: &[Value],
        collected: &Option<Value>,
    ) -> Result<(), Misfit> {
        self.leave_out(id)?;
        let path = if *outcome == Outcome::Cancelled { self.path(program, id) } else { String::new() };
        if let Outcome::Failed(failure) = outcome
            && self.history.wants_failures()
            && self.instances.get(id).is_some_and(|instance| !instance.delegated)
            && self.path(program, id) == failure.path
        {
            self.history.failed(failure);
        }
        let mut ended = self.instances.remove(id).ok_or_else(|| misfit(format!("no element {id}")))?;
        if ended.has_children() {
            return Err(misfit("it ended before what runs in it"));
        }
        if ended.paused.is_some() {
            self.counts.paused -= 1;
        }
        let site = program.node(ended.site_process as usize, ended.site);
        let completed = *outcome == Outcome::Completed;
        if site.kind.is_activity() {
            match outcome {
                Outcome::Completed => self.counts.completed += 1,
                Outcome::Failed(_) => self.counts.failed += 1,
                _ => {}
            }
        }
        let node = program.node(ended.process as usize, ended.node);
        let signature = program.signature(site);
        if matches!(ended.body, Body::Leaf) {
            take_results(signature, &mut ended.variables, results);
        } else {
            summarise(node, &mut ended, completed);
        }
        if !completed {
            drop_results(signature, &mut ended.variables);
        }
        let gone = self.hand_over_objects(program, &mut ended, completed, collected)?;
        let Some(parent) = ended.parent else {
            let results = if completed { self.process_results(program, &ended) } else { BTreeMap::new() };
            self.ended = Some((outcome.clone(), results));
            gone.into_iter().for_each(|object| self.objects.remove(object));
            return Ok(());
        };
        let count: fn(&mut Tally) -> &mut u64 = match outcome {
            Outcome::Completed => |tally| &mut tally.completed,
            Outcome::Failed(_) => |tally| &mut tally.failed,
            _ => |tally| &mut tally.cancelled,
        };
        self.history.ended(ended.site_process, ended.site, count);
        gone.into_iter().for_each(|object| self.objects.remove(object));
        let around = self.instance(parent)?;
        if around.handler == Some(id) {
            around.handler = None;
            around.handled = Some(outcome.clone());
            return Ok(());
        }
        // What waits for it in the scope around: its parameters to be, and its results to read.
        if !around.inputs.is_empty() {
            let slots: Vec<_> = around.inputs.range((site.id, 0)..=(site.id, u32::MAX)).map(|(key, _)| *key).collect();
            slots.into_iter().for_each(|key| {
                around.inputs.remove(&key);
            });
        }
        if site.kept {
            around.kept.insert(site.id, std::mem::take(&mut ended.variables));
        }
        let goes_on = site.policy.on_failure == OnFailure::Continue;
        let parallel = program.node(around.process as usize, around.node).kind.parallel().is_some();
        match outcome {
            Outcome::Failed(failure) if !goes_on && around.trouble.is_none() => around.trouble = Some(failure.clone()),
            Outcome::Cancelled if !goes_on && !parallel && around.trouble.is_none() => {
                let name = path.rsplit('/').next().unwrap_or_default();
                let mut failure = Failure::new(FailureKind::Cancelled, format!("{name} was cancelled"));
                failure.path = path;
                around.trouble = Some(Box::new(failure));
            }
            _ => {}
        }
        match &mut around.body {
            Body::Sequence { next, current } => {
                *current = None;
                *next += 1;
            }
            Body::Choice { current, .. } => *current = None,
            Body::Loop(it) => {
                it.join.live.remove(&ended.ordinal);
                if let Some(value) = collected
                    && completed
                {
                    it.join.results.push(value.clone());
                    it.join.result_ordinals.push(ended.ordinal);
                }
            }
            Body::Par(it) => {
                it.join.live.remove(&u64::from(site.position));
                let dependents = match &program.node(ended.site_process as usize, around.node).kind {
                    Kind::Par { dependents, .. } => Some(dependents),
                    _ => None,
                };
                if let Some(dependents) = dependents {
                    let never = release(it, dependents, site.position, *outcome == Outcome::Cancelled);
                    it.join.cancelled += never;
                }
            }
            Body::Leaf => {}
        }
        if let Some(join) = around.body.join_mut() {
            match outcome {
                Outcome::Completed => join.completed += 1,
                Outcome::Failed(_) => join.failed += 1,
                _ => join.cancelled += 1,
            }
        }
        Ok(())
    }

    /// Objects that the results refer to now belong to the scope around; the others are told to go.
    fn hand_over_objects(
        &mut self,
        program: &Program,
        ended: &mut Instance,
        completed: bool,
        collected: &Option<Value>,
    ) -> Result<Vec<u64>, Misfit> {
        let mut gone = std::mem::take(&mut ended.owned);
        if gone.is_empty() || !completed {
            return Ok(gone);
        }
        let mut wanted = Vec::new();
        let node = program.node(ended.process as usize, ended.node);
        for (variable, value) in node.variables.iter().zip(&ended.variables) {
            if variable.direction.is_out() {
                value.each_shared(&mut |object| wanted.push(object.id));
            }
        }
        collected.iter().for_each(|value| value.each_shared(&mut |object| wanted.push(object.id)));
        if let Some(join) = ended.body.join() {
            join.results.iter().for_each(|value| value.each_shared(&mut |object| wanted.push(object.id)));
        }
        if let Some(parent) = ended.parent {
            let (up, down): (Vec<u64>, Vec<u64>) = gone.into_iter().partition(|object| wanted.contains(object));
            self.instance(parent)?.owned.extend(up);
            gone = down;
        }
        Ok(gone)
    }

    /// What the process gives to its user: shared objects become plain values, for their home ends here.
    fn process_results(&self, program: &Program, root: &Instance) -> BTreeMap<Arc<str>, Value> {
        let process = &program.processes[root.process as usize];
        let signature = match root.node {
            NodeId::BODY => process.parameters(),
            controller => &process.nodes[controller.index()].variables,
        };
        let outs = signature.iter().zip(&root.variables).filter(|(variable, _)| variable.direction.is_out());
        outs.map(|(variable, value)| (variable.name.clone(), self.plain(value))).collect()
    }

    fn plain(&self, value: &Value) -> Value {
        match value {
            Value::Shared(object) if self.objects.is_home_of(object) => {
                self.objects.content(object).unwrap_or_default()
            }
            Value::List(items) => items.iter().map(|item| self.plain(item)).collect::<Vec<_>>().into(),
            Value::Map(map) => {
                Value::Map(Arc::new(map.iter().map(|(key, item)| (key.clone(), self.plain(item))).collect()))
            }
            other => other.clone(),
        }
    }

    /// The time-outs of controllers stood still while they were paused, from `since` on. What is paused itself adds
    /// the time since that pause when it is resumed.
    fn shift_deadlines(&mut self, id: ElementId, since: Time, shift: u64) {
        let mut pending = vec![(id, shift)];
        while let Some((id, mut shift)) = pending.pop() {
            let Some(instance) = self.instances.get_mut(id) else { continue };
            if let Some(paused) = instance.paused {
                shift = shift.min(paused.0.saturating_sub(since.0));
            }
            if shift == 0 {
                continue;
            }
            if instance.can_stand_still() {
                instance.deadline = instance.deadline.map(|deadline| Time(deadline.0.saturating_add(shift)));
            }
            pending.extend(instance.children().map(|child| (child, shift)));
        }
    }

    fn change(&mut self, id: ElementId, change: &Change) -> Result<(), Misfit> {
        let instance = self.instance(id)?;
        match change {
            Change::Parameter(element, slot, value) => {
                instance.inputs.insert((*element, *slot), value.clone());
            }
            Change::Total(total) => {
                if let Body::Loop(it) = &mut instance.body
                    && let Range::Count { total: old, .. } = &mut it.range
                {
                    *old = *total;
                }
            }
            Change::MaxParallel(_) | Change::Join(_) | Change::ExitCondition(_) => {
                let join = instance.body.join_mut().ok_or_else(|| misfit("nothing to change"))?;
                match change {
                    Change::MaxParallel(max) => join.max = Some(*max),
                    Change::Join(count) => join.at_least = Some(*count),
                    Change::ExitCondition(text) => join.exit = Some(text.clone()),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn node_of(program: &Program, process: u32, node: NodeId) -> Result<&Node, Misfit> {
    program
        .processes
        .get(process as usize)
        .and_then(|process| process.nodes.get(node.index()))
        .ok_or_else(|| misfit("no such node in the definition"))
}

/// Nothing to compute before the body: then it runs at once.
fn first_phase(node: &Node) -> Phase {
    match (node.pre_code.is_some(), has_bounds(node)) {
        (true, _) => Phase::Entered,
        (false, true) => Phase::Prepared,
        (false, false) => Phase::Running,
    }
}

fn begin_body(body: &mut Body, begin: &Begin) {
    match body {
        Body::Loop(it) => {
            if let Some(range) = &begin.range {
                it.range = range.clone();
            }
        }
        Body::Par(it) => it.ready.extend(&begin.selected),
        _ => {}
    }
    if let Some(join) = body.join_mut() {
        join.max = begin.max;
        join.at_least = begin.join;
    }
}

/// An element of a `PAR` ended: those that wait for it may go, or, when it was cancelled, never will. Tells how many
/// never will.
fn release(par: &mut Par, dependents: &[Vec<u32>], position: u32, cancelled: bool) -> u64 {
    let mut never = 0;
    let mut ended = vec![position];
    while let Some(position) = ended.pop() {
        for dependent in &dependents[position as usize] {
            let waits = &mut par.waits_for[*dependent as usize];
            if *waits == Par::NEVER {
                continue;
            }
            if cancelled {
                *waits = Par::NEVER;
                never += 1;
                ended.push(*dependent);
            } else {
                *waits -= 1;
                if *waits == 0 {
                    par.ready.push_back(*dependent);
                }
            }
        }
    }
    never
}

fn take_results(signature: &[Variable], variables: &mut Vec<Value>, results: &[Value]) {
    if results.is_empty() {
        return;
    }
    variables.resize(signature.len(), Value::Null);
    let outs = signature.iter().enumerate().filter(|(_, variable)| variable.direction.is_out());
    for ((slot, _), value) in outs.zip(results) {
        variables[slot] = value.clone();
    }
}

/// What failed or was cancelled has no results; how far a loop came can still be read.
fn drop_results(signature: &[Variable], variables: &mut [Value]) {
    for (variable, value) in signature.iter().zip(variables) {
        if variable.direction.is_out() && !variable.implicit {
            *value = Value::Null;
        }
    }
}

/// The implicit results of a loop or parallel controller, for whoever reads them after its end.
fn summarise(node: &Node, ended: &mut Instance, completed: bool) {
    if !node.kept && ended.parent.is_some() {
        return;
    }
    let Some(join) = ended.body.join_mut() else { return };
    if !completed {
        join.results.clear();
    }
    let mut order: Vec<usize> = (0..join.results.len()).collect();
    order.sort_unstable_by_key(|index| join.result_ordinals[*index]);
    let results: Vec<Value> = order.into_iter().map(|index| std::mem::take(&mut join.results[index])).collect();
    let numbers = [join.completed, join.failed, join.cancelled].map(|count| Value::Int(count as i64));
    let first = node.summary as usize;
    ended.variables.resize(node.variables.len().max(ended.variables.len()), Value::Null);
    for (slot, value) in numbers.into_iter().chain([Value::from(results)]).enumerate() {
        if let Some(variable) = ended.variables.get_mut(first + slot) {
            *variable = value;
        }
    }
}
