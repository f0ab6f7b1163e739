//! Each report as text for people: one function per report.
//!
//! | module | renders |
//! |---|---|
//! | `process` | processes and their results |
//! | `definition` | what a process was submitted with |
//! | `element` | elements, as lines of facts or as a tree |
//! | `log_lines` | output of failed activities |
//! | `reuse` | decisions about reuse |
//! | `rerun` | plans of reruns |
//! | `grid` | nodes, groups, types, sources, and commands that change something |
//! | `repository` | the repository of a node |
//! | `shared_value` | what a call of a shared object returned |
//! | `plan`, `simulation`, `prediction` | plans, simulated runs of them, predictions |
//! | `import` | imported workflows and pictures |
//! | `validation` | problems with the source line and a marker |
//! | `text_table` | tables |
//! | `units` | times and sizes |

mod definition;
mod element;
mod grid;
mod import;
mod log_lines;
mod plan;
mod prediction;
mod process;
mod repository;
mod rerun;
mod reuse;
mod shared_value;
mod simulation;
mod text_table;
pub(crate) mod units;
mod validation;
