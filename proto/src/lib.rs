//! Messages and services, generated from `xavantes/v1/*.proto`, and their conversion to what the rest of the program
//! works with. Messages come from strangers: converting them back checks everything.

mod convert;

/// Version 1 of the protocol.
#[allow(missing_docs, clippy::all)] // Documented in the .proto files.
pub mod v1 {
    tonic::include_proto!("xavantes.v1");
}

pub use convert::{Unfit, method_name, value, value_from};

/// The description of the protocol, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Messages larger than this are refused; what is larger travels in parts.
pub const MAX_MESSAGE: usize = 16 << 20;
