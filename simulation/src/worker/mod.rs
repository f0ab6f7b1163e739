//! Workers.
//!
//! | file | is about |
//! |---|---|
//! | `state` | memory and disk of a worker |
//! | `orders` | orders, actions and records |
//! | `activities` | activities that run |

mod activities;
mod orders;
pub mod state;
