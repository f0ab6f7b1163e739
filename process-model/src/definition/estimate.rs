//! What planners may assume of an activity before anything was measured: time, sizes, files. Nothing here changes how a
//! process runs.

use std::sync::Arc;

use super::script::ScriptInput;
use crate::script::{Argument, Code, Error, ErrorKind, Sandbox};
use crate::shared_objects::Objects;
use crate::value::Value;

/// `ESTIMATE` of an activity type or of an activity.
#[derive(Debug, Clone, Default)]
pub struct Estimate {
    /// Seconds on a machine of speed 1.
    pub seconds: Option<Amount>,
    /// Seconds on a graphics processor of speed 1.
    pub gpu_seconds: Option<Amount>,
    /// Sizes of parameters.
    pub sizes: Vec<SizeEstimate>,
    /// Files that the activity uses besides its parameters.
    pub files: Vec<FileEstimate>,
}

/// A number, literal or computed. It is finite and not negative.
#[derive(Debug, Clone)]
pub enum Amount {
    /// Number in the document.
    Literal(f64),
    /// Expression that gives a number.
    Computed(Box<EstimateCode>),
}

/// The name of a file, literal or computed.
#[derive(Debug, Clone)]
pub enum FileName {
    /// Name in the document.
    Plain(Arc<str>),
    /// Expression that gives a text.
    Computed(Box<EstimateCode>),
}

/// An expression of an estimate.
#[derive(Debug, Clone)]
pub struct EstimateCode {
    /// Compiled form. It takes `inputs` and returns one value.
    pub code: Code,
    /// Arguments, in order.
    pub inputs: Vec<EstimateInput>,
}

/// One argument of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EstimateInput {
    /// A parameter of the activity, by its slot: in the estimate of a type.
    Parameter(u32),
    /// A variable or an element in reach of the scope around the activity: in the estimate of an activity.
    Around(ScriptInput),
}

/// The size of the value of a parameter.
#[derive(Debug, Clone)]
pub struct SizeEstimate {
    /// Slot of the parameter in the activity type.
    pub slot: u32,
    /// Bytes.
    pub bytes: Amount,
}

/// A file that an activity uses besides its parameters.
#[derive(Debug, Clone)]
pub struct FileEstimate {
    /// Name; activities of one process that use the same name use the same file.
    pub name: FileName,
    /// Whether the activity reads or writes it.
    pub access: FileAccess,
    /// Bytes, if they are given here.
    pub bytes: Option<Amount>,
}

/// How an activity uses a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileAccess {
    /// The activity reads the file.
    Read,
    /// The activity writes the file.
    Write,
}

/// An [`Estimate`] with its expressions computed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Assumptions {
    /// Seconds on a machine of speed 1; `None` if no estimate says it, or a value that it depends on is not known.
    pub seconds: Option<f64>,
    /// Seconds on a graphics processor of speed 1.
    pub gpu_seconds: Option<f64>,
    /// Slots and bytes of parameters with a known size, in the order of the slots.
    pub sizes: Vec<(u32, f64)>,
    /// Files with known names, each name and access once.
    pub files: Vec<AssumedFile>,
}

/// A [`FileEstimate`] with its expressions computed.
#[derive(Debug, Clone, PartialEq)]
pub struct AssumedFile {
    /// Name.
    pub name: Arc<str>,
    /// Whether the activity reads or writes it.
    pub access: FileAccess,
    /// Bytes, if they are known.
    pub bytes: Option<f64>,
}

impl Estimate {
    /// Completes this estimate of an activity with that of its type: what both say, this one decides.
    pub fn or(&self, of_type: Option<&Estimate>) -> Estimate {
        let Some(of_type) = of_type else { return self.clone() };
        let missing = |size: &&SizeEstimate| self.sizes.iter().all(|own| own.slot != size.slot);
        Estimate {
            seconds: self.seconds.clone().or_else(|| of_type.seconds.clone()),
            gpu_seconds: self.gpu_seconds.clone().or_else(|| of_type.gpu_seconds.clone()),
            sizes: self.sizes.iter().chain(of_type.sizes.iter().filter(missing)).cloned().collect(),
            // The first of two files with the same name and access counts, and names may be computed.
            files: self.files.iter().chain(&of_type.files).cloned().collect(),
        }
    }

    /// Computes the estimate. `value` gives the value of an input, or `None` while it is not known; what depends on it
    /// is then missing in the answer. The error names the line of an expression that fails or gives no amount.
    pub fn evaluate(
        &self,
        sandbox: &mut Sandbox,
        mut value: impl FnMut(EstimateInput) -> Option<Value>,
    ) -> Result<Assumptions, Error> {
        let mut run = EstimateRun { sandbox, value: &mut value };
        let mut assumptions = Assumptions {
            seconds: run.amount(self.seconds.as_ref())?,
            gpu_seconds: run.amount(self.gpu_seconds.as_ref())?,
            ..Assumptions::default()
        };
        for size in &self.sizes {
            assumptions.sizes.extend(run.amount(Some(&size.bytes))?.map(|bytes| (size.slot, bytes)));
        }
        assumptions.sizes.sort_by_key(|(slot, _)| *slot);
        let mut seen = std::collections::HashSet::new();
        for file in &self.files {
            let Some(name) = run.name(&file.name)? else { continue };
            if seen.insert((name.clone(), file.access)) {
                let bytes = run.amount(file.bytes.as_ref())?;
                assumptions.files.push(AssumedFile { name, access: file.access, bytes });
            }
        }
        Ok(assumptions)
    }
}

/// Runs the expressions of one estimate.
struct EstimateRun<'a> {
    sandbox: &'a mut Sandbox,
    value: &'a mut dyn FnMut(EstimateInput) -> Option<Value>,
}

impl EstimateRun<'_> {
    fn amount(&mut self, amount: Option<&Amount>) -> Result<Option<f64>, Error> {
        let code = match amount {
            None => return Ok(None),
            Some(Amount::Literal(number)) => return Ok(Some(*number)),
            Some(Amount::Computed(code)) => code,
        };
        match self.compute(code)? {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Int(number)) if number >= 0 => Ok(Some(number as f64)),
            Some(Value::Float(number)) if number >= 0.0 && number.is_finite() => Ok(Some(number)),
            Some(other) => Err(wrong(code, format!("an estimate is a number from 0, not {}", other.describe()))),
        }
    }

    fn name(&mut self, name: &FileName) -> Result<Option<Arc<str>>, Error> {
        let code = match name {
            FileName::Plain(name) => return Ok(Some(name.clone())),
            FileName::Computed(code) => code,
        };
        match self.compute(code)? {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Str(name)) => Ok(Some(name)),
            Some(other) => Err(wrong(code, format!("the name of a file is a text, not {}", other.describe()))),
        }
    }

    fn compute(&mut self, code: &EstimateCode) -> Result<Option<Value>, Error> {
        let values: Option<Vec<Value>> = code.inputs.iter().map(|input| (self.value)(*input)).collect();
        let Some(values) = values else { return Ok(None) };
        let (results, _) = self.sandbox.run(&code.code, values.iter().map(Argument::Value), &mut Objects::default())?;
        Ok(results.into_iter().next())
    }
}

fn wrong(code: &EstimateCode, message: String) -> Error {
    Error { kind: ErrorKind::Code, message, line: code.code.line() }
}
