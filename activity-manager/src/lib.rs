//! The activity manager: runs activities for coordinators, as many at once as it has slots.
//!
//! | file | is about |
//! |---|---|
//! | `admission` | who may run now, who waits, who is refused; pure |
//! | `books` | every attempt from its arrival until its answer was acknowledged; pure |
//! | `desk` | does what the books ask for |
//! | `answers`, `keeper` | answers on disk, and the thread that writes them |
//! | `lua`, `command` | executors |
//! | `outbox` | reports that wait for a coordinator's stream |
//! | `service` | the stream of orders and reports |

pub mod admission;
mod answers;
pub mod books;
mod command;
mod desk;
mod keeper;
mod lua;
mod outbox;
mod service;

pub use admission::{Admission, Verdict};
pub use service::{Options, Service};
