//! How an ended element leaves the state: its results, its shared objects, and the progress of the element around it.

use std::collections::BTreeMap;
use std::sync::Arc;

use xavantes_model::definition::{DefinitionNode, DefinitionNodeId, Kind, OnFailure, Program, Variable};
use xavantes_model::value::Value;

use crate::apply::ApplyError;
use crate::element_id::ElementId;
use crate::failure::{Failure, FailureKind};
use crate::history::Tally;
use crate::outcome::Outcome;
use crate::state::EngineState;
use crate::state::body::Body;
use crate::state::instance::{Instance, Phase};
use crate::state::size::bytes_of;
use crate::state::unfinished::{Resumption, Unfinished, is_kept};

impl EngineState {
    #[inline]
    pub(super) fn on_ended(
        &mut self,
        program: &Program,
        id: ElementId,
        outcome: &Outcome,
        results: &[Value],
        collected: &Option<Value>,
    ) -> Result<(), ApplyError> {
        self.uncount_phase(id)?;
        // The path can be computed only while the element lives.
        let path = if *outcome == Outcome::Cancelled { self.path(program, id) } else { String::new() };
        self.record_failure(program, id, outcome);
        let mut ended = self.instances.remove(id).ok_or_else(|| ApplyError::no_element(id))?;
        if ended.has_children() {
            return Err(ApplyError::new("it ended before the elements in it"));
        }
        // The bytes of its phase are subtracted already.
        self.resize(0, ended.bytes() - ended.phase.bytes());
        let site = program.node(ended.site_process as usize, ended.site);
        self.count_end(site, &ended, outcome);
        let completed = *outcome == Outcome::Completed;
        let keeps = match ended.parent.map(|parent| self.instances.get(parent)) {
            _ if completed => false,
            None => true,
            Some(around) => {
                let around = around.filter(|around| around.handler != Some(id));
                around.is_some_and(|around| is_kept(program, around, site, outcome))
            }
        };
        let unfinished = std::mem::take(&mut ended.unfinished);
        let mut unreachable = if keeps {
            self.keep(program, id, &mut ended, unfinished, matches!(outcome, Outcome::Failed(_)));
            Vec::new()
        } else {
            self.drop_unfinished(unfinished)
        };
        let node = program.node(ended.process as usize, ended.node);
        let signature = program.signature(site);
        if matches!(ended.body, Body::Leaf) {
            self.objects.forget_calls(id.bits());
            store_results(signature, &mut ended.variables, results);
        } else {
            store_summary(node, &mut ended, completed);
        }
        if completed {
            forward_results(node, &mut ended);
        } else {
            clear_results(signature, &mut ended.variables);
        }
        unreachable.extend(self.hand_over_objects(program, &mut ended, completed, collected)?);
        let Some(parent) = ended.parent else {
            let results = if completed { self.process_results(program, &ended) } else { BTreeMap::new() };
            self.resize(bytes_of(results.values()), 0);
            self.ended = Some((outcome.clone(), results));
            unreachable.into_iter().for_each(|object| self.objects.remove(object));
            return Ok(());
        };
        let count: fn(&mut Tally) -> &mut u64 = match outcome {
            Outcome::Completed => |tally| &mut tally.completed,
            Outcome::Failed(_) => |tally| &mut tally.failed,
            _ => |tally| &mut tally.cancelled,
        };
        self.history.on_ended(ended.site_process, ended.site, count);
        unreachable.into_iter().for_each(|object| self.objects.remove(object));
        let around = self.instance(parent)?;
        if around.handler == Some(id) {
            around.handler = None;
            around.handled = Some(outcome.clone());
            return Ok(());
        }
        let (mut added, mut removed) = (0, if keeps { 0 } else { forget_inputs(around, site.id) });
        if keeps {
            around.unfinished.push(id);
        }
        if site.kept {
            added += bytes_of(&ended.variables);
            let old = around.kept.insert(site.id, std::mem::take(&mut ended.variables));
            removed += bytes_of(old.iter().flatten());
        }
        pass_failure_on(program, around, site, outcome, path);
        added += remove_from_body(program, around, &ended, site, outcome, collected, keeps);
        self.resize(added, removed);
        Ok(())
    }

