//! Checks the text of a script before it runs and finds the names that it takes from outside.
//!
//! Luau's own compiler decides whether the text is valid. It offers no syntax tree, so `full_moon` parses the text a
//! second time to find the free names.

use std::ops::Range;

use super::compiler::compile_check;
use super::free_names::{NameUse, free_names};

/// The syntactic form of a piece of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Statements: `PRE_CODE`, `POST_CODE`, `CODE`.
    Statements,
    /// One expression: conditions, bindings, bounds.
    Expression,
}

/// An error in the text of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyntaxError {
    /// Message for the author.
    pub message: String,
    /// Bytes of the script that the message is about.
    pub at: Range<usize>,
}

/// Upper bound on the names and fields that a script takes from outside, because a Luau function has at most 200
/// locals.
pub const MAX_NAMES: usize = 150;

/// Upper bound on the length of one piece of code, in bytes, because the syntax tree takes several hundred times as
/// much memory.
pub const MAX_CODE: usize = 256 * 1024;

/// Makes a chunk out of an expression.
const RETURN: &str = "return ";

/// Parses the text and returns every use of a name that it takes from outside, in order.
pub fn check(text: &str, form: Form) -> Result<Vec<NameUse>, SyntaxError> {
    if text.len() > MAX_CODE {
        let message = format!("the code has {} bytes; at most {MAX_CODE} are accepted", text.len());
        return Err(SyntaxError { message, at: 0..text.len() });
    }
    // As in XML. Luau takes a NUL for the end of the chunk, including the code that `Code` appends. Luau also takes a
    // form feed for a space, which full_moon does not. Luau ends a comment at a carriage return, full_moon at a line feed only.
    let lone_return = |at: usize| text.as_bytes().get(at + 1) != Some(&b'\n');
    let control = |(at, byte): (usize, u8)| match byte {
        b'\t' | b'\n' => false,
        b'\r' => lone_return(at),
        _ => byte < b' ',
    };
    if let Some(at) = text.bytes().enumerate().position(control) {
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
        // Luau reports a missing token at the end of the text. The last written character is a better place.
        let written = complete.trim_end();
        let last = written.char_indices().next_back().map_or(0, |(at, _)| at);
        let at = line_range(&complete, line);
        let at = if at.start >= written.len() { last..written.len() } else { at };
        SyntaxError { message, at: at.start.saturating_sub(prefix)..at.end.saturating_sub(prefix) }
    };
    // Luau bounds the nesting, so it goes first: full_moon then never sees a text that nests too deep.
    compile_check(&complete).map_err(refused)?;
    // A chunk may use `...`, but `Code` puts the text into a function without varargs.
    compile_check(&format!("return function() {complete}\nend")).map_err(|error| match text.find("...") {
        Some(at) if compile_check(&format!("return function(...) {complete}\nend")).is_ok() => {
            let message = "`...` can only be used inside a function that declares it, as in `function(...)`".into();
            SyntaxError { message, at: at..at + 3 }
        }
        _ => refused(error),
    })?;
    // full_moon needs more stack per level of nesting than Luau does. Short texts cannot nest deeply.
    const MAX_BYTES_ON_THIS_STACK: usize = 256;
    if complete.len() <= MAX_BYTES_ON_THIS_STACK {
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
    Ok(free_names(block, prefix))
}

/// Returns the bytes of a line, counted from 1, without the white space around its content.
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
