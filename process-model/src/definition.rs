//! What a checked document means: types made of nodes, every name resolved, every script ready to run.
//!
//! A process type is a list of nodes in document order. Node 0 is its `BODY`; the nodes of a subtree are neighbours
//! (`id..node.end`). Names are gone: code refers to *slots*, the positions of variables in their scope.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::diagnostic::did_you_mean;
use crate::script::Code;
use crate::value::{Type, Value};

/// The position of a node in its process type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The `BODY` of a process type.
    pub const BODY: NodeId = NodeId(0);

    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// All types of a set of documents, linked to each other.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// Names of the documents.
    pub sources: Vec<Arc<str>>,
    /// Process types, in document order.
    pub processes: Vec<ProcessType>,
    /// Activity types, in document order.
    pub activities: Vec<ActivityType>,
}

impl Program {
    /// The process type of that name.
    pub fn process(&self, name: &str) -> Option<usize> {
        self.processes.iter().position(|process| &*process.name == name)
    }

    /// The process type to start: the one that was asked for, or the only one that no other type calls.
    pub fn entry(&self, wanted: Option<&str>) -> Result<usize, String> {
        let names = || self.processes.iter().map(|process| &*process.name);
        let list = |what: &str| format!("{what}: {}", names().take(20).collect::<Vec<_>>().join(", "));
        if let Some(name) = wanted {
            return self.process(name).ok_or_else(|| {
                let hint = did_you_mean(name, names()).unwrap_or_else(|| list("process types here"));
                format!("there is no process type {name:?}; {hint}")
            });
        }
        let mut called = BTreeSet::new();
        for (caller, process) in self.processes.iter().enumerate() {
            called.extend(process.nodes.iter().filter_map(|node| match node.kind {
                Kind::Process { process } if process != caller => Some(process),
                _ => None,
            }));
        }
        let free: Vec<usize> = (0..self.processes.len()).filter(|process| !called.contains(process)).collect();
        match free[..] {
            [only] => Ok(only),
            _ if self.processes.is_empty() => Err("the definition has no process type".into()),
            _ => Err(format!("which process type is to run? Say --process NAME; {}", list("there are"))),
        }
    }

    /// A node of a process type.
    pub fn node(&self, process: usize, node: NodeId) -> &Node {
        &self.processes[process].nodes[node.index()]
    }

    /// The parameters that others see of an element: those of its type, or a controller's own.
    pub fn signature<'a>(&'a self, node: &'a Node) -> &'a [Variable] {
        match &node.kind {
            Kind::Activity { activity } => &self.activities[*activity].parameters,
            Kind::Process { process } => self.processes[*process].parameters(),
            _ => &node.variables,
        }
    }
}

/// A process type.
#[derive(Debug, Clone)]
pub struct ProcessType {
    /// Its name.
    pub name: Arc<str>,
    /// Which document defines it.
    pub source: usize,
    /// The line of its definition.
    pub line: u32,
    /// How many of the first variables of `BODY` are the type's parameters; the others are `BODY`'s own.
    pub parameters: usize,
    /// In document order; the first is `BODY`.
    pub nodes: Vec<Node>,
}

impl ProcessType {
    /// The parameters.
    pub fn parameters(&self) -> &[Variable] {
        &self.nodes[0].variables[..self.parameters]
    }

    /// What the scripts of a subtree read from outside it, each once.
    pub fn captures(&self, node: NodeId) -> Vec<Input> {
        let inside = node.0..self.nodes[node.index()].end.0;
        let outside = |input: &&Input| match input {
            Input::Variable { node, .. } | Input::Element { scope: node, .. } => !inside.contains(&node.0),
            Input::Summary(_) => false,
        };
        let mut captured = Vec::new();
        for inner in &self.nodes[inside.start as usize..inside.end as usize] {
            // The bindings of the subtree's root are evaluated by whoever hands it over.
            let bindings = (inner.id != node).then_some(inner.bindings.as_ref()).flatten();
            let scripts = inner.scripts().chain(bindings.and_then(|bindings| bindings.script.as_ref()));
            for input in scripts.flat_map(|script| &script.inputs).filter(outside) {
                if !captured.contains(input) {
                    captured.push(*input);
                }
            }
        }
        captured
    }
}

