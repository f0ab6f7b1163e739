//! External programs: commands and scripts, each in a working directory of its own, limited, watched, and ended together with
//! all processes that it started.
//!
//! | module | is about |
//! |---|---|
//! | `options` | settings |
//! | `program_host` | what all programs of a worker share |
//! | `run` | one attempt, from its working directory to its results |
//! | `invocation`, `interpreters` | the command line and the variables of an attempt |
//! | `command` | the operating system command, with its limits |
//! | `supervise` | a running program until nothing of it runs any more |
//! | `child` | one process that this worker started |
//! | `tracked`, `program_table` | running programs, their usage, their orphans |
//! | `procfs`, `signals`, `disk` | the operating system |
//! | `watchdog` | the process that ends programs when the node is killed |
//! | `limits` | when a program uses too much; pure |
//! | `cgroups` | limits that the kernel enforces |
//! | `container` | Docker and Podman |
//! | `gpus` | graphics processors |
//! | `workdir` | directories of attempts |
//! | `output`, `results` | what a program writes, and its results |

pub mod cgroups;
mod child;
mod command;
mod container;
mod disk;
mod gpus;
mod interpreters;
mod invocation;
mod limits;
pub mod options;
mod output;
mod procfs;
pub(crate) mod program_host;
mod program_table;
mod results;
pub(crate) mod run;
mod signals;
mod supervise;
mod tracked;
pub mod watchdog;
mod workdir;
