//! Bounds on the names and values of one script, which come from Luau's registers.

use super::problem::CodeTooLarge;
use crate::script::{Code, MAX_NAMES};

/// Upper bound on the locals of a script. A Luau function has at most 200; the script needs some for itself.
const MAX_LOCALS: usize = 190;
/// Upper bound on the registers for locals and results. A Luau function has at most 255.
const MAX_REGISTERS: usize = 230;

/// Checks the number of inputs, locals and results of a script. An element takes one local besides those for its
/// parameters.
pub(super) fn check_count(ports: usize, locals: usize, results: usize) -> Result<(), CodeTooLarge> {
    match ports > MAX_NAMES || locals > MAX_LOCALS || locals + results > MAX_REGISTERS {
        true => Err(CodeTooLarge {
            code: "too-many-names",
            message: format!(
                "the code reads {ports} names from outside and returns {results} values, which is more than one script can hold"
            ),
            help: "keep values that belong together in one list or map",
        }),
        false => Ok(()),
    }
}

/// Checks that correct code, together with the generated code around it, stays within the limits of Luau.
pub(super) fn check_code(code: &Code) -> Result<(), CodeTooLarge> {
    let verdict = if code.is_large() { code.verify() } else { Ok(()) };
    verdict.map_err(|message| CodeTooLarge { code: "lua-syntax", message, help: "split the code into smaller pieces" })
}
