//! Processes: a pure driver decides, a task acts, the repository remembers.
//!
//! | file | is about |
//! |---|---|
//! | `driver` | decides: inputs in, records and effects out |
//! | `driver_input`, `effect` | what goes into the driver and comes out of it |
//! | `process_notes`, `usage` | facts that the engine does not know |
//! | `journal`, `ended_summary` | what the repository has of a process |
//! | `process_history`, `ended_view` | what became of the elements of a process |
//! | `runner` | the task of a process |
//! | `stepping`, `memory_budget` | what a process may take of its coordinator: time and memory |
//! | `handle`, `process_registry` | how other tasks reach the task of a process |
//! | `start_process`, `takeover`, `end_process`, `retention` | how a process starts, changes hands, ends and is removed |
//! | `reopen_process` | how an ended process that did not complete goes on |
//! | `former_process`, `rerun_plan`, `unreached_places` | what a rerun takes over of a former process, what it will run, and what may follow |
//! | `owner` | where other coordinators of the same repository are |
//! | `held_processes`, `recovery_marks` | processes that are not run, and those that may have brought down their owners |
//! | `final_status` | status and results of a process that has ended |
//! | `element_states` | the state of each live element, and the counts of the activities in it |
//! | `process_status`, `process_view`, `outputs`, `shortened_views` | what users see of a process |

pub mod driver;
pub mod driver_input;
pub mod effect;
mod element_states;
pub(crate) mod end_process;
pub mod ended_summary;
pub(crate) mod ended_view;
pub mod final_status;
mod former_process;
pub(crate) mod handle;
pub(crate) mod held_processes;
pub mod journal;
pub mod memory_budget;
pub(crate) mod outputs;
pub(crate) mod owner;
pub(crate) mod printing;
pub mod process_history;
pub mod process_notes;
pub(crate) mod process_registry;
pub(crate) mod process_status;
pub(crate) mod process_view;
pub(crate) mod recovery_marks;
pub(crate) mod reopen_process;
pub mod rerun_plan;
mod retention;
pub(crate) mod runner;
pub(crate) mod shortened_views;
pub(crate) mod start_process;
mod stepping;
mod takeover;
mod unreached_places;
pub mod usage;
