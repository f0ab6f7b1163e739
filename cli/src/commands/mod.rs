//! The commands. Each one ends with one report, which `output` prints as text or JSON.
//!
//! | module | commands |
//! |---|---|
//! | `run` | `run`: a process on a grid inside this program |
//! | `submit`, `rerun`, `wait`, `results` | start a process, or start it again; wait for its end, print its results |
//! | `list`, `show`, `logs`, `failed_logs`, `explain` | `list`, `show` and `tree`, `logs`, `logs --failed`, `explain` |
//! | `steer`, `forget` | `cancel`, `pause`, `resume`, `retry`, `set`; `forget` |
//! | `grid`, `types`, `sources` | `nodes`, `groups`, `drain`, `health`; `types`; `sources` |
//! | `node`, `repository` | `node`; `repository migrate`, `check`, `repair`, `backup`, `restore` |
//! | `plan`, `simulate`, `predict` | `plan`; `simulate`; `predict` |
//! | `import`, `draw` | `import dax`, `wfformat`, `sweeper`; `draw` |
//! | `shared` | `shared`: calls of shared objects, within a program |
//! | `validate`, `schema` | `validate`; `schema` and `completions` |
//! | `ending`, `result_stream`, `watch` | parts of several commands: the end of a process, `--stream`, `--watch` |

pub(crate) mod draw;
mod ending;
pub(crate) mod explain;
mod failed_logs;
pub(crate) mod forget;
pub(crate) mod grid;
pub(crate) mod import;
pub(crate) mod list;
pub(crate) mod logs;
pub(crate) mod node;
pub(crate) mod plan;
pub(crate) mod predict;
pub(crate) mod repository;
pub(crate) mod rerun;
mod result_stream;
pub(crate) mod results;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod shared;
pub(crate) mod show;
pub(crate) mod simulate;
pub(crate) mod sources;
pub(crate) mod steer;
pub(crate) mod submit;
pub(crate) mod types;
pub(crate) mod validate;
pub(crate) mod wait;
mod watch;
