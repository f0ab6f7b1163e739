//! External programs: commands and scripts, each in a working directory of its own, limited, watched, and ended together with
//! all processes that it started.
//!
//! | module | is about |
//! |---|---|
//! | `options` | settings |
//! | `program_host` | what all programs of a worker share |
//! | `run_program` | one attempt, from its working directory to its results |
//! | `invocation`, `interpreters` | the command line and the variables of an attempt |
//! | `prelude`, `shell_prelude`, `program_values`, `assigned_outs` | parameters and results as variables of the code |
//! | `call_channel` | calls of shared objects by a program |
//! | `command_line` | the operating system command, with its limits |
//! | `supervise` | a running program until nothing of it runs any more |
//! | `child` | one process that this worker started |
//! | `tracked_program`, `program_table` | running programs, their usage, their orphans |
//! | `procfs`, `signals`, `disk` | the operating system |
//! | `machine_memory` | how much this program may use |
//! | `watchdog` | the process that ends programs when the node is killed |
//! | `resource_limits` | when a program uses too much; pure |
//! | `cgroups` | limits that the kernel enforces |
//! | `container` | Docker and Podman |
//! | `gpus` | graphics processors |
//! | `attempt_directories` | directories of attempts |
//! | `captured_output`, `program_results` | what a program writes, and its results |

mod assigned_outs;
mod attempt_directories;
mod call_channel;
mod call_line;
mod captured_output;
pub mod cgroups;
mod child;
mod code_prelude;
mod command_line;
mod container;
mod disk;
mod gpus;
mod interpreters;
mod invocation;
pub mod machine_memory;
pub mod options;
mod procfs;
pub(crate) mod program_host;
mod program_results;
mod program_table;
mod program_values;
mod resource_limits;
pub(crate) mod run_program;
mod shell_prelude;
mod signals;
mod supervise;
mod tracked_program;
pub mod watchdog;
