//! One machine of a grid: any combination of the three services behind one address, and its membership in a group.

mod config;
mod membership;
mod server;
mod store;

pub use config::{Cgroups, Config, Role, Unusable, check_address, is_database};
pub use server::{Error, Node};
pub use store::unfinished;
pub use xavantes_activity_manager::run_watchdog;
pub use xavantes_process_coordinator::Printed;