/// Who sets a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Whoever starts the element.
    In,
    /// The element.
    Out,
    /// Both.
    InOut,
    /// The engine: loop counters, items, errors. Code may only read it.
    Local,
}

impl Direction {
    /// The starter gives a value.
    pub fn is_in(self) -> bool {
        matches!(self, Direction::In | Direction::InOut)
    }

    /// The element gives a value.
    pub fn is_out(self) -> bool {
        matches!(self, Direction::Out | Direction::InOut)
    }
}

/// A parameter, or a variable that the engine sets.
#[derive(Debug, Clone)]
pub struct Variable {
    /// Its name.
    pub name: Arc<str>,
    /// Its type; none for loop items and results, which can be anything.
    pub ty: Option<Type>,
    /// Who sets it.
    pub direction: Direction,
    /// Its value when nobody gives one.
    pub default: Option<Value>,
    /// It may stay without a value.
    pub optional: bool,
    /// Part of every such controller rather than declared by the author: `counterBegin`, `completed`, …
    pub implicit: bool,
}

/// An element, or a part of one that has a scope of its own.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its own position.
    pub id: NodeId,
    /// Its name in paths; iterations are named by their counter instead.
    pub name: Arc<str>,
    /// The tag in the document, for messages.
    pub tag: &'static str,
    /// Its line.
    pub line: u32,
    /// The node around it.
    pub parent: Option<NodeId>,
    /// Its position among the parent's elements.
    pub position: u32,
    /// One past the last node of its subtree.
    pub end: NodeId,
    /// What it does.
    pub kind: Kind,
    /// The variables of its scope. Activities and subprocesses have none: their types do.
    pub variables: Vec<Variable>,
    /// The first of its `Local` variables. An `ITERATE` has `counter`, then `item` or the axes of the grid; a `CATCH`
    /// has `error`.
    pub locals: u32,
    /// The first of the implicit results of a loop or parallel controller: `completed`, `failed`, `cancelled`, and
    /// `results` if it collects.
    pub summary: u32,
    /// In a sequence or `PAR` its elements, in a switch its cases (`DEFAULT` last), in a loop its `ITERATE` alone.
    pub elements: Vec<NodeId>,
    /// `PRE_CODE`.
    pub pre_code: Option<Script>,
    /// `POST_CODE`.
    pub post_code: Option<Script>,
    /// `CATCH`.
    pub catch: Option<NodeId>,
    /// `FINALLY`.
    pub finally: Option<NodeId>,
    /// Retries, time-out and what a failure means.
    pub policy: Policy,
    /// Parameters set by attributes.
    pub bindings: Option<Bindings>,
    /// May it run on another coordinator?
    pub delegate: Delegate,
    /// May something in it?
    pub spreads: bool,
    /// Some code reads its results, so they are kept after its end.
    pub kept: bool,
}

