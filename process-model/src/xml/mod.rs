//! Strict reading of XML: well-formed XML 1.0 without a document type, bounded in size, with a source position for
//! every part.
//!
//! | module | content |
//! |---|---|
//! | `parser` | from text to a [`XmlTree`], or the first error |
//! | `scanner` | rules for names, attributes, references and declarations |
//! | `tree` | elements, attributes and text with their source positions |
//! | `mapped` | decoded text that maps back to the source |
//! | `chars` | character classes and white space of XML |
//! | `document_limits` | bounds on documents |
//!
//! The reader is written by hand on top of `quick-xml` for two reasons. Diagnostics point into decoded text, such as a
//! script with `&lt;` in it, so every decoded byte must map back to the source. Documents are untrusted, so every bound
//! is checked while reading and nothing recurses.

mod chars;
mod document_limits;
mod mapped_text;
mod parser;
mod scanner;
mod tree;

pub use chars::{is_blank, trim};
pub use document_limits::{MAX_ATTRIBUTES, MAX_BYTES, MAX_DEPTH, MAX_NAME, MAX_NODES};
pub use mapped_text::MappedText;
pub use parser::{decode, parse};
pub use tree::{Attribute, Text, XmlChild, XmlElement, XmlElementId, XmlTree};
