//! Subtrees that this coordinator runs for other coordinators.
//!
//! | file | is about |
//! |---|---|
//! | `hosted` | the subtrees that run here, and their answers |
//! | `parent_links` | the coordinators that delegated them, and the calls that go on to them; pure |
//! | `parent_order` | the orders of those coordinators; pure |
//! | `parents` | `parent_links` with a lock and channels |
//! | `report_batch` | the messages that carry reports to parents |
//! | `accept` | a subtree that arrives |
//! | `move_notice` | notices of moved subtrees, and the decisions about them; pure |
//! | `moves` | subtrees that another coordinator has taken over |

mod accept;
pub mod hosted;
pub mod move_notice;
mod moves;
pub mod parent_links;
pub mod parent_order;
pub(crate) mod parents;
pub mod report_batch;
