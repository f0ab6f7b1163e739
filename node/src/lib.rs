//! One machine of a grid: any combination of the three roles behind one address, and its membership in a group.
//!
//! | module | has |
//! |---|---|
//! | `settings` | what can be set, where it comes from, and which values are valid |
//! | `node` | a node from its start to its end |
//! | `waiting` | a node that cannot open its data yet |
//! | `listener` | the address that it listens on |
//! | `roles` | one builder for each role |
//! | `foundation` | what the roles have in common |
//! | `services` | the gRPC server of a node |
//! | `connections` | its connections, and what they may take |
//! | `web` | metrics and health over HTTP |
//! | `membership` | heartbeats to the group manager, and the roster in return |
//! | `node_directory`, `node_files`, `repositories` | what a node keeps on disk |
//! | `error` | why a node does not start |

mod connections;
mod error;
mod foundation;
mod introduction;
mod listener;
mod membership;
mod node;
mod node_directory;
mod node_files;
mod repositories;
mod roles;
mod services;
mod settings;
mod waiting;
mod web;

pub use error::Error;
pub use node::Node;
pub use repositories::unfinished_processes;
pub use settings::{
    CgroupsSetting, ContainersSetting, InvalidSetting, LoadError, PasswordFileError, Role, SettingOverrides, Settings,
    check_address, has_password, hide_password, is_database_url,
};
pub use xavantes_activity_manager::run_watchdog;
pub use xavantes_process_coordinator::Printed;
