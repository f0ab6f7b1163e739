//! Lua in definitions: checked before anything runs, compiled once, run in a sandbox.
//!
//! A script is a pure function. What it reads from the scopes around it comes in as arguments, what it assigns goes
//! out as results; shared objects are the one thing that it reaches while it runs. See [`Code`] for how the author's
//! text becomes such a function and [`Sandbox`] for how it is run.

mod convert;
mod int64;
mod names;
mod prelude;
mod sandbox;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use names::NameUse;
pub use prelude::BUILTINS;
pub(crate) use prelude::TEXT_OF;
pub use sandbox::{Argument, Effects, Error, ErrorKind, Limits, RemoteObjects, Sandbox};

/// What a piece of code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Statements: `PRE_CODE`, `POST_CODE`, `CODE`.
    Statements,
    /// One expression: conditions, bindings, bounds.
    Expression,
}

/// What is wrong with the text of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// What is wrong.
    pub message: String,
    /// Bytes of the script.
    pub at: Range<usize>,
}

/// A script may take this many names and fields from outside: Luau functions have at most 200 locals.
pub const MAX_NAMES: usize = 150;

/// Longest piece of code, in bytes. What is known of it while it is checked takes several hundred times as much.
pub const MAX_CODE: usize = 256 * 1024;

const RETURN: &str = "return ";

/// Parses the text and finds the names that it takes from outside, each use of them in order.
pub fn check(text: &str, form: Form) -> Result<Vec<NameUse>, SyntaxError> {
    if text.len() > MAX_CODE {
        let message = format!("the code has {} bytes; at most {MAX_CODE} are accepted", text.len());
        return Err(SyntaxError { message, at: 0..text.len() });
    }
    // As in XML. Luau would take a NUL for the end of the text and of all that we write behind it, and a form feed for
    // a space, on which the second parser fails.
    let control = |byte: u8| byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
    if let Some(at) = text.bytes().position(control) {
        let message = format!("the character U+{:04X} is not allowed in code", text.as_bytes()[at]);
        return Err(SyntaxError { message, at: at..at + 1 });
    }
    let (prefix, complete) = match form {
        Form::Statements => (0, text.to_owned()),
        Form::Expression if text.trim().is_empty() => {
            return Err(SyntaxError { message: "an expression is missing".into(), at: 0..text.len() });
        }
        Form::Expression => (RETURN.len(), format!("{RETURN}{text}")),
    };
    let refused = |(line, message)| {
        // What is missing at the end is missing behind the last thing that was written.
        let written = complete.trim_end();
        let last = written.char_indices().next_back().map_or(0, |(at, _)| at);
        let at = line_range(&complete, line);
        let at = if at.start >= written.len() { last..written.len() } else { at };
        SyntaxError { message, at: at.start.saturating_sub(prefix)..at.end.saturating_sub(prefix) }
    };
    // Luau itself bounds nesting, so its verdict comes first: what it refuses as too deep is not parsed again.
    compile_check(&complete).map_err(refused)?;
    // Alone, code may do what it may not do in a function, where it will stand.
    compile_check(&format!("return function() {complete}\nend")).map_err(|error| match text.find("...") {
        Some(at) if error.1.contains("'...'") => {
            SyntaxError { message: "... can only be used in a function of its own".into(), at: at..at + 3 }
        }
        _ => refused(error),
    })?;
    // The second parser recurses more deeply per level than Luau's.
    const SHALLOW: usize = 256;
    if complete.len() <= SHALLOW {
        parse(&complete, prefix, form)
    } else {
        stacker::maybe_grow(32 << 20, 64 << 20, || parse(&complete, prefix, form))
    }
}

