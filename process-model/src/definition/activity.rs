//! Activity types: the code that a worker runs, its files, its resources, and the meaning of its exit status.

use std::ops::RangeInclusive;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::estimate::Estimate;
use super::language::Language;
use super::variable::Variable;
use crate::script::Code;

/// An activity type.
#[derive(Debug, Clone)]
pub struct ActivityType {
    /// Name, unique among activity types.
    pub name: Arc<str>,
    /// Position of the document that defines it, in [`Program::sources`](super::Program::sources).
    pub source: usize,
    /// Line of its definition.
    pub line: u32,
    /// Parameters in declared order.
    pub parameters: Vec<Variable>,
    /// Resources that a worker needs to run it.
    pub requires: Requires,
    /// Files that the worker stages into and out of the working directory.
    pub files: ActivityFiles,
    /// Code that it runs.
    pub code: ActivityCode,
    /// How the worker runs the external program; Lua code does not use it.
    pub launch: Launch,
    /// True if the grid may reuse earlier results for the same parameters.
    pub cache: bool,
    /// What planners may assume of its activities.
    pub estimate: Option<Box<Estimate>>,
}

impl ActivityType {
    /// The language of the code, if its parameters are variables.
    pub fn language(&self) -> Option<Language> {
        match &self.code {
            ActivityCode::Interpreter { language, .. } => Language::from_name(language),
            _ => None,
        }
    }

    /// True if the code assigns the result of this parameter: it comes neither from files nor from what the code prints.
    pub fn is_assigned(&self, slot: usize) -> bool {
        let variable = &self.parameters[slot];
        let captured = self.launch.captures.get(slot).is_some_and(Option::is_some) || &*variable.name == "stdout";
        let staged = self.files.outputs.iter().any(|output| output.slot as usize == slot);
        variable.direction.is_out() && !captured && !staged
    }
}

/// The files of an activity that runs in a working directory.
#[derive(Debug, Clone, Default)]
pub struct ActivityFiles {
    /// Paths of staged-in parameters; parameters without an entry have default paths.
    pub inputs: Vec<InputFile>,
    /// Files to stage out when the activity ends.
    pub outputs: Vec<OutputFile>,
    /// Computes the texts of [`FileText::Computed`], in order, from all parameters and the number of the attempt.
    pub code: Option<Code>,
}

/// Path that a parameter is staged in to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// Slot of the parameter.
    pub slot: u32,
    /// Path in the working directory.
    pub path: FileText,
}

/// Files that become the value of a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// Slot of the parameter.
    pub slot: u32,
    /// Pattern that matches paths in the working directory.
    pub pattern: FileText,
    /// Location in a data source that receives a copy.
    pub to: Option<FileText>,
}

/// A path, a pattern or a location in a data source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileText {
    /// Text without code.
    Plain(Arc<str>),
    /// Position among the results of [`ActivityFiles::code`].
    Computed(usize),
}

/// Resources and tags that a worker must have to run an activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requires {
    /// Processor cores.
    pub cpus: u32,
    /// Bytes of memory; 0 for no requirement.
    pub memory: u64,
    /// Graphics processors.
    pub gpus: u32,
    /// Bytes of disk that it may use while it runs; 0 for no requirement.
    pub scratch: u64,
    /// Files that each of its processes may have open; 0 for no requirement.
    pub open_files: u32,
    /// Processes that it may have at once; 0 for no requirement.
    pub processes: u32,
    /// Tags that the worker must have.
    pub tags: Vec<Arc<str>>,
}

impl Default for Requires {
    fn default() -> Self {
        Self { cpus: 1, memory: 0, gpus: 0, scratch: 0, open_files: 0, processes: 0, tags: Vec::new() }
    }
}

/// How a worker runs an external program, and the meaning of its exit status.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// Image of the container that it runs in.
    pub image: Option<Arc<str>>,
    /// Declared environment variables.
    pub environment: Environment,
    /// Exit statuses that mean success.
    pub success: ExitStatuses,
    /// Exit statuses after which a retry makes sense. `None`: every status that is not a success.
    pub retry: Option<ExitStatuses>,
    /// For each parameter in order: the source of its value, if that is not the code or the file of results.
    pub captures: Vec<Option<Capture>>,
    /// True if a shell goes on after a command that failed.
    pub relaxed: bool,
}

/// Environment variables with their values.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// Names.
    pub names: Vec<Arc<str>>,
    /// Computes the values, in the order of the names, from all parameters and the number of the attempt.
    pub code: Option<Code>,
}

/// A source of results other than the file of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    /// Standard output, unchanged.
    Stdout,
    /// Standard output without surrounding white space, as a literal of the parameter's type.
    Trimmed,
    /// Standard output as JSON.
    Json,
    /// Exit status.
    ExitStatus,
}

/// A set of exit statuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitStatuses(pub Vec<RangeInclusive<u8>>);

impl Default for ExitStatuses {
    fn default() -> Self {
        Self(vec![0..=0])
    }
}

impl ExitStatuses {
    /// True if `status` belongs to the set.
    pub fn contains(&self, status: i32) -> bool {
        u8::try_from(status).is_ok_and(|status| self.0.iter().any(|range| range.contains(&status)))
    }
}

/// The code of an activity.
#[derive(Debug, Clone)]
pub enum ActivityCode {
    /// Lua in the sandbox of the worker. It takes all parameters in order and the number of the attempt, and returns
    /// the `OUT` and `INOUT` parameters in order.
    Lua {
        /// Text in the document.
        text: Arc<str>,
        /// Compiled form.
        code: Code,
    },
    /// An external program with its arguments, without a shell. Each argument is an expression over all parameters.
    Command {
        /// Arguments as written.
        texts: Vec<Arc<str>>,
        /// Compiled form, which returns the arguments in order.
        code: Code,
    },
    /// A script for an interpreter that the worker has.
    Interpreter {
        /// `bash`, `python`, …
        language: Arc<str>,
        /// Text of the script.
        text: Arc<str>,
        /// Line at which the text begins.
        line: u32,
    },
}
