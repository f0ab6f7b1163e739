//! What users, monitors and other nodes ask of a coordinator.

pub(crate) mod follow;
pub(crate) mod logs;
pub(crate) mod service;