impl Node {
    /// All scripts that run in the node's scope.
    pub fn scripts(&self) -> impl Iterator<Item = &Script> {
        let mut scripts: Vec<&Script> = self.pre_code.iter().chain(&self.post_code).collect();
        match &self.kind {
            Kind::Switch { conditions, .. } => scripts.extend(conditions),
            Kind::For { source, .. } => match source {
                Source::Count { from, to, step, .. } => {
                    scripts.extend([from, to, step].into_iter().flatten().filter_map(Bound::script));
                }
                Source::Each(script) => scripts.push(script),
                Source::Grid(axes) => scripts.extend(axes.iter().filter_map(|axis| match &axis.values {
                    AxisValues::Code(script) => Some(script),
                    AxisValues::Literal(_) => None,
                })),
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

    /// The slots of an `ITERATE`'s or `CATCH`'s local variables.
    pub fn local_slots(&self) -> Range<usize> {
        let count = self.variables.iter().skip(self.locals as usize).take_while(|v| v.direction == Direction::Local);
        self.locals as usize..self.locals as usize + count.count()
    }
}

/// What a node does.
#[derive(Debug, Clone)]
pub enum Kind {
    /// Runs on a worker.
    Activity {
        /// Its type.
        activity: usize,
    },
    /// Another process type.
    Process {
        /// Its type.
        process: usize,
    },
    /// `BODY`, `BLOCK`, `ITERATE`, `CASE`, `DEFAULT`, `CATCH`, `FINALLY`: its elements one after the other.
    Sequence,
    /// `SWITCH` and `PARSWITCH`. There is one element more than conditions if there is a `DEFAULT`.
    Switch {
        /// One for each `CASE`.
        conditions: Vec<Script>,
        /// `PARSWITCH`.
        parallel: Option<Parallel>,
    },
    /// `FOR` and `PARFOR`.
    For {
        /// What it counts through.
        source: Source,
        /// `COLLECT`, in the scope of the `ITERATE`.
        collect: Option<Script>,
        /// `PARFOR`.
        parallel: Option<Parallel>,
    },
    /// `WHILE` and `PARWHILE`.
    While {
        /// Goes on while this holds.
        condition: Script,
        /// `COLLECT`, in the scope of the `ITERATE`.
        collect: Option<Script>,
        /// `PARWHILE`.
        parallel: Option<Parallel>,
    },
    /// `PAR`.
    Par {
        /// When it ends and how wide it may be.
        parallel: Parallel,
        /// For each element, by position: how many it waits for.
        waits_for: Vec<u32>,
        /// For each element, by position: who waits for it.
        dependents: Vec<Vec<u32>>,
    },
}

impl Kind {
    /// The parallel part, if it has one.
    pub fn parallel(&self) -> Option<&Parallel> {
        match self {
            Kind::Switch { parallel, .. } | Kind::For { parallel, .. } | Kind::While { parallel, .. } => {
                parallel.as_ref()
            }
            Kind::Par { parallel, .. } => Some(parallel),
            _ => None,
        }
    }

    /// `COLLECT`, if there is one.
    pub fn collect(&self) -> Option<&Script> {
        match self {
            Kind::For { collect, .. } | Kind::While { collect, .. } => collect.as_ref(),
            _ => None,
        }
    }

    /// `FOR`, `WHILE` and their parallel kin.
    pub fn is_loop(&self) -> bool {
        matches!(self, Kind::For { .. } | Kind::While { .. })
    }

    /// Runs elsewhere always: an activity.
    pub fn is_activity(&self) -> bool {
        matches!(self, Kind::Activity { .. })
    }
}

/// What parallel controllers have in common.
#[derive(Debug, Clone, Default)]
pub struct Parallel {
    /// `EXIT_CONDITION`.
    pub exit: Option<Script>,
    /// `JOIN`.
    pub join: Option<Bound>,
    /// `MAX_PARALLEL`.
    pub max: Option<Bound>,
}

/// What a loop counts through.
#[derive(Debug, Clone)]
pub enum Source {
    /// `FROM`, `TO`, `STEP`; what is absent comes from the implicit parameters `counterBegin`, `counterEnd`,
    /// `counterStep`, and `items` makes it a loop over a list.
    Count {
        /// `FROM`.
        from: Option<Bound>,
        /// `TO`.
        to: Option<Bound>,
        /// `STEP`.
        step: Option<Bound>,
        /// The slot of `counterBegin`; the other three follow.
        inputs: u32,
    },
    /// `EACH`.
    Each(Script),
    /// `PARAM_GRID`.
    Grid(Vec<Axis>),
}

/// One axis of a parameter grid.
#[derive(Debug, Clone)]
pub struct Axis {
    /// The variable that takes the values.
    pub name: Arc<str>,
    /// The type of the values.
    pub ty: Type,
    /// The values.
    pub values: AxisValues,
}

/// The values of an axis.
#[derive(Debug, Clone)]
pub enum AxisValues {
    /// Written down.
    Literal(Arc<Vec<Value>>),
    /// Computed: a list.
    Code(Script),
}

/// A whole number, written down or computed.
#[derive(Debug, Clone)]
pub enum Bound {
    /// Written down.
    Literal(i64),
    /// Computed.
    Code(Script),
}

impl Bound {
    fn script(&self) -> Option<&Script> {
        match self {
            Bound::Code(script) => Some(script),
            Bound::Literal(_) => None,
        }
    }
}

/// Parameters of an element set by its attributes.
#[derive(Debug, Clone, Default)]
pub struct Bindings {
    /// Slots of the element's signature with values that are known.
    pub literals: Vec<(u32, Value)>,
    /// Computes the others, in the scope around the element.
    pub script: Option<Script>,
    /// The slots that the script's values go to, in order.
    pub targets: Vec<u32>,
}

/// Code of a definition with its names resolved.
#[derive(Debug, Clone)]
pub struct Script {
    /// Ready to run: takes `inputs`, gives `outputs` (statements) or the values of expressions.
    pub code: Code,
    /// What it reads.
    pub inputs: Vec<Input>,
    /// What it assigns; empty for expressions.
    pub outputs: Vec<Target>,
    /// Its line in the document.
    pub line: u32,
}

/// What a script reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Input {
    /// A variable of the script's own scope or one around it.
    Variable {
        /// The scope.
        node: NodeId,
        /// Its position there.
        slot: u32,
    },
    /// A parameter of an element of the script's own scope or one around it.
    Element {
        /// The scope.
        scope: NodeId,
        /// The element in it.
        element: NodeId,
        /// The position in the element's signature.
        slot: u32,
    },
    /// How far the controller is whose code this is.
    Summary(Summary),
}

/// What the code of a loop or parallel controller can ask about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Summary {
    /// How many of its elements completed.
    Completed,
    /// How many failed.
    Failed,
    /// How many were cancelled.
    Cancelled,
    /// How many are running.
    Running,
    /// What was collected.
    Results,
    /// The number of the iteration about to begin, from 1.
    Counter,
}

impl Summary {
    /// All, with their names in code.
    pub const ALL: [(&'static str, Summary); 6] = [
        ("completed", Summary::Completed),
        ("failed", Summary::Failed),
        ("cancelled", Summary::Cancelled),
        ("running", Summary::Running),
        ("results", Summary::Results),
        ("counter", Summary::Counter),
    ];
}

/// What a script assigns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Target {
    /// A variable of the script's own scope, or of the controller whose body the scope is.
    Variable {
        /// The scope.
        node: NodeId,
        /// Its position there.
        slot: u32,
    },
    /// A parameter of an element of the script's own scope.
    Element {
        /// The element.
        element: NodeId,
        /// The position in its signature.
        slot: u32,
    },
}

/// What happens when an element fails or takes too long.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Policy {
    /// How often it is tried again.
    pub retries: u32,
    /// The pause before the first retry.
    pub delay: Duration,
    /// Each further pause is so many times the one before.
    pub backoff: f64,
    /// How long one try may take.
    pub timeout: Option<Duration>,
    /// What a failure means to the controller around.
    pub on_failure: OnFailure,
}

