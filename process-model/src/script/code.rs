//! Scripts as pure functions: the author's text with its inputs as arguments and its outputs as results.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::compiler::compile_check;

/// A name, or a field of a name, that a script takes as an argument or returns as a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Name.
    pub name: Arc<str>,
    /// Field, for `name.field`; fields with dots between them, for `name.field.inner`.
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

/// The fields of a table, in the order of their first use.
#[derive(Default)]
struct FieldTable<'a>(Vec<(&'a str, FieldValue<'a>)>);

enum FieldValue<'a> {
    /// The local that holds the value.
    Local(String),
    Table(FieldTable<'a>),
}

impl<'a> FieldTable<'a> {
    /// Adds a value under fields with dots between them. No field is both a value and a table: an element and a parameter
    /// of the same controller never have the same name.
    fn add(&mut self, path: &'a str, local: String) {
        let Some((field, rest)) = path.split_once('.') else {
            return self.0.push((path, FieldValue::Local(local)));
        };
        let known = self.0.iter().position(|(name, _)| *name == field).unwrap_or_else(|| {
            self.0.push((field, FieldValue::Table(FieldTable::default())));
            self.0.len() - 1
        });
        if let FieldValue::Table(table) = &mut self.0[known].1 {
            table.add(rest, local);
        }
    }

    fn write(&self, text: &mut String) {
        text.push('{');
        for (index, (name, value)) in self.0.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(name);
            text.push('=');
            match value {
                FieldValue::Local(local) => text.push_str(local),
                FieldValue::Table(table) => table.write(text),
            }
        }
        text.push('}');
    }
}

/// Declares the inputs as locals. Names with fields become tables of their fields.
fn head(inputs: &[Port]) -> String {
    if inputs.is_empty() {
        return String::new();
    }
    let mut locals = Vec::new();
    let mut tables = FieldTable::default();
    for (index, port) in inputs.iter().enumerate() {
        match &port.field {
            None => locals.push(port.name.to_string()),
            Some(field) => {
                locals.push(format!("_xv{index}"));
                let known = tables.0.iter().position(|(name, _)| *name == &*port.name).unwrap_or_else(|| {
                    tables.0.push((&port.name, FieldValue::Table(FieldTable::default())));
                    tables.0.len() - 1
                });
                if let FieldValue::Table(table) = &mut tables.0[known].1 {
                    table.add(field, format!("_xv{index}"));
                }
            }
        }
    }
    let mut head = format!("local {}=...;", locals.join(","));
    for (name, value) in &tables.0 {
        let FieldValue::Table(table) = value else { continue };
        head.push_str(&format!("local {name}="));
        table.write(&mut head);
        head.push(';');
    }
    head
}
