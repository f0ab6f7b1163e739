//! Users.
//!
//! | file | is about |
//! |---|---|
//! | `state` | what users want and know |
//! | `actions` | submitting and steering |
//! | `rescue` | held elements and damaged processes |
//! | `results` | what must come out |

mod actions;
mod rescue;
mod results;
pub mod state;
