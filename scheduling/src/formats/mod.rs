//! Readers of workflow formats. Bad input yields an error with a place and a reason; sizes are bounded.
//!
//! | format | module | yields |
//! |---|---|---|
//! | Pegasus DAX (XML) | [`dax`] | a workflow |
//! | WfCommons WfFormat 1.4 to 1.6 (JSON) | [`wfformat`] | a workflow |
//! | `.dag` of the CPU instances of Stockinger 2020 | [`teylo`] | a workflow, files placed on machines |
//! | `.vcl` beside them | [`vcl`] | a platform |
//! | `.dag` of the GPU instances of Stockinger 2020 | [`gpu`] | a problem |
//! | `.wds` toys | [`wds`] | a problem |

pub mod dax;
pub mod gpu;
pub(crate) mod text;
pub mod teylo;
pub mod vcl;
pub mod wds;
pub mod wfformat;

use thiserror::Error;

use crate::problem::ProblemError;

/// Larger documents are refused: 100,000 tasks need about a third of it.
pub const MAX_DOCUMENT_BYTES: usize = 256 << 20;

/// Longer reasons are cut.
const MAX_REASON_BYTES: usize = 400;

/// Bytes of a megabyte in the instances of Stockinger 2020. A power of two, so that scaling keeps quotients exact.
pub(crate) const MEGABYTE: f64 = (1 << 20) as f64;

/// Where in a document something is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextPlace {
    /// A line, from 1.
    Line(usize),
    /// A path in a JSON document.
    Path(String),
}

impl std::fmt::Display for TextPlace {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(line) => write!(out, "line {line}"),
            Self::Path(path) => write!(out, "{path}"),
        }
    }
}

/// Why a document is no workflow.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ReadError {
    /// The document is longer than allowed.
    #[error("the document has {found} bytes; the limit is {MAX_DOCUMENT_BYTES}")]
    TooLong {
        /// Its bytes.
        found: usize,
    },
    /// Something is not as the format wants it.
    #[error("{place}: {reason}")]
    Syntax {
        /// Where.
        place: TextPlace,
        /// What is wrong.
        reason: String,
    },
    /// The parts are right, and do not make a workflow.
    #[error(transparent)]
    Problem(#[from] ProblemError),
}

impl ReadError {
    fn line(line: usize, reason: impl Into<String>) -> Self {
        Self::syntax(TextPlace::Line(line), reason)
    }

    /// A fault at a place. The reason may repeat words of the document, so it is cut.
    pub(crate) fn syntax(place: TextPlace, reason: impl Into<String>) -> Self {
        let mut reason = reason.into();
        if reason.len() > MAX_REASON_BYTES {
            reason.truncate(reason.floor_char_boundary(MAX_REASON_BYTES));
            reason.push('…');
        }
        Self::Syntax { place, reason }
    }
}

fn check_length(document: &str) -> Result<(), ReadError> {
    match document.len() {
        found if found > MAX_DOCUMENT_BYTES => Err(ReadError::TooLong { found }),
        _ => Ok(()),
    }
}
