//! How elements come into the state: the root, every other element, and the bounds of controllers.

use std::sync::Arc;

use xavantes_model::definition::{DefinitionNodeId, Kind, Program, ScriptInput};
use xavantes_model::shared_objects::Objects;
use xavantes_model::value::Value;

use crate::apply::{ApplyError, node_of};
use crate::element_id::ElementId;
use crate::event::Bounds;
use crate::state::EngineState;
use crate::state::body::Body;
use crate::state::instance::{Instance, NodeAddress, Phase, Reached, first_phase};
use crate::state::size::{INSTANCE_BYTES, bytes_of};
use crate::time::Time;

impl EngineState {
    #[allow(clippy::too_many_arguments)] // The fields of one event.
    pub(super) fn on_started(
        &mut self,
        program: &Program,
        process: &Arc<str>,
        root_process: u32,
        root: DefinitionNodeId,
        variables: &[Value],
        captured: &[(ScriptInput, Value)],
        call_depth: u32,
    ) -> Result<(), ApplyError> {
        if self.root.is_some() {
            return Err(ApplyError::new("started twice"));
        }
        let node = node_of(program, root_process, root)?;
        self.process = process.clone();
        self.objects = Objects::new(process.clone());
        self.captured = captured.iter().cloned().collect();
        self.initial = variables.to_vec();
        let site = NodeAddress { process: root_process, node: root };
        let instance = Instance {
            call_depth,
            variables: variables.to_vec(),
            ..Instance::new(site, site, first_phase(node), Body::new(node))
        };
        self.root = Some(self.instances.insert(instance));
        self.bytes = self.count_bytes();
        Ok(())
    }

    #[allow(clippy::too_many_arguments)] // The fields of one event.
    #[inline]
    pub(super) fn on_entered(
        &mut self,
        program: &Program,
        id: ElementId,
        parent: ElementId,
        site: DefinitionNodeId,
        ordinal: u64,
        variables: &[Value],
        deadline: Option<Time>,
        delegated: bool,
    ) -> Result<(), ApplyError> {
        if self.instances.next_id() != id {
            return Err(ApplyError::new(format!("element {id} is not the next one")));
        }
        let around = self.instance(parent)?;
        let (depth, mut call_depth, site_process) = (around.depth + 1, around.call_depth, around.process);
        let site_node = node_of(program, site_process, site)?;
        let controller = program.node(site_process as usize, around.node);
        if Some(site) == controller.catch || Some(site) == controller.finally {
            around.handler = Some(id);
        } else {
            add_to_body(&mut around.body, id, site_node.position, ordinal)?;
        }
        let (process, node) = match site_node.kind {
            Kind::Process { process } => {
                call_depth += 1;
                (process as u32, DefinitionNodeId::BODY)
            }
            _ => (site_process, site),
        };
        let body_node = node_of(program, process, node)?;
        let leaf = delegated || site_node.kind.is_activity();
        let (phase, body) =
            if leaf { (Phase::Ready, Body::Leaf) } else { (first_phase(body_node), Body::new(body_node)) };
        let (at, runs) = (NodeAddress { process: site_process, node: site }, NodeAddress { process, node });
        self.instances.insert(Instance {
            parent: Some(parent),
            depth,
            call_depth,
            ordinal,
            delegated,
            variables: variables.to_vec(),
            deadline,
            began: self.history.clock(),
            ..Instance::new(at, runs, phase, body)
        });
        self.counts.ready += u64::from(leaf);
        self.resize(INSTANCE_BYTES + bytes_of(variables), 0);
        self.history.on_entered(site_process, site);
        Ok(())
    }

    pub(super) fn on_began(&mut self, id: ElementId, bounds: &Bounds) -> Result<(), ApplyError> {
        let (added, removed) = match (&bounds.range, &self.instance(id)?.body) {
            (Some(range), Body::Loop(body)) => (range.bytes(), body.range.bytes()),
            _ => (0, 0),
        };
        self.resize(added, removed);
        let instance = self.instance(id)?;
        (instance.phase, instance.reached) = (Phase::Running, Reached::Began);
        match &mut instance.body {
            Body::Loop(body) => {
                if let Some(range) = &bounds.range {
                    body.range = range.clone();
                }
            }
            Body::Par(body) => body.ready.extend(&bounds.selected),
            _ => {}
        }
        if let Some(join) = instance.body.join_mut() {
            join.max = bounds.max;
            join.at_least = bounds.join;
        }
        Ok(())
    }
}

/// Notes a new element in the body of the element around it.
#[inline]
fn add_to_body(body: &mut Body, id: ElementId, position: u32, ordinal: u64) -> Result<(), ApplyError> {
    match body {
        Body::Sequence { current, .. } => *current = Some(id),
        Body::Choice { current, chosen } => {
            *current = Some(id);
            *chosen = true;
        }
        Body::Loop(body) => {
            body.next = ordinal + 1;
            body.join.live.insert(ordinal, id);
        }
        Body::Par(body) => {
            // The engine creates elements in the order of `ready`; another order means a wrong journal.
            if body.ready.pop_front() != Some(position) {
                return Err(ApplyError::new("an element of a PAR out of turn"));
            }
            body.join.live.insert(u64::from(position), id);
        }
        Body::Leaf => return Err(ApplyError::new("an element in an activity")),
    }
    Ok(())
}
