//! One builder for each role of a node.
//!
//! | module | builds |
//! |---|---|
//! | `group_manager` | the service that knows the group |
//! | `process_coordinator` | the service that interprets processes |
//! | `activity_manager` | the service that executes activities |

pub(crate) mod activity_manager;
pub(crate) mod group_manager;
pub(crate) mod process_coordinator;
