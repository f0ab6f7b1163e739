//! A completed activity in the memo of its process. Without I/O, clock or threads.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use xavantes_model::definition::ActivityType;
use xavantes_model::digest::Digest;
use xavantes_model::identity;
use xavantes_model::value::Value;
use xavantes_proto::{Message, v1};

use crate::cache::shown_value::{HIDDEN, show_value};

/// An input with more bytes than this is noted by its digest.
const MAX_VALUE_BYTES: u64 = 256;

/// A completed activity: what it was given and what it returned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoEntry<'a> {
    /// Position of the activity type in the program of the process.
    pub activity: u32,
    /// Path of the element, without the id of the process.
    pub path: Cow<'a, str>,
    /// When it completed, in milliseconds since the submission of the process.
    pub at_ms: u64,
    /// Its IN parameters in order.
    pub inputs: Vec<MemoInput<'a>>,
    /// An encoded `Completed`.
    pub results: Cow<'a, [u8]>,
    /// Position of the entry in the memo of the former process whose results the activity took over.
    pub taken: Option<u32>,
}

/// An input of a completed activity. Its digest is computed when a rerun reads the memo, not while the process runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum MemoInput<'a> {
    /// A small value.
    Value(Cow<'a, Value>),
    /// A large or secret value, by its digest and for people.
    Digest(Digest, String),
    /// A large or secret value without identity: no activity can be compared with this one.
    Undecided,
}

impl<'a> MemoInput<'a> {
    fn new(value: &'a Value, secret: bool) -> Self {
        if !secret && value.bytes() <= MAX_VALUE_BYTES {
            return Self::Value(Cow::Borrowed(value));
        }
        match value_digest(value) {
            Some(digest) => Self::Digest(digest, if secret { HIDDEN.to_owned() } else { show_value(value) }),
            None => Self::Undecided,
        }
    }

    /// The digest of the value, and the value for people; nothing if the value has no identity.
    pub fn digest(&self) -> Option<(Digest, Cow<'_, str>)> {
        match self {
            Self::Value(value) => Some((value_digest(value)?, show_value(value).into())),
            Self::Digest(digest, shown) => Some((*digest, shown.into())),
            Self::Undecided => None,
        }
    }
}

fn value_digest(value: &Value) -> Option<Digest> {
    identity::value(value).ok().map(|bytes| Digest(*blake3::hash(&bytes).as_bytes()))
}

/// Encodes an activity that has completed, if the engine agrees. `path` is the whole path of its element.
pub fn encode_entry(
    number: usize,
    activity: &ActivityType,
    values: &[Value],
    path: &str,
    at_ms: u64,
    completed: &v1::Completed,
    taken: Option<u32>,
) -> Vec<u8> {
    let inputs = activity.parameters.iter().zip(values).filter(|(it, _)| it.direction.is_in());
    let entry = MemoEntry {
        activity: number as u32,
        path: Cow::Borrowed(element_path(path)),
        at_ms,
        inputs: inputs.map(|(variable, value)| MemoInput::new(value, variable.secret)).collect(),
        results: Cow::Owned(completed.encode_to_vec()),
        taken,
    };
    // Encoding our own types into memory does not fail.
    postcard::to_stdvec(&entry).unwrap_or_default()
}

/// The path of an element without the id of its process.
pub fn element_path(path: &str) -> &str {
    path.split_once('/').map_or("", |(_, element)| element)
}
