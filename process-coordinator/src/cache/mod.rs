//! The result cache: results of activities that later processes use again.

pub mod decide;
pub(crate) mod explain;
pub(crate) mod store;
