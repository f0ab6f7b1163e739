//! The Xavantes process language: XML documents become checked definitions, which hold values and run sandboxed
//! scripts. Nothing here does I/O.
//!
//! | module | content |
//! |---|---|
//! | [`xml`] | strict reading of XML, with source positions |
//! | [`load`] | from documents to a checked [`definition::Program`], or to findings |
//! | [`diagnostic`] | findings about documents, with their places |
//! | [`definition`] | process types, activity types and their nodes |
//! | [`value`] | the data that flows through a process |
//! | [`script`] | Lua: checks, compilation and the sandbox |
//! | [`shared_objects`] | shared objects: sets, lists, maps and counters |
//! | [`identity`] | bytes that decide whether two activities have the same result |
//! | [`digest`], [`working_path`] | names of content, and paths in working directories |
//! | [`shortened_text`] | long texts, shortened for people |

pub mod definition;
pub mod diagnostic;
pub mod digest;
pub mod identity;
pub mod load;
pub mod script;
pub mod shared_objects;
pub mod shortened_text;
pub mod value;
pub mod working_path;
pub mod xml;

/// The XML schema of documents, for editors.
pub const SCHEMA: &str = include_str!("../schema/xavantes.xsd");
