//! The activity manager: runs activities for coordinators, as many at once as it has slots.
//!
//! | file | is about |
//! |---|---|
//! | `admission` | who may run now, who waits, who is refused; pure |
//! | `books` | every attempt from its arrival until its answer was acknowledged; pure |
//! | `desk` | does what the books ask for |
//! | `answers`, `keeper` | answers on disk, and the thread that writes them |
//! | `lua`, `program` | executors |
//! | `logs`, `reading` | what attempts write, and how it is read |
//! | `outbox` | reports that wait for a coordinator's stream |
//! | `staging` | files that are laid into working directories, and taken out of them |
//! | `service` | the stream of orders and reports |

pub mod admission;
mod answers;
pub mod books;
mod desk;
mod keeper;
mod logs;
mod lua;
mod outbox;
pub mod program;
mod reading;
mod service;
mod staging;

pub use admission::{Admission, Room, Verdict};
pub use logs::Rules as LogRules;
pub use service::{Options, Service};
