//! What fuzzers check. Each target takes any bytes, and panics if something is wrong.
//!
//! | file | is about |
//! |---|---|
//! | `load` | documents: the loader makes either a consistent program of any bytes, or findings that lie in the text |
//! | `script` | Lua: what the check accepts compiles inside its wrapper, runs, and does not break out of the wrapper |
//! | `texts` | texts of users and administrators: settings, parameters, addresses, paths, places of pages |
//! | `formats` | files that the planners read: workflows, platforms, histories |
//! | `messages` | every message that a node accepts, and the conversions of its content |
//! | `rpc` | every call of every service of a real node |
//! | `pool` | the pool of a coordinator with any sequence of inputs |
//! | `table` | the attempt table of a worker with any sequence of orders |
//! | `parents` | hosted subtrees with any sequence of orders |
//! | `group` | the state of a group manager with any sequence of messages, and the state that it stores |
//! | `process` | a process with any answers, calls and steering; its journal must give its state |
//! | `records` | records of processes that the repository gives back, damaged in any way |
//! | `store` | the files of the embedded repository: frames, records, witness, backups |
//! | `backup` | backups that strangers made |
//! | `worker` | what a worker reads back from its disk: the answer log, the index of logs |
//! | `files` | the file store with any transfers, pins and damage |
//! | `byte_choices` | reads choices out of bytes |
//! | `runtime` | a runtime and scratch directories |
//! | `mutate` | runs a target with random inputs, for machines without a fuzzer |

pub mod backup;
mod byte_choices;
pub mod files;
pub mod formats;
pub mod group;
pub mod load;
pub mod messages;
pub mod mutate;
pub mod parents;
pub mod pool;
pub mod process;
pub mod records;
pub mod rpc;
mod runtime;
pub mod script;
pub mod store;
pub mod table;
pub mod texts;
pub mod worker;

/// A target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name of the target.
    pub name: &'static str,
    /// Panics if something is wrong.
    pub check: fn(&[u8]),
    /// Valid inputs, from which fuzzers start. Targets that read choices out of bytes need none.
    pub samples: fn() -> Vec<Vec<u8>>,
    /// Number of random inputs that a test gives to the target: fewer if it works on files or with a node.
    pub test_inputs: u64,
}

/// The most memory that a target may take for one input of some kilobytes.
pub const MAX_MEMORY_BYTES: usize = 64 << 20;

const fn target(name: &'static str, check: fn(&[u8]), samples: fn() -> Vec<Vec<u8>>) -> Target {
    Target { name, check, samples, test_inputs: 1500 }
}

const fn slow_target(name: &'static str, check: fn(&[u8]), samples: fn() -> Vec<Vec<u8>>) -> Target {
    Target { test_inputs: 50, ..target(name, check, samples) }
}

/// All targets.
pub const TARGETS: [Target; 16] = [
    slow_target("backup", backup::check, Vec::new),
    slow_target("files", files::check, Vec::new),
    target("formats", formats::check, formats::samples),
    target("group", group::check, Vec::new),
    target("load", load::check, || vec![process::DOCUMENT.into()]),
    target("messages", messages::check, Vec::new),
    target("parents", parents::check, Vec::new),
    target("pool", pool::check, Vec::new),
    target("process", process::check, Vec::new),
    target("records", records::check, Vec::new),
    slow_target("rpc", rpc::check, rpc::samples),
    target("script", script::check, || vec![script::SAMPLE.into()]),
    target("store", store::check, store::samples),
    target("table", table::check, Vec::new),
    target("texts", texts::check, texts::samples),
    target("worker", worker::check, worker::samples),
];
