//! Parameters of types and controllers, and the variables that the engine sets.

use std::sync::Arc;

use crate::value::{Type, Value};

/// Which side sets a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The code or attributes around the element, before it starts.
    In,
    /// The element, by the time it ends.
    Out,
    /// Both.
    InOut,
    /// The engine: loop counters, items, errors. Code can only read it.
    Local,
}

impl Direction {
    /// True if the starter of the element gives a value.
    pub fn is_in(self) -> bool {
        matches!(self, Direction::In | Direction::InOut)
    }

    /// True if the element gives a value.
    pub fn is_out(self) -> bool {
        matches!(self, Direction::Out | Direction::InOut)
    }
}

/// A parameter, or a variable that the engine sets.
#[derive(Debug, Clone)]
pub struct Variable {
    /// Name, unique in its scope.
    pub name: Arc<str>,
    /// Type; `None` for loop items and results, which can hold any value.
    pub ty: Option<Type>,
    /// Which side sets it.
    pub direction: Direction,
    /// Value for the case that the starter gives none.
    pub default: Option<Value>,
    /// True if it may stay without a value.
    pub optional: bool,
    /// True if nobody may see its value who watches the process.
    pub secret: bool,
    /// True for variables that every controller of a kind has, without a declaration: `counterBegin`, `completed`, …
    pub implicit: bool,
}
