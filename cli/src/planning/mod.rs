//! From files and options to a schedule: what `plan` and `simulate` share.
//!
//! | module | has |
//! |---|---|
//! | `args` | the options of both commands |
//! | `machine_file` | machines, network, places of files |
//! | `documents` | the formats of workflows, and which one a file has |
//! | `combine` | several workflows as one |
//! | `planning_problem` | files and machines as one scheduling problem |
//! | `histories` | past runs of activity types |
//! | `goal` | objective, deadline and budget |
//! | `picture` | a schedule as a chart |
//! | `search` | planners at work: time limits, Ctrl-C, progress |

pub(crate) mod args;
mod combine;
mod documents;
pub(crate) mod goal;
pub(crate) mod histories;
pub(crate) mod machine_file;
pub(crate) mod picture;
pub(crate) mod planning_problem;
pub(crate) mod search;
