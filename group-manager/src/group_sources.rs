//! The rules for data sources that an administrator adds.

use std::collections::BTreeMap;

use xavantes_proto::message_limits::{self, InvalidField, MAX_URI_BYTES};
use xavantes_repository::Error;

/// Beginnings of URIs that a source may have.
const URI_PREFIXES: [&str; 5] = ["/", "file://", "s3://", "http://", "https://"];

/// Upper bound on the sources that administrators add.
const MAX_SOURCES: usize = 1024;

/// Why a source cannot be added or removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("names of sources consist of small letters, digits, - and _; {0:?} does not")]
    Name(String),
    #[error("source {0:?} is in the configuration of the group manager; change it there")]
    Configured(String),
    #[error("source {0:?} needs a URI")]
    NoUri(String),
    #[error(
        "source {name:?}: {uri:?} is no place; a place is /path, file:///path, s3://bucket/prefix, http://host/path \
         or https://host/path"
    )]
    Uri { name: String, uri: String },
    #[error("there is no source {name:?} in group {group:?}")]
    Unknown { name: String, group: String },
    #[error("{0}")]
    TooLong(InvalidField),
    #[error("the group has {MAX_SOURCES} sources, as many as it can have; remove one first")]
    TooMany,
    #[error("the source cannot be stored: {0}")]
    NotStored(#[from] Error),
}

impl From<SourceError> for tonic::Status {
    fn from(error: SourceError) -> Self {
        let code = match error {
            SourceError::Name(_) | SourceError::NoUri(_) | SourceError::Uri { .. } | SourceError::TooLong(_) => {
                tonic::Code::InvalidArgument
            }
            SourceError::TooMany => tonic::Code::ResourceExhausted,
            SourceError::Configured(_) => tonic::Code::FailedPrecondition,
            SourceError::Unknown { .. } => tonic::Code::NotFound,
            SourceError::NotStored(_) => tonic::Code::Unavailable,
        };
        Self::new(code, error.to_string())
    }
}

/// Checks the name of a source.
pub(crate) fn check_name(name: &str) -> Result<(), SourceError> {
    message_limits::check_optional_name("the name of the source", name).map_err(SourceError::TooLong)?;
    let valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
    if name.is_empty() || !name.bytes().all(valid) { Err(SourceError::Name(name.into())) } else { Ok(()) }
}

/// Checks that there is room for a source.
pub(crate) fn check_count(name: &str, sources: &BTreeMap<String, String>) -> Result<(), SourceError> {
    let fits = sources.contains_key(name) || sources.len() < MAX_SOURCES;
    if fits { Ok(()) } else { Err(SourceError::TooMany) }
}

/// Checks the URI of a source.
pub(crate) fn check_uri(name: &str, uri: &str) -> Result<(), SourceError> {
    message_limits::check_line("the URI of the source", uri, MAX_URI_BYTES).map_err(SourceError::TooLong)?;
    if uri.trim().is_empty() {
        return Err(SourceError::NoUri(name.into()));
    }
    if !URI_PREFIXES.iter().any(|prefix| uri.starts_with(prefix)) {
        return Err(SourceError::Uri { name: name.into(), uri: uri.into() });
    }
    Ok(())
}

/// The sources that another manager sent or the repository holds, as far as they are within the bounds. Their form is not
/// checked: a source that an administrator added to an earlier version stays.
pub(crate) fn from_wire(sources: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, String> {
    let fits = |(name, uri): &(String, String)| {
        message_limits::check_name("the name of the source", name).is_ok()
            && message_limits::check_line("the URI of the source", uri, MAX_URI_BYTES).is_ok()
    };
    sources.into_iter().filter(fits).take(MAX_SOURCES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_sources_are_bounded() {
        let many = (0..2 * MAX_SOURCES).map(|number| (format!("s{number}"), "file:x".to_owned()));
        assert_eq!(from_wire(many).len(), MAX_SOURCES);
        let long = [("s".repeat(9999), "/x".to_owned()), ("s".into(), "/".repeat(9999)), (String::new(), "/x".into())];
        assert_eq!(from_wire(long), BTreeMap::new());
    }
}