fn parse(complete: &str, prefix: usize, form: Form) -> Result<Vec<NameUse>, SyntaxError> {
    let parsed = full_moon::parse_fallible(complete, full_moon::LuaVersion::luau());
    if let Some(error) = parsed.errors().first() {
        let (start, end) = error.range();
        let at = start.bytes().saturating_sub(prefix)..end.bytes().saturating_sub(prefix);
        return Err(SyntaxError { message: error.error_message().into_owned(), at });
    }
    let block = parsed.ast().nodes();
    if form == Form::Expression {
        let one = match block.last_stmt() {
            Some(full_moon::ast::LastStmt::Return(last)) => last.returns().len() == 1,
            _ => false,
        };
        let closed = block.last_stmt_with_semicolon().is_some_and(|(_, semicolon)| semicolon.is_some());
        if !one || closed || block.stmts().next().is_some() {
            return Err(SyntaxError { message: "expected one expression".into(), at: 0..complete.len() - prefix });
        }
    }
    Ok(names::free_names(block, prefix))
}

/// Luau's own verdict: the line, from 1, and the message.
fn compile_check(text: &str) -> Result<(), (u32, String)> {
    match mlua::chunk::Compiler::new().compile(text) {
        Ok(_) => Ok(()),
        Err(error) => {
            // The compiler's messages begin with the line alone.
            let (line, message) = sandbox::line_and_message(&error);
            let placed = message.split_once(": ").and_then(|(line, text)| Some((line.parse().ok()?, text.to_owned())));
            Err(placed.unwrap_or((line, message)))
        }
    }
}

fn line_range(text: &str, line: u32) -> Range<usize> {
    let mut start = 0;
    for (number, content) in text.split_inclusive('\n').enumerate() {
        if number as u32 + 1 == line {
            let trimmed = content.trim_end();
            let indent = trimmed.len() - trimmed.trim_start().len();
            return start + indent..start + trimmed.len();
        }
        start += content.len();
    }
    text.len()..text.len()
}

/// A name, or a field of a name, that goes in or out of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The name.
    pub name: Arc<str>,
    /// The field, for `name.field`.
    pub field: Option<Arc<str>>,
}

/// A script made ready: a Luau chunk that takes its inputs as arguments and returns its outputs.
#[derive(Debug, Clone)]
pub struct Code {
    /// Unique in this program run; sandboxes keep compiled functions by it.
    pub(crate) id: u64,
    pub(crate) chunk: Arc<str>,
    /// Where the author's text begins, to place errors.
    pub(crate) line: u32,
}

impl Code {
    /// Statements with the names that go in and those whose final values come out.
    pub fn statements(text: &str, line: u32, inputs: &[Port], outputs: &[Port]) -> Self {
        // A closure, so that a `return` of the author's does not skip ours. The line break ends a last comment.
        let returns: Vec<String> = outputs
            .iter()
            .map(|port| match &port.field {
                Some(field) => format!("{}.{field}", port.name),
                None => port.name.to_string(),
            })
            .collect();
        Self::new(format!("{}(function() {text}\nend)() return {}", head(inputs), returns.join(",")), line)
    }

    /// Expressions with the names that go in; their values come out. The first may span lines.
    pub fn expressions<T: AsRef<str>>(texts: &[T], line: u32, inputs: &[Port]) -> Self {
        let values: Vec<String> = texts.iter().map(|text| format!("({}\n)", text.as_ref())).collect();
        Self::new(format!("{}return {}", head(inputs), values.join(",")), line)
    }

    /// The whole chunk. What was not changed by its author gives the same one.
    pub fn text(&self) -> &str {
        &self.chunk
    }

    /// Only then can it run into the limits that [`verify`](Code::verify) is about: each value that code computes with,
    /// and each level of nesting, takes at least a byte or two.
    pub(crate) fn is_large(&self) -> bool {
        self.chunk.len() > 400
    }

    /// Luau's verdict on the whole chunk. Texts that [`check`] accepts fail here only if, with all that is around them,
    /// they nest deeper or compute with more values than Luau can hold.
    pub fn verify(&self) -> Result<(), String> {
        compile_check(&self.chunk).map_err(|(_, message)| message)
    }

    fn new(chunk: String, line: u32) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), chunk: chunk.into(), line }
    }
}

/// Binds the arguments to the names, and tables of fields to the names that have fields.
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
