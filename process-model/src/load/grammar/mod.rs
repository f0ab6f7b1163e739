//! Which elements, attributes and texts a document may have where. The rules are tables; rules about relations between
//! parts of a document are checked where those parts are built.

mod grammar_check;
mod rules;

pub(super) use grammar_check::check;
pub(super) use rules::{PROGRAM_ATTRIBUTES, Tag, child, children, is_binding};
