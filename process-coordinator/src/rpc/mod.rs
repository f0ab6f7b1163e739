//! What users, monitors and other nodes ask of a coordinator: a file per call.
//!
//! | file | is about |
//! |---|---|
//! | `service` | the gRPC service, which forwards to the other files |
//! | `submit`, `steer`, `forget` | starting, steering and removing processes |
//! | `list`, `show`, `watch`, `results`, `outputs`, `logs`, `explain` | reading processes |
//! | `plan_rerun` | what a rerun would take over and what it would run |
//! | `definition` | what a process was submitted with |
//! | `attempt_records` | attempts that workers know |
//! | `backup` | the repository of this node |
//! | `types` | registered process and activity types |
//! | `delegate` | subtrees of other coordinators |
//! | `ended_element` | elements as this coordinator itself knows them |
//! | `list_filter` | which processes a list shows |
//! | `find`, `resolve` | the process that a path is in; the path that the beginning of an id means |
//! | `forward` | requests about processes that other coordinators run |
//! | `run_to_end` | calls that change something run to their end |
//! | `errors` | errors as gRPC statuses |

mod attempt_records;
mod backup;
mod definition;
mod delegate;
mod ended_element;
mod errors;
mod explain;
mod find;
mod forget;
mod forward;
mod list;
mod list_filter;
mod logs;
mod outputs;
mod plan_rerun;
mod resolve;
mod results;
mod run_to_end;
pub(crate) mod service;
mod show;
mod steer;
mod submit;
mod types;
mod watch;
