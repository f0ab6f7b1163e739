//! Subtrees that this coordinator runs for other coordinators.
//!
//! | file | is about |
//! |---|---|
//! | `hosted` | the subtrees that run here, and their answers |
//! | `parents` | the coordinators that delegated them, and their streams |
//! | `accept` | a subtree that arrives |
//! | `moves` | subtrees that another coordinator has taken over |

mod accept;
pub mod hosted;
mod moves;
pub(crate) mod parents;
