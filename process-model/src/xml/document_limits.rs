//! Bounds on the size and shape of a document, checked while it is read.

/// Upper bound on the length of a document, in bytes.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;
/// Upper bound on the nesting of elements; the root is at depth 1.
pub const MAX_DEPTH: usize = 1000;
/// Upper bound on the attributes of one element.
pub const MAX_ATTRIBUTES: usize = 256;
/// Upper bound on the length of the name of an element or attribute, in bytes.
pub const MAX_NAME: usize = 256;
/// Upper bound on the elements, attributes and pieces of text of one document, taken together. It bounds memory: each
/// of them takes a few hundred bytes, although four bytes of text are enough to write one.
pub const MAX_NODES: usize = 1_000_000;
