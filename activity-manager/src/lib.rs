//! The activity manager: runs activities for coordinators, as many at once as it has slots.
//!
//! | file | is about |
//! |---|---|
//! | `admission` | who may run now, who waits, who is refused; pure |
//! | `desk` | every attempt from its arrival until its answer was acknowledged |
//! | `lua`, `command` | executors |
//! | `service` | the stream of orders and reports |

mod admission;
mod command;
mod desk;
mod lua;
mod service;

pub use admission::{Admission, Verdict};
pub use service::{Options, Service};
