//! Sweeper's workflows: commands with dependencies, files and grids of parameters.
//!
//! | module | content |
//! |---|---|
//! | `yaml` | a small part of YAML as a tree with lines, bounded |
//! | `sweep_document` | tasks of a document, grids expanded |
//! | `sweep_process` | the tasks as a process that runs their commands |

mod sweep_document;
mod sweep_process;
mod yaml;

pub(crate) use sweep_process::import;
