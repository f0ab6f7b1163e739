//! One process: the driver decides, the runner acts, the journal keeps.

pub mod driver;
pub mod history;
pub mod journal;
pub(crate) mod outputs;
pub(crate) mod runner;