    /// Keeps an ended element, with which a reopened process goes on. It keeps its shared objects.
    fn keep(
        &mut self,
        program: &Program,
        id: ElementId,
        ended: &mut Instance,
        unfinished: Vec<ElementId>,
        failed: bool,
    ) {
        let mut instance = Instance { owned: std::mem::take(&mut ended.owned), unfinished, ..ended.clone() };
        let node = program.node(instance.process as usize, instance.node);
        let resumption = Resumption::of(&instance, node);
        (instance.phase, instance.paused, instance.deadline) = (Phase::Ready, None, None);
        self.resize(instance.bytes(), 0);
        self.unfinished.insert(id, Unfinished { instance, failed, resumption });
    }

    /// Records a failure in the history, once: where it happened, not in every element that fails because of it.
    fn record_failure(&mut self, program: &Program, id: ElementId, outcome: &Outcome) {
        if let Outcome::Failed(failure) = outcome
            && self.history.has_space_for_failures()
            && self.instances.get(id).is_some_and(|instance| !instance.delegated)
            && self.path(program, id) == failure.path
        {
            self.history.on_failed(failure);
        }
    }

    fn count_end(&mut self, site: &DefinitionNode, ended: &Instance, outcome: &Outcome) {
        if ended.paused.is_some() {
            self.counts.paused -= 1;
        }
        if site.kind.is_activity() {
            match outcome {
                Outcome::Completed => self.counts.completed += 1,
                Outcome::Failed(_) => self.counts.failed += 1,
                _ => {}
            }
        }
    }

    /// Makes the scope around the owner of the objects that the results refer to. Returns the objects that nothing can
    /// reach any more.
    fn hand_over_objects(
        &mut self,
        program: &Program,
        ended: &mut Instance,
        completed: bool,
        collected: &Option<Value>,
    ) -> Result<Vec<u64>, ApplyError> {
        let mut unreachable = std::mem::take(&mut ended.owned);
        if unreachable.is_empty() || !completed {
            return Ok(unreachable);
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
            let (up, rest): (Vec<u64>, Vec<u64>) = unreachable.into_iter().partition(|object| wanted.contains(object));
            self.instance(parent)?.owned.extend(up);
            unreachable = rest;
        }
        Ok(unreachable)
    }

    /// The results of the whole process. Shared objects become plain values, because they end with the process.
    fn process_results(&self, program: &Program, root: &Instance) -> BTreeMap<Arc<str>, Value> {
        let process = &program.processes[root.process as usize];
        let signature = match root.node {
            DefinitionNodeId::BODY => process.parameters(),
            controller => &process.nodes[controller.index()].variables,
        };
        let outs = signature.iter().zip(&root.variables).filter(|(variable, _)| variable.direction.is_out());
        outs.map(|(variable, value)| (variable.name.clone(), self.to_plain(value))).collect()
    }

    fn to_plain(&self, value: &Value) -> Value {
        match value {
            Value::Shared(object) if self.objects.is_home_of(object) => {
                self.objects.content(object).unwrap_or_default()
            }
            Value::List(items) => items.iter().map(|item| self.to_plain(item)).collect::<Vec<_>>().into(),
            Value::Map(map) => {
                Value::Map(Arc::new(map.iter().map(|(key, item)| (key.clone(), self.to_plain(item))).collect()))
            }
            other => other.clone(),
        }
    }
}

/// Drops the parameters that code set for an element which has ended. Returns their bytes.
fn forget_inputs(around: &mut Instance, element: DefinitionNodeId) -> u64 {
    if around.inputs.is_empty() {
        return 0;
    }
    let slots: Vec<_> = around.inputs.range((element, 0)..=(element, u32::MAX)).map(|(key, _)| *key).collect();
    slots.into_iter().filter_map(|key| around.inputs.remove(&key)).map(|value| value.bytes()).sum()
}

