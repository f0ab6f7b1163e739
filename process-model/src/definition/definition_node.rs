//! The nodes of a process type: elements and the parts of controllers that have scopes of their own.

use std::ops::Range;
use std::sync::Arc;

use super::definition_node_id::DefinitionNodeId;
use super::estimate::Estimate;
use super::policy::{Delegate, Policy};
use super::script::{Bindings, Script};
use super::variable::{Direction, Variable};
use crate::value::{Type, Value};

/// An element, or a part of one that has a scope of its own. What most nodes do not have is in a box: a definition may have
/// very many nodes.
#[derive(Debug, Clone)]
pub struct DefinitionNode {
    /// Position in the process type.
    pub id: DefinitionNodeId,
    /// Name in paths. Paths name an iteration by its counter instead.
    pub name: Arc<str>,
    /// Tag in the document, for messages.
    pub tag: &'static str,
    /// Line in the document.
    pub line: u32,
    /// Enclosing node; `BODY` has none.
    pub parent: Option<DefinitionNodeId>,
    /// Position among the elements of the parent.
    pub position: u32,
    /// Position after the last node of its subtree.
    pub end: DefinitionNodeId,
    /// Behaviour.
    pub kind: Kind,
    /// Variables of its scope. Activities and subprocesses have none, because their types have them.
    pub variables: Vec<Variable>,
    /// Slot of the first `Local` variable. An `ITERATE` has `counter`, then `item` or the axes of the grid; a `CATCH`
    /// has `error`.
    pub locals: u32,
    /// Slot of the first implicit result of a loop or parallel controller: `completed`, `failed`, `cancelled`, and
    /// `results` if the loop has a `COLLECT`.
    pub summary: u32,
    /// Children: the elements of a sequence or `PAR`, the cases of a switch (`DEFAULT` last), the `ITERATE` of a loop.
    pub elements: Vec<DefinitionNodeId>,
    /// `PRE_CODE`.
    pub pre_code: Option<Box<Script>>,
    /// `POST_CODE`.
    pub post_code: Option<Box<Script>>,
    /// `CATCH`.
    pub catch: Option<DefinitionNodeId>,
    /// `FINALLY`.
    pub finally: Option<DefinitionNodeId>,
    /// Retries, time-out and the meaning of failures.
    pub policy: Policy,
    /// Parameters that attributes set.
    pub bindings: Option<Box<Bindings>>,
    /// `ESTIMATE` of an activity. It completes that of its type: see [`Program::estimate`](super::Program::estimate).
    pub estimate: Option<Box<Estimate>>,
    /// Whether the node may run on another coordinator.
    pub delegate: Delegate,
    /// True if some node inside it may run on another coordinator.
    pub spreads: bool,
    /// True if some code reads its results, so the engine keeps them after the node ended.
    pub kept: bool,
    /// Results of elements in it that code around it reads. When the node completes, they become results of its own.
    pub forwards: Box<[Forward]>,
}

/// A variable of a controller that takes the value of a parameter of one of its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forward {
    /// The element.
    pub element: DefinitionNodeId,
    /// Position in the element's signature.
    pub from: u32,
    /// Position among the variables of the controller.
    pub to: u32,
}

impl DefinitionNode {
    /// Iterates over the scripts that run in the scope of the node.
    pub fn scripts(&self) -> impl Iterator<Item = &Script> {
        let mut scripts: Vec<&Script> = self.pre_code.iter().chain(&self.post_code).map(Box::as_ref).collect();
        match &self.kind {
            Kind::Switch { conditions, .. } => scripts.extend(conditions),
            Kind::For { source, .. } => match source {
                LoopSource::Count { from, to, step, .. } => {
                    scripts.extend([from, to, step].into_iter().flatten().filter_map(Bound::script));
                }
                LoopSource::Each(values) => scripts.extend(values.script()),
                LoopSource::Grid(axes) => scripts.extend(axes.iter().filter_map(|axis| axis.values.script())),
            },
            Kind::While { condition, .. } => scripts.push(condition),
            _ => {}
        }
        scripts.extend(self.kind.collect());
        if let Some(parallel) = self.kind.parallel() {
            scripts.extend(&parallel.exit);
            scripts.extend([&parallel.join, &parallel.max].into_iter().flatten().filter_map(Bound::script));
        }
        scripts.into_iter()
    }

    /// Returns the slots of the local variables of an `ITERATE` or `CATCH`.
    pub fn local_slots(&self) -> Range<usize> {
        let count = self.variables.iter().skip(self.locals as usize).take_while(|v| v.direction == Direction::Local);
        self.locals as usize..self.locals as usize + count.count()
    }
}

