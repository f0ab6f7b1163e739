//! Workers.
//!
//! | file | is about |
//! |---|---|
//! | `state` | memory and disk of a worker |
//! | `orders` | orders, actions and records |
//! | `activities` | activities that run |
//! | `draining` | workers that leave |
//! | `silence` | workers that do nothing with their attempts |

mod activities;
mod draining;
mod orders;
mod silence;
pub mod state;
