//! Live elements as monitoring sees them.

use std::sync::Arc;

use xavantes_model::definition::{DefinitionNode, DefinitionNodeId, Kind, Program, Variable};
use xavantes_model::value::Value;

use crate::element_id::ElementId;
use crate::engine::Engine;
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::rejection::Rejection;
use crate::state::body::{Body, Par, Range};
use crate::state::element_path::PathTarget;
use crate::state::instance::{Instance, Phase};
use crate::time::Time;

/// The state of an element, as far as the engine knows it. The driver knows more about attempts that are outstanding.
#[derive(Debug, Clone, PartialEq)]
pub enum ElementState {
    /// It waits for this.
    Waiting(WaitsFor),
    /// Its attempt is handed out.
    Outstanding,
    /// Its body runs.
    Running,
    /// A user paused it.
    Paused,
    /// It failed, and waits until a user retries or cancels it.
    Held(Box<Failure>),
    /// It stops, or runs its `FINALLY` after that.
    Stopping,
}

/// What an element waits for.
#[derive(Debug, Clone, PartialEq)]
pub enum WaitsFor {
    /// Elements of the same `PAR` that have not ended, by name.
    Siblings(Vec<Arc<str>>),
    /// Capacity, or `MAX_PARALLEL`.
    Room,
    /// A try failed; the next begins at that time.
    Retry(Time, Box<Failure>),
    /// The resumption of the element at this path, which is around it.
    Paused(String),
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
    /// The state.
    pub state: ElementState,
    /// The element, or an element around it, is paused.
    pub paused: bool,
    /// The element runs on another coordinator.
    pub delegated: bool,
    /// An attempt is outstanding.
    pub outstanding: bool,
    /// The number of the last attempt.
    pub attempts: u32,
    /// When the element began, to the second.
    pub began: Time,
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

/// An element of a `PAR` that has not begun.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingElement {
    /// The path of the element.
    pub path: String,
    /// The tag in the definition.
    pub tag: &'static str,
    /// The name of the activity or process type, for activities and subprocesses.
    pub type_name: Option<String>,
    /// What it waits for.
    pub waits_for: WaitsFor,
}

/// A live element of a subtree, as [`Engine::live_elements`] lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveElement {
    /// The element.
    pub id: ElementId,
    /// The position of the element around it in the list.
    pub parent: Option<usize>,
    /// The number of its last attempt.
    pub attempt: u32,
    /// It runs on another coordinator.
    pub delegated: bool,
    /// What is to be counted of it.
    pub phase: LivePhase,
}

/// What is to be counted of a live element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LivePhase {
    /// Nothing: the elements in it are.
    Inner,
    /// It has no attempt, and waits to be handed out.
    Ready,
    /// Its attempt is outstanding.
    Outstanding,
    /// It waits for its next try.
    Delayed,
    /// It waits for the decision of a user.
    Held,
}

/// The bounds of a loop or parallel controller as they are now: those of the definition, or of a `set`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CurrentBounds {
    /// The first and the last value of `counter`, and the difference between a value and the next.
    pub counter: Option<(i64, i64, i64)>,
    /// `MAX_PARALLEL`.
    pub max_parallel: Option<u64>,
    /// `JOIN`.
    pub join: Option<u64>,
    /// The `EXIT_CONDITION` that a user set.
    pub exit_condition: Option<Arc<str>>,
}

impl Engine {
    /// The live element at a path; `None` if that element has not begun or has ended.
    pub fn find(&self, path: &str) -> Result<Option<ElementId>, Rejection> {
        match self.state.find(&self.program, path)? {
            PathTarget::Live(id) => Ok(Some(id)),
            PathTarget::Absent { .. } => Ok(None),
        }
    }

