//! Processes: a pure driver decides, a task acts, the repository remembers.
//!
//! | file | is about |
//! |---|---|
//! | `driver` | decides: inputs in, records and effects out |
//! | `input`, `effect` | what goes into the driver and comes out of it |
//! | `notes`, `usage` | facts that the engine does not know |
//! | `journal`, `summary` | what the repository has of a process |
//! | `history`, `ended_view` | what became of the elements of a process |
//! | `runner` | the task of a process |
//! | `stepping`, `memory` | what a process may take of its coordinator: time and memory |
//! | `handle`, `registry` | how other tasks reach the task of a process |
//! | `start`, `takeover`, `ending`, `retention` | how a process starts, changes hands, ends and is removed |
//! | `owner` | where other coordinators of the same repository are |
//! | `held`, `recovery_marks` | processes that are not run, and those that may have brought down their owners |
//! | `final_status` | status and results of a process that has ended |
//! | `status`, `view`, `outputs`, `excerpt` | what users see of a process |

pub mod driver;
pub mod effect;
pub(crate) mod ended_view;
pub(crate) mod ending;
pub(crate) mod excerpt;
pub mod final_status;
pub(crate) mod handle;
mod held;
pub mod history;
pub mod input;
pub mod journal;
pub(crate) mod memory;
pub mod notes;
pub(crate) mod outputs;
pub(crate) mod owner;
pub(crate) mod printing;
pub(crate) mod recovery_marks;
pub(crate) mod registry;
mod retention;
pub(crate) mod runner;
pub(crate) mod start;
pub(crate) mod status;
mod stepping;
pub mod summary;
mod takeover;
pub mod usage;
pub(crate) mod view;