impl Default for Policy {
    fn default() -> Self {
        Self { retries: 0, delay: Duration::ZERO, backoff: 2.0, timeout: None, on_failure: OnFailure::Fail }
    }
}

impl Policy {
    /// The longest pause between two tries.
    pub const LONGEST_DELAY: Duration = Duration::from_secs(3600);

    /// The pause before the try that follows `failures` failed ones.
    pub fn delay_after(&self, failures: u32) -> Duration {
        let factor = self.backoff.powi(failures.saturating_sub(1).min(1000) as i32);
        Duration::try_from_secs_f64(self.delay.as_secs_f64() * factor)
            .unwrap_or(Self::LONGEST_DELAY)
            .min(Self::LONGEST_DELAY.max(self.delay))
    }
}

/// What the failure of an element means to the controller around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// It fails too.
    Fail,
    /// It goes on.
    Continue,
    /// The element waits for someone to retry or cancel it.
    Hold,
}

/// Whether an element may run on another coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delegate {
    /// When it is worth it and there is room.
    Auto,
    /// Whenever there is another coordinator.
    Always,
    /// Not.
    Never,
}

/// An activity type.
#[derive(Debug, Clone)]
pub struct ActivityType {
    /// Its name.
    pub name: Arc<str>,
    /// Which document defines it.
    pub source: usize,
    /// The line of its definition.
    pub line: u32,
    /// Its parameters.
    pub parameters: Vec<Variable>,
    /// What it needs.
    pub requires: Requires,
    /// The files that are laid into its working directory, and taken out of it.
    pub files: ActivityFiles,
    /// What it runs.
    pub code: ActivityCode,
    /// How its program is run; of Lua code nothing of it counts.
    pub launch: Launch,
    /// Its results are kept, and used again for the same parameters.
    pub cache: bool,
}

