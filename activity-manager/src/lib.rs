//! The activity manager: runs activities for coordinators, as many at once as the node has slots.
//!
//! | module | is about |
//! |---|---|
//! | `options` | settings |
//! | `service` | the gRPC service: the stream of orders and reports, and logs |
//! | `attempt_manager` | the attempt manager, which performs the actions of the attempt table |
//! | `attempts` | the attempt table, admission and jobs |
//! | `definitions` | the definitions that coordinators sent |
//! | `outbox` | reports that wait for a coordinator's stream |
//! | [`report_batch`] | the messages that carry reports |
//! | `answers` | answers on disk until coordinators acknowledge them |
//! | `executor` | Lua code and external programs |
//! | `staging` | files that attempts get before they start and produce until they end |
//! | `logs` | the output of attempts |
//! | `attempt_failure`, `expressions` | shared by executors and staging |
//! | [`fuzzing`] | checks of what a worker reads back from its disk, for fuzzers |

mod answers;
mod attempt_failure;
mod attempt_manager;
pub mod attempts;
mod definitions;
mod executor;
mod expressions;
pub mod fuzzing;
mod logs;
mod options;
mod outbox;
pub mod report_batch;
mod service;
mod staging;

pub use executor::program::cgroups::Cgroups;
pub use executor::program::machine_memory::available_memory;
pub use executor::program::options::ProgramOptions;
pub use executor::program::watchdog::run_watchdog;
pub use logs::log_store::LogLimits;
pub use options::Options;
pub use service::Service;
