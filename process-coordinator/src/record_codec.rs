//! The encoding of everything that a coordinator stores in its repository.

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

/// Bytes of the repository that this version cannot decode; names what they should have been.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("its {0} cannot be read by this version")]
pub struct Unreadable(pub &'static str);

/// Encodes a value for the repository.
pub fn encode(value: &impl Serialize) -> Bytes {
    // Encoding our own types into memory does not fail.
    postcard::to_stdvec(value).unwrap_or_default().into()
}

/// Decodes bytes of the repository; `what` names them in the error.
pub fn decode<T: DeserializeOwned>(what: &'static str, bytes: &[u8]) -> Result<T, Unreadable> {
    postcard::from_bytes(bytes).map_err(|_| Unreadable(what))
}