/// Makes the element around fail later, if the ended element failed, or was cancelled in a sequence.
fn pass_failure_on(program: &Program, around: &mut Instance, site: &DefinitionNode, outcome: &Outcome, path: String) {
    if site.policy.on_failure == OnFailure::Continue || around.pending_failure.is_some() {
        return;
    }
    let parallel = program.node(around.process as usize, around.node).kind.parallel().is_some();
    match outcome {
        Outcome::Failed(failure) => around.pending_failure = Some(failure.clone()),
        Outcome::Cancelled if !parallel => {
            let name = path.rsplit('/').next().unwrap_or_default();
            let mut failure = Failure::new(FailureKind::Cancelled, format!("{name} was cancelled"));
            failure.path = path;
            around.pending_failure = Some(Box::new(failure));
        }
        _ => {}
    }
}

/// Updates the progress of the body around an ended element. Returns the bytes of the value that it collected.
fn remove_from_body(
    program: &Program,
    around: &mut Instance,
    ended: &Instance,
    site: &DefinitionNode,
    outcome: &Outcome,
    collected: &Option<Value>,
    is_kept: bool,
) -> u64 {
    let mut added = 0;
    match &mut around.body {
        Body::Sequence { next, current } => {
            *current = None;
            *next += 1;
        }
        Body::Choice { current, .. } => *current = None,
        Body::Loop(body) => {
            body.join.live.remove(&ended.ordinal);
            if let Some(value) = collected
                && *outcome == Outcome::Completed
            {
                added = value.bytes();
                body.join.results.push(value.clone());
                body.join.result_ordinals.push(ended.ordinal);
            }
        }
        Body::Par(body) => {
            body.join.live.remove(&u64::from(site.position));
            if let Kind::Par { dependents, .. } = &program.node(ended.site_process as usize, around.node).kind {
                let cancelled = *outcome == Outcome::Cancelled;
                body.join.cancelled += match (is_kept, cancelled) {
                    (false, _) => body.release(dependents, site.position, cancelled),
                    (true, true) => body.suspend(dependents, site.position),
                    // The controller fails before anything that waits for this element could begin.
                    (true, false) => 0,
                };
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
    added
}

/// Stores the results of an attempt in the `OUT` and `INOUT` parameters.
fn store_results(signature: &[Variable], variables: &mut Vec<Value>, results: &[Value]) {
    if results.is_empty() {
        return;
    }
    variables.resize(signature.len(), Value::Null);
    let outs = signature.iter().enumerate().filter(|(_, variable)| variable.direction.is_out());
    for ((slot, _), value) in outs.zip(results) {
        variables[slot] = value.clone();
    }
}

/// Makes results of elements in a controller, which code around it reads, results of the controller itself.
fn forward_results(node: &DefinitionNode, ended: &mut Instance) {
    if node.forwards.is_empty() || matches!(ended.body, Body::Leaf) {
        return;
    }
    ended.variables.resize(node.variables.len().max(ended.variables.len()), Value::Null);
    for forward in &node.forwards {
        let kept = ended.kept.get_mut(&forward.element).and_then(|values| values.get_mut(forward.from as usize));
        ended.variables[forward.to as usize] = kept.map(|value| value.clone()).unwrap_or_default();
    }
}

/// Clears the results of an element that failed or was cancelled. The summary of a loop stays readable.
fn clear_results(signature: &[Variable], variables: &mut [Value]) {
    for (variable, value) in signature.iter().zip(variables) {
        if variable.direction.is_out() && !variable.implicit {
            *value = Value::Null;
        }
    }
}

/// Stores the implicit results of a loop or parallel controller (`completed`, `failed`, `cancelled`, `results`), if code
/// can read them after its end. `results` are in the order of iterations.
fn store_summary(node: &DefinitionNode, ended: &mut Instance, completed: bool) {
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
