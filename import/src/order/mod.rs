//! The order of tasks: edges that other edges imply, and series-parallel structure.
//!
//! | module | content |
//! |---|---|
//! | `reduction` | [`reduce`]: the fewest edges with the same order |
//! | `structure` | [`structure`]: nested series and parallels, graphs where there are none |

mod reduction;
mod structure;

pub(crate) use reduction::reduce;
pub(crate) use structure::{StructurePart, structure};
