//! The Xavantes process language: XML documents become checked definitions; values and sandboxed scripts are what
//! runs in them. Nothing here does I/O.

pub mod definition;
pub mod diagnostic;
pub mod digest;
pub mod identity;
pub mod load;
pub mod path;
pub mod script;
pub mod shared;
pub mod value;
pub mod xml;

/// The XML schema of documents.
pub const SCHEMA: &str = include_str!("../schema/xavantes.xsd");
