//! One machine of a grid: any combination of the three services behind one address, and its membership in a group.

mod config;
mod membership;
mod server;

pub use config::{Config, Role};
pub use server::{Error, Node};
pub use xavantes_process_coordinator::Printed;
