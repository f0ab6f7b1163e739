//! Live elements as monitoring sees them.

use std::sync::Arc;

use xavantes_model::definition::Kind;
use xavantes_model::value::Value;

use crate::element_id::ElementId;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::outcome::StopReason;
use crate::rejection::Rejection;
use crate::state::body::Body;
use crate::state::element_path::PathTarget;
use crate::state::instance::Phase;
use crate::time::Time;

/// The condition of an element.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// It has not begun, or has ended.
    Absent,
    /// It waits for capacity.
    Ready,
    /// It runs.
    Running,
    /// It stops, or runs its `FINALLY`.
    Stopping,
    /// A try failed; the next begins at that time.
    Waiting(Time, Box<Failure>),
    /// It failed, and waits until a user retries or cancels it.
    Held(Box<Failure>),
}

/// A live element as monitoring sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct View {
    /// The path of the element.
    pub path: String,
    /// The tag in the definition.
    pub tag: &'static str,
    /// The name of the activity or process type, for activities and subprocesses.
    pub type_name: Option<String>,
    /// The condition.
    pub condition: Condition,
    /// The element, or an element around it, is paused.
    pub paused: bool,
    /// The element runs on another coordinator.
    pub delegated: bool,
    /// An attempt is outstanding.
    pub outstanding: bool,
    /// The number of the last attempt.
    pub attempts: u32,
    /// The ended elements of a loop or parallel controller.
    pub ended: Option<EndedCounts>,
    /// The number of iterations of a loop, if something other than a condition bounds it.
    pub total: Option<u64>,
    /// The live elements directly in the element.
    pub children: Vec<ElementId>,
}

/// How many elements of a loop or parallel controller ended in which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedCounts {
    /// Elements that completed.
    pub completed: u64,
    /// Elements that failed permanently.
    pub failed: u64,
    /// Elements that were cancelled.
    pub cancelled: u64,
}

impl Engine {
    /// The live element at a path; `None` if that element has not begun or has ended.
    pub fn find(&self, path: &str) -> Result<Option<ElementId>, Rejection> {
        match self.state.find(&self.program, path)? {
            PathTarget::Live(id) => Ok(Some(id)),
            PathTarget::Absent { .. } => Ok(None),
        }
    }

    /// The id of the process, with which every path begins.
    pub fn id(&self) -> &Arc<str> {
        &self.state.process
    }

    /// The root element, while the process runs.
    pub fn root(&self) -> Option<ElementId> {
        self.state.root.filter(|id| self.state.instances.get(*id).is_some())
    }

    /// The whole process is being cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.root().and_then(|root| self.state.instances.get(root)).is_some_and(|root| root.is_cancelled())
    }

    /// The path of a live element.
    pub fn path(&self, id: ElementId) -> String {
        self.state.path(&self.program, id)
    }

    /// The activity type and the parameters of a live activity.
    pub fn activity(&self, id: ElementId) -> Option<(usize, &[Value])> {
        let instance = self.state.instances.get(id)?;
        match self.program.node(instance.site_process as usize, instance.site).kind {
            Kind::Activity { activity } if !instance.delegated => Some((activity, &instance.variables)),
            _ => None,
        }
    }

    /// A live element as monitoring sees it.
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
                Phase::Outstanding(attempt) if matches!(attempt.stop, Some(StopReason::Cancelled)) => {
                    Condition::Stopping
                }
                Phase::Waiting { until, error } => Condition::Waiting(*until, error.clone()),
                Phase::Held(error) => Condition::Held(error.clone()),
                _ => Condition::Running,
            },
            paused: self.is_paused(id),
            delegated: instance.delegated,
            outstanding: matches!(instance.phase, Phase::Outstanding(_)),
            attempts: instance.attempts,
            ended: join.map(|join| EndedCounts {
                completed: join.completed,
                failed: join.failed,
                cancelled: join.cancelled,
            }),
            total: match &instance.body {
                Body::Loop(body) if body.range.total() != u64::MAX => Some(body.range.total()),
                _ => None,
            },
            children: instance.children().collect(),
        })
    }
}
