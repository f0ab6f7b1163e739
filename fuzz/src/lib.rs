//! What fuzzers check. Each target takes any bytes, and panics if something is wrong.
//!
//! | file | is about |
//! |---|---|
//! | `load` | documents: the loader makes either a consistent program of any bytes, or findings that lie in the text |
//! | `script` | Lua: what the check accepts compiles inside its wrapper, runs, and does not break out of the wrapper |
//! | `messages` | every message that a node accepts, and the conversions of its content |
//! | `pool` | the pool of a coordinator with any sequence of inputs |
//! | `table` | the attempt table of a worker with any sequence of orders |
//! | `parents` | hosted subtrees with any sequence of orders |
//! | `process` | a process with any answers, calls and steering; its journal must give its state |
//! | `records` | records that the repository gives back, damaged in any way |
//! | `input` | reads choices out of bytes |
//! | `mutate` | runs a target with random inputs, for machines without a fuzzer |

mod input;
pub mod load;
pub mod messages;
pub mod mutate;
pub mod parents;
pub mod pool;
pub mod process;
pub mod records;
pub mod script;
pub mod table;

/// A target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the target.
    pub name: &'static str,
    /// Panics if something is wrong.
    pub check: fn(&[u8]),
    /// A valid input for targets that read text; empty for the others.
    pub sample: &'static str,
}

const LUA: &str =
    "local sum = 0 for i, item in ipairs(list) do sum = sum + item * 2 end out.total, text = sum, `{sum} of {n}`";

const fn target(name: &'static str, check: fn(&[u8]), sample: &'static str) -> Target {
    Target { name, check, sample }
}

/// All targets.
pub const TARGETS: [Target; 8] = [
    target("load", load::check, process::DOCUMENT),
    target("script", script::check, LUA),
    target("messages", messages::check, ""),
    target("pool", pool::check, ""),
    target("table", table::check, ""),
    target("parents", parents::check, ""),
    target("process", process::check, ""),
    target("records", records::check, ""),
];
