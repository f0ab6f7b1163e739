//! Luau's compiler and the places in its error messages.
//!
//! mlua reports the place of an error only as text, in the formats of Luau: `chunk:12: message` and a traceback. This
//! module is the only one that takes such texts apart.

/// Name of the chunks that authors write. `=` tells Luau to use the rest as it is.
pub(super) const AUTHOR_CHUNK: &str = "=lua";
/// [`AUTHOR_CHUNK`] at the start of a message or of a line of a traceback.
pub(super) const AUTHOR_PREFIX: &str = "lua:";
/// Name of the chunk with the wrappers of the sandbox.
pub(super) const PRELUDE_CHUNK: &str = "=prelude";
const PRELUDE_PREFIX: &str = "prelude:";
/// Luau's whole message for an exhausted memory limit. `pcall` and coroutines hand it on as plain text, without the
/// status that mlua makes a `MemoryError` of, so for an error from there the text is all that is left.
pub(super) const OUT_OF_MEMORY: &str = "not enough memory";
/// mlua appends the traceback to the message of a runtime error, behind this line. It offers no typed access to it.
const TRACEBACK: &str = "\nstack traceback:";

/// Compiles the text. The error is the line, from 1, and the message.
pub(super) fn compile_check(text: &str) -> Result<(), (u32, String)> {
    match mlua::chunk::Compiler::new().compile(text) {
        Ok(_) => Ok(()),
        Err(error) => {
            // The messages of the compiler begin with the line alone: `12: message`.
            let (line, message) = line_and_message(&error);
            let placed = message.split_once(": ").and_then(|(line, text)| Some((line.parse().ok()?, text.to_owned())));
            Err(placed.unwrap_or((line, message)))
        }
    }
}

/// Returns the line in the chunk, from 1, and the message without place and traceback.
pub(super) fn line_and_message(error: &mlua::Error) -> (u32, String) {
    let (text, trace) = match error {
        mlua::Error::CallbackError { traceback, cause } => {
            let mut cause: &mlua::Error = cause;
            while let mlua::Error::CallbackError { cause: inner, .. } = cause {
                cause = inner;
            }
            (line_and_message(cause), Some(traceback.as_str()))
        }
        mlua::Error::RuntimeError(text) | mlua::Error::SyntaxError { message: text, .. } => {
            let (message, trace) = text.split_once(TRACEBACK).unwrap_or((text, ""));
            (place(message), Some(trace))
        }
        other => (place(&other.to_string()), None),
    };
    match text {
        (0, message) => (trace.and_then(line_in).unwrap_or(1), message),
        placed => placed,
    }
}

/// Takes `lua:12: ` or `[string "…"]:12: ` off the front of a message. Returns line 0 if the message has no place.
fn place(message: &str) -> (u32, String) {
    // The author caused an error in a wrapper; its place is the call of the wrapper, which the traceback has.
    if let Some((_, text)) = message.strip_prefix(PRELUDE_PREFIX).and_then(|rest| rest.split_once(": ")) {
        return (0, text.to_owned());
    }
    let rest = message
        .strip_prefix(AUTHOR_PREFIX)
        .or_else(|| message.strip_prefix('[').and_then(|rest| rest.split_once("]:").map(|(_, rest)| rest)))
        .or_else(|| message.strip_prefix(':'));
    match rest.and_then(|rest| rest.split_once(": ")).and_then(|(line, text)| Some((line.parse().ok()?, text))) {
        Some((line, text)) => (line, text.to_owned()),
        None => (0, message.to_owned()),
    }
}

/// Returns the innermost line of the author's code in a traceback.
fn line_in(trace: &str) -> Option<u32> {
    trace.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix(AUTHOR_PREFIX)?;
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
    })
}

/// True if the script exceeded its memory limit.
pub(super) fn is_out_of_memory(error: &mlua::Error) -> bool {
    let mut cause = error;
    while let mlua::Error::CallbackError { cause: inner, .. } = cause {
        cause = inner;
    }
    match cause {
        mlua::Error::MemoryError(_) => true,
        mlua::Error::RuntimeError(_) => line_and_message(error).1 == OUT_OF_MEMORY,
        _ => false,
    }
}
