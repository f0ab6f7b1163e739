//! Attempts of activities: what the activity manager knows of each, and which of them run.
//!
//! | module | is about |
//! |---|---|
//! | `realm_attempt` | names of attempts and of coordinator streams |
//! | `action` | what the attempt table asks the attempt manager to do |
//! | `admission` | which attempts run, wait or are refused; pure |
//! | `order` | the part of an order that concerns the table; pure |
//! | `attempt_table` | every attempt from its arrival until its answer is acknowledged; pure |
//! | `unacknowledged` | how much the answers take that coordinators have not acknowledged; pure |
//! | `job` | the work of one attempt, and its stop signal |

pub mod action;
pub mod admission;
pub mod attempt_table;
pub(crate) mod job;
pub mod order;
pub mod realm_attempt;
pub mod unacknowledged;
