//! Subtrees that this coordinator runs for other coordinators.
//!
//! | file | is about |
//! |---|---|
//! | `hosted_subtrees` | the subtrees that run here, and their answers |
//! | `parent_links` | the coordinators that delegated them, and the calls that go on to them; pure |
//! | `parent_order` | the orders of those coordinators; pure |
//! | `parent_streams` | `parent_links` with a lock and channels |
//! | `parent_report_batch` | the messages that carry reports to parents |
//! | `accept_subtree` | a subtree that arrives |
//! | `move_notice` | notices of moved subtrees, and the decisions about them; pure |
//! | `moved_subtrees` | subtrees that another coordinator has taken over |

mod accept_subtree;
pub mod hosted_subtrees;
pub mod move_notice;
pub(crate) mod moved_subtrees;
pub mod parent_links;
pub mod parent_order;
pub mod parent_report_batch;
pub(crate) mod parent_streams;
