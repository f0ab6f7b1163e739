//! What a monitor sees of a live element.

use std::sync::Arc;

use xavantes_model::definition::Kind;
use xavantes_model::value::Value;

use crate::engine::Engine;
use crate::failure::Failure;
use crate::id::{ElementId, Time};
use crate::input::Rejection;
use crate::state::{Body, Phase, Stop};
use crate::steer::Found;

/// How an element is.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// It was not created yet, or it ended and left nothing.
    Absent,
    /// It waits for room.
    Ready,
    /// It runs.
    Running,
    /// It winds down.
    Stopping,
    /// A try failed and the next begins later.
    Waiting(Time, Box<Failure>),
    /// It failed and waits for a decision.
    Held(Box<Failure>),
}

/// A live element, seen from outside.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// Its path.
    pub path: String,
    /// Its tag in the definition.
    pub tag: &'static str,
    /// The name of its type, for activities and subprocesses.
    pub type_name: Option<String>,
    /// How it is.
    pub condition: Condition,
    /// It or something around it is paused.
    pub paused: bool,
    /// It runs on another coordinator.
    pub delegated: bool,
    /// An attempt of it is out.
    pub out: bool,
    /// The number of its last attempt.
    pub attempts: u32,
    /// Of a loop or parallel controller: how many of its elements completed, failed, were cancelled.
    pub ended: Option<(u64, u64, u64)>,
    /// Of a counted loop: how many iterations there will be.
    pub total: Option<u64>,
    /// What is alive in it.
    pub children: Vec<ElementId>,
}

impl Engine {
    /// The element at a path.
    pub fn find(&self, path: &str) -> Result<Option<ElementId>, Rejection> {
        match self.state.find(&self.program, path)? {
            Found::Live(id) => Ok(Some(id)),
            Found::Absent { .. } => Ok(None),
        }
    }

    /// The id that begins every path.
    pub fn id(&self) -> &Arc<str> {
        &self.state.process
    }

    /// The root element, while the process runs.
    pub fn root(&self) -> Option<ElementId> {
        self.state.root.filter(|id| self.state.instances.get(*id).is_some())
    }

    /// Was the whole process cancelled?
    pub fn is_cancelled(&self) -> bool {
        self.root().and_then(|root| self.state.instances.get(root)).is_some_and(|root| root.is_cancelled())
    }

    /// The path of a live element.
    pub fn path(&self, id: ElementId) -> String {
        self.state.path(&self.program, id)
    }

    /// The activity type and the parameters of an activity that was handed out.
    pub fn activity(&self, id: ElementId) -> Option<(usize, &[Value])> {
        let instance = self.state.instances.get(id)?;
        match self.program.node(instance.site_process as usize, instance.site).kind {
            Kind::Activity { activity } if !instance.delegated => Some((activity, &instance.variables)),
            _ => None,
        }
    }

    /// What is to be seen of a live element.
    pub fn view(&self, id: ElementId) -> Option<View> {
        let instance = self.state.instances.get(id)?;
        let site = self.program.node(instance.site_process as usize, instance.site);
        let join = instance.body.join();
        Some(View {
            path: self.path(id),
            tag: site.tag,
            type_name: match site.kind {
                Kind::Activity { activity } => Some(self.program.activities[activity].name.to_string()),
                Kind::Process { process } => Some(self.program.processes[process].name.to_string()),
                _ => None,
            },
            condition: match &instance.phase {
                Phase::Ready => Condition::Ready,
                Phase::Stopping(_) | Phase::Finishing { .. } => Condition::Stopping,
                Phase::Out(out) if matches!(out.stop, Some(Stop::Cancelled)) => Condition::Stopping,
                Phase::Waiting { until, error } => Condition::Waiting(*until, error.clone()),
                Phase::Held(error) => Condition::Held(error.clone()),
                _ => Condition::Running,
            },
            paused: self.is_paused(id),
            delegated: instance.delegated,
            out: matches!(instance.phase, Phase::Out(_)),
            attempts: instance.attempts,
            ended: join.map(|join| (join.completed, join.failed, join.cancelled)),
            total: match &instance.body {
                Body::Loop(it) if it.range.total() != u64::MAX => Some(it.range.total()),
                _ => None,
            },
            children: instance.children().collect(),
        })
    }
}
