//! Sweeper's workflows: commands with dependencies, files and grids of parameters.
//!
//! | module | content |
//! |---|---|
//! | `yaml` | a small part of YAML as a tree with lines, bounded |
//! | `document` | tasks of a document, grids expanded |
//! | `process` | the tasks as a process that runs their commands |

mod document;
mod process;
mod yaml;

pub(crate) use process::import;