/// The files of an activity that runs in a working directory.
#[derive(Debug, Clone, Default)]
pub struct ActivityFiles {
    /// Where parameters are laid; others have places by default.
    pub inputs: Vec<InputFile>,
    /// What is taken at the end.
    pub outputs: Vec<OutputFile>,
    /// Gives the texts that are computed, in order, from all parameters and the number of the attempt.
    pub code: Option<Code>,
}

/// Where a parameter is laid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// The parameter.
    pub slot: u32,
    /// The path in the working directory.
    pub path: FileText,
}

/// What becomes the value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// The parameter.
    pub slot: u32,
    /// Matches paths in the working directory.
    pub pattern: FileText,
    /// Where it is written to, besides: a place in a data source.
    pub to: Option<FileText>,
}

/// A path, pattern or place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileText {
    /// As it is written.
    Plain(Arc<str>),
    /// The result of that number of [`ActivityFiles::code`].
    Computed(usize),
}

/// What a worker must have to run an activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requires {
    /// Processor cores.
    pub cpus: u32,
    /// Bytes of memory; 0 when nothing was asked for.
    pub memory: u64,
    /// Graphics processors.
    pub gpus: u32,
    /// Bytes of disk that it may use while it runs; 0 when nothing was asked for.
    pub scratch: u64,
    /// Files that each of its processes may have open; 0 when nothing was asked for.
    pub open_files: u32,
    /// Processes that it may have at once; 0 when nothing was asked for.
    pub processes: u32,
    /// Words that the worker must be tagged with.
    pub tags: Vec<Arc<str>>,
}

impl Default for Requires {
    fn default() -> Self {
        Self { cpus: 1, memory: 0, gpus: 0, scratch: 0, open_files: 0, processes: 0, tags: Vec::new() }
    }
}

/// How a program is run, and what its end means.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// It runs in a container of this image.
    pub image: Option<Arc<str>>,
    /// Environment variables that are declared.
    pub environment: Environment,
    /// Exit statuses that mean success.
    pub success: Statuses,
    /// Exit statuses after which it is worth trying again; without them all that are no success.
    pub retry: Option<Statuses>,
    /// For each parameter in order, what gives its value, if that is not the file of results.
    pub captures: Vec<Option<Capture>>,
}

/// Environment variables with their values.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// The names.
    pub names: Vec<Arc<str>>,
    /// Gives the values in the order of the names, from all parameters in order and the number of the attempt.
    pub code: Option<Code>,
}

/// What a program leaves besides its file of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    /// Everything that it printed.
    Stdout,
    /// That, without white space around it, as a literal of the parameter's type.
    Trimmed,
    /// That, as JSON.
    Json,
    /// Its exit status.
    ExitStatus,
}

/// Some exit statuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statuses(pub Vec<RangeInclusive<u8>>);

impl Default for Statuses {
    fn default() -> Self {
        Self(vec![0..=0])
    }
}

impl Statuses {
    /// Is this one of them?
    pub fn contains(&self, status: i32) -> bool {
        u8::try_from(status).is_ok_and(|status| self.0.iter().any(|range| range.contains(&status)))
    }
}

/// What an activity runs.
#[derive(Debug, Clone)]
pub enum ActivityCode {
    /// Lua in the worker's sandbox. Takes all parameters in order and the number of the attempt; gives the `OUT` and
    /// `INOUT` parameters in order.
    Lua {
        /// The author's text.
        text: Arc<str>,
        /// Ready to run.
        code: Code,
    },
    /// A program with its arguments, no shell. Each argument is an expression over all parameters in order.
    Command {
        /// The arguments as written.
        texts: Vec<Arc<str>>,
        /// They, ready to run: gives the arguments in order.
        code: Code,
    },
    /// A text for an interpreter that the worker has.
    Interpreter {
        /// `bash`, `python`, …
        language: Arc<str>,
        /// The text.
        text: Arc<str>,
        /// The line at which it begins.
        line: u32,
    },
}