/// The behaviour of a node.
#[derive(Debug, Clone)]
pub enum Kind {
    /// Runs on a worker.
    Activity {
        /// Position of the activity type.
        activity: usize,
    },
    /// Runs another process type.
    Process {
        /// Position of the process type.
        process: usize,
    },
    /// `BODY`, `BLOCK`, `ITERATE`, `CASE`, `DEFAULT`, `CATCH`, `FINALLY`: runs its elements one after the other.
    Sequence,
    /// `SWITCH` and `PARSWITCH`. With a `DEFAULT`, the node has one element more than conditions.
    Switch {
        /// Condition of each `CASE`.
        conditions: Vec<Script>,
        /// `PARSWITCH`.
        parallel: Option<Box<Parallel>>,
    },
    /// `FOR` and `PARFOR`.
    For {
        /// Values that the loop goes through.
        source: LoopSource,
        /// `COLLECT`, in the scope of the `ITERATE`.
        collect: Option<Box<Script>>,
        /// `PARFOR`.
        parallel: Option<Box<Parallel>>,
    },
    /// `WHILE` and `PARWHILE`.
    While {
        /// The loop goes on while this expression is true.
        condition: Box<Script>,
        /// `COLLECT`, in the scope of the `ITERATE`.
        collect: Option<Box<Script>>,
        /// `PARWHILE`.
        parallel: Option<Box<Parallel>>,
    },
    /// `PAR`.
    Par {
        /// End condition and degree of parallelism.
        parallel: Box<Parallel>,
        /// For each element, by position: the number of elements it waits for.
        waits_for: Vec<u32>,
        /// For each element, by position: the elements that wait for it.
        dependents: Vec<Vec<u32>>,
    },
}

impl Kind {
    /// Returns the parallel part of a parallel controller.
    pub fn parallel(&self) -> Option<&Parallel> {
        match self {
            Kind::Switch { parallel, .. } | Kind::For { parallel, .. } | Kind::While { parallel, .. } => {
                parallel.as_deref()
            }
            Kind::Par { parallel, .. } => Some(parallel),
            _ => None,
        }
    }

    /// Returns the `COLLECT` of a loop.
    pub fn collect(&self) -> Option<&Script> {
        match self {
            Kind::For { collect, .. } | Kind::While { collect, .. } => collect.as_deref(),
            _ => None,
        }
    }

    /// True for `FOR`, `WHILE`, `PARFOR` and `PARWHILE`.
    pub fn is_loop(&self) -> bool {
        matches!(self, Kind::For { .. } | Kind::While { .. })
    }

    /// True for an activity.
    pub fn is_activity(&self) -> bool {
        matches!(self, Kind::Activity { .. })
    }
}

/// Settings that all parallel controllers share.
#[derive(Debug, Clone, Default)]
pub struct Parallel {
    /// `EXIT_CONDITION`.
    pub exit: Option<Script>,
    /// `JOIN`.
    pub join: Option<Bound>,
    /// `MAX_PARALLEL`.
    pub max: Option<Bound>,
}

/// The values that a `FOR` or `PARFOR` goes through.
#[derive(Debug, Clone)]
pub enum LoopSource {
    /// `FROM`, `TO`, `STEP`. The implicit parameters `counterBegin`, `counterEnd` and `counterStep` stand in for absent
    /// ones; the implicit parameter `items` makes it a loop over a list.
    Count {
        /// `FROM`.
        from: Option<Bound>,
        /// `TO`.
        to: Option<Bound>,
        /// `STEP`.
        step: Option<Bound>,
        /// Slot of `counterBegin`; `counterEnd`, `counterStep` and `items` follow it.
        inputs: u32,
    },
    /// `EACH`.
    Each(ListValues),
    /// `PARAM_GRID`.
    Grid(Vec<Axis>),
}

/// One axis of a parameter grid.
#[derive(Debug, Clone)]
pub struct Axis {
    /// Variable that takes the values.
    pub name: Arc<str>,
    /// Type of the values.
    pub ty: Type,
    /// Values.
    pub values: ListValues,
}

/// A list, literal or computed.
#[derive(Debug, Clone)]
pub enum ListValues {
    /// Values in the document.
    Literal(Arc<Vec<Value>>),
    /// Expression that gives a list.
    Code(Box<Script>),
}

impl ListValues {
    fn script(&self) -> Option<&Script> {
        match self {
            ListValues::Code(script) => Some(script),
            ListValues::Literal(_) => None,
        }
    }
}

/// A whole number, literal or computed.
#[derive(Debug, Clone)]
pub enum Bound {
    /// Number in the document.
    Literal(i64),
    /// Expression that gives a whole number.
    Code(Box<Script>),
}

impl Bound {
    fn script(&self) -> Option<&Script> {
        match self {
            Bound::Code(script) => Some(script),
            Bound::Literal(_) => None,
        }
    }
}