    /// The element of a live `PAR` at a path that has not begun.
    pub fn find_pending(&self, path: &str) -> Option<PendingElement> {
        let Ok(PathTarget::Absent { scope, element }) = self.state.find(&self.program, path) else { return None };
        let instance = self.state.instances.get(scope)?;
        let position = self.program.node(instance.process as usize, element).position;
        self.pending(scope).find(|(pending, _)| *pending == position).map(|(_, pending)| pending)
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

    /// A user paused the process as a whole.
    pub fn is_root_paused(&self) -> bool {
        self.state.counts.paused > 0
            && self.root().and_then(|root| self.state.instances.get(root)).is_some_and(|root| root.paused.is_some())
    }

    /// The path of a live element that a user paused directly.
    pub fn paused_path(&self, id: ElementId) -> Option<String> {
        self.state.instances.get(id)?.paused.map(|_| self.path(id))
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
            type_name: type_name(&self.program, site),
            state: self.element_state(id, instance),
            paused: self.is_paused(id),
            delegated: instance.delegated,
            outstanding: matches!(instance.phase, Phase::Outstanding(_)),
            attempts: instance.attempts,
            began: instance.began,
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

    fn element_state(&self, id: ElementId, instance: &Instance) -> ElementState {
        match &instance.phase {
            Phase::Stopping(_) => ElementState::Stopping,
            Phase::Finishing { outcome: Outcome::Cancelled | Outcome::Restart, .. } => ElementState::Stopping,
            Phase::Outstanding(attempt) if attempt.stop.is_some() => ElementState::Stopping,
            Phase::Held(error) => ElementState::Held(error.clone()),
            // An activity runs on during a pause.
            Phase::Outstanding(_) if !instance.delegated => ElementState::Outstanding,
            _ if instance.paused.is_some() => ElementState::Paused,
            Phase::Outstanding(_) => ElementState::Outstanding,
            Phase::Ready => ElementState::Waiting(self.pause_around(id).unwrap_or(WaitsFor::Room)),
            Phase::Waiting { until, error } => {
                let retry = || WaitsFor::Retry(*until, error.clone());
                ElementState::Waiting(self.pause_around(id).unwrap_or_else(retry))
            }
            // Nothing in it goes on, and nothing new starts.
            _ if !instance.has_children() => self.pause_around(id).map_or(ElementState::Running, ElementState::Waiting),
            _ => ElementState::Running,
        }
    }

    /// The nearest paused element around an element that the pause stops.
    fn pause_around(&self, id: ElementId) -> Option<WaitsFor> {
        if !self.is_paused(id) {
            return None;
        }
        let mut next = Some(id);
        while let Some((id, instance)) = next.and_then(|id| Some((id, self.state.instances.get(id)?))) {
            if instance.paused.is_some() {
                return Some(WaitsFor::Paused(self.path(id)));
            }
            next = instance.parent;
        }
        None
    }

    /// The elements of a live `PAR` or `PARSWITCH` that have not begun and may begin, by position.
    pub fn pending(&self, id: ElementId) -> impl Iterator<Item = (u32, PendingElement)> {
        let instance = self.state.instances.get(id).filter(|instance| matches!(instance.phase, Phase::Running));
        let par = instance.and_then(|instance| match &instance.body {
            Body::Par(body) => Some((instance, &**body)),
            _ => None,
        });
        par.into_iter().flat_map(move |(instance, body)| {
            let process = instance.process as usize;
            let node = self.program.node(process, instance.node);
            let around = self.path(id);
            let pause = if self.is_paused(id) { self.pause_around(id) } else { None };
            let mut siblings = unended_predecessors(&self.program, process, node, body);
            let positions = (0..node.elements.len() as u32).filter(|position| body.is_pending(*position));
            positions.map(move |position| {
                let site = self.program.node(process, node.elements[position as usize]);
                let waits_for = match siblings.get_mut(position as usize).map(std::mem::take) {
                    Some(names) if !names.is_empty() => WaitsFor::Siblings(names),
                    _ => pause.clone().unwrap_or(WaitsFor::Room),
                };
                let path = format!("{around}/{}", site.name);
                let type_name = type_name(&self.program, site);
                (position, PendingElement { path, tag: site.tag, type_name, waits_for })
            })
        })
    }

    /// The live elements of a subtree, at most `max`; each after the element around it, siblings in their order.
    pub fn live_elements(&self, root: ElementId, max: usize) -> Vec<LiveElement> {
        let mut found = Vec::new();
        let mut pending = vec![(root, None)];
        while let Some((id, parent)) = pending.pop()
            && found.len() < max
        {
            let Some(instance) = self.state.instances.get(id) else { continue };
            let phase = match &instance.phase {
                Phase::Ready => LivePhase::Ready,
                Phase::Outstanding(_) => LivePhase::Outstanding,
                Phase::Waiting { .. } => LivePhase::Delayed,
                Phase::Held(_) => LivePhase::Held,
                _ => LivePhase::Inner,
            };
            let position = found.len();
            let (attempt, delegated) = (instance.attempts, instance.delegated);
            found.push(LiveElement { id, parent, attempt, delegated, phase });
            let first = pending.len();
            pending.extend(instance.children().map(|child| (child, Some(position))));
            pending[first..].reverse();
        }
        found
    }

    /// The parameters that a live element was given, with their values; those of a controller are its variables.
    pub fn inputs(&self, id: ElementId) -> impl Iterator<Item = (&Variable, &Value)> {
        let instance = self.state.instances.get(id);
        instance.into_iter().flat_map(|instance| {
            let site = self.program.node(instance.site_process as usize, instance.site);
            let signature = match instance.parent {
                // The site of the root is what it runs.
                None if instance.node == DefinitionNodeId::BODY => {
                    self.program.processes[instance.process as usize].parameters()
                }
                _ => self.program.signature(site),
            };
            let given = signature.iter().zip(&instance.variables);
            given.filter(|(variable, _)| variable.direction.is_in() && !variable.implicit)
        })
    }

    /// The setting of a parameter must not be shown: the element at the path declares it as secret.
    pub fn is_secret(&self, path: &str, parameter: &str) -> bool {
        let Ok(PathTarget::Absent { scope, element }) = self.state.find(&self.program, path) else { return false };
        let Some(scope) = self.state.instances.get(scope) else { return false };
        let signature = self.program.signature(self.program.node(scope.process as usize, element));
        signature.iter().any(|variable| *variable.name == *parameter && variable.secret)
    }

    /// The bounds of a loop or parallel controller as they are now.
    pub fn bounds(&self, id: ElementId) -> Option<CurrentBounds> {
        let instance = self.state.instances.get(id)?;
        let join = instance.body.join()?;
        let counter = match &instance.body {
            Body::Loop(body) => match &body.range {
                Range::Count { begin, step, total } if *total > 0 => {
                    Some((*begin, body.range.counter(total - 1), *step))
                }
                _ => None,
            },
            _ => None,
        };
        let (max_parallel, join, exit_condition) = (join.max, join.at_least, join.exit.clone());
        Some(CurrentBounds { counter, max_parallel, join, exit_condition })
    }
}

/// The name of the activity or process type of an element.
fn type_name(program: &Program, site: &DefinitionNode) -> Option<String> {
    match site.kind {
        Kind::Activity { activity } => Some(program.activities[activity].name.to_string()),
        Kind::Process { process } => Some(program.processes[process].name.to_string()),
        _ => None,
    }
}

/// For each element of a `PAR`, by position: the names of those that it waits for and that have not ended.
fn unended_predecessors(program: &Program, process: usize, node: &DefinitionNode, body: &Par) -> Vec<Vec<Arc<str>>> {
    let mut names = vec![Vec::new(); node.elements.len()];
    let Kind::Par { dependents, .. } = &node.kind else { return names };
    for (position, waiting) in dependents.iter().enumerate() {
        let unended = body.is_pending(position as u32) || body.join.live.contains_key(&(position as u64));
        if unended {
            let name = &program.node(process, node.elements[position]).name;
            waiting.iter().for_each(|waits| names[*waits as usize].push(name.clone()));
        }
    }
    names
}
