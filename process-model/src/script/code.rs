//! Scripts as pure functions: the author's text with its inputs as arguments and its outputs as results.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::compiler::compile_check;

/// A name, or a field of a name, that a script takes as an argument or returns as a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Name.
    pub name: Arc<str>,
    /// Field, for `name.field`.
    pub field: Option<Arc<str>>,
}

/// A Luau chunk that takes its inputs as arguments and returns its outputs.
#[derive(Debug, Clone)]
pub struct Code {
    /// Unique while this program runs; sandboxes cache compiled functions by it.
    pub(crate) id: u64,
    pub(crate) chunk: Arc<str>,
    /// Line of the document at which the author's text begins, to place errors.
    pub(crate) line: u32,
}

impl Code {
    /// Makes a chunk of statements. `inputs` are its arguments; it returns the final values of `outputs`.
    pub fn statements(text: &str, line: u32, inputs: &[Port], outputs: &[Port]) -> Self {
        // The closure keeps a `return` of the author from skipping the `return` added here. The line break ends a
        // comment on the last line.
        let returns: Vec<String> = outputs
            .iter()
            .map(|port| match &port.field {
                Some(field) => format!("{}.{field}", port.name),
                None => port.name.to_string(),
            })
            .collect();
        Self::new(format!("{}(function() {text}\nend)() return {}", head(inputs), returns.join(",")), line)
    }

    /// Makes a chunk of expressions. `inputs` are its arguments; it returns the values of the expressions. Lines in
    /// errors are right for the first expression, which may span lines.
    pub fn expressions<T: AsRef<str>>(texts: &[T], line: u32, inputs: &[Port]) -> Self {
        let values: Vec<String> = texts.iter().map(|text| format!("({}\n)", text.as_ref())).collect();
        Self::new(format!("{}return {}", head(inputs), values.join(",")), line)
    }

    /// Returns the whole chunk. It depends on the text and the ports only.
    pub fn text(&self) -> &str {
        &self.chunk
    }

    /// Returns the line of the document at which the author's text begins.
    pub fn line(&self) -> u32 {
        self.line
    }

    /// True if the chunk is long enough to exceed the limits that [`verify`](Code::verify) checks: each value that code
    /// computes with, and each level of nesting, takes at least a byte or two.
    pub(crate) fn is_large(&self) -> bool {
        self.chunk.len() > 400
    }

    /// Compiles the whole chunk. A text that [`check`](super::script_check) accepts fails here only if the whole chunk nests
    /// deeper or uses more registers than Luau allows.
    pub fn verify(&self) -> Result<(), String> {
        compile_check(&self.chunk).map_err(|(_, message)| message)
    }

    fn new(chunk: String, line: u32) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), chunk: chunk.into(), line }
    }
}

/// Declares the inputs as locals. Names with fields become tables of their fields.
fn head(inputs: &[Port]) -> String {
    if inputs.is_empty() {
        return String::new();
    }
    let mut locals = Vec::new();
    let mut tables: Vec<(&str, Vec<String>)> = Vec::new();
    for (index, port) in inputs.iter().enumerate() {
        match &port.field {
            None => locals.push(port.name.to_string()),
            Some(field) => {
                locals.push(format!("_xv{index}"));
                let entry = format!("{field}=_xv{index}");
                match tables.iter_mut().find(|(name, _)| *name == &*port.name) {
                    Some((_, entries)) => entries.push(entry),
                    None => tables.push((&port.name, vec![entry])),
                }
            }
        }
    }
    let tables: String =
        tables.iter().map(|(name, entries)| format!("local {name}={{{}}};", entries.join(","))).collect();
    format!("local {}=...;{tables}", locals.join(","))
}
