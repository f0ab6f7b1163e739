//! Users.
//!
//! | file | is about |
//! |---|---|
//! | `state` | what users want and know |
//! | `actions` | submitting and steering |
//! | `results` | what must come out |

mod actions;
mod results;
pub mod state;
