//! Errors as gRPC statuses. A failed fetch travels as a [`v1::FetchFailure`] in the details of its status, so that a node that
//! asked a relay learns which nodes the relay asked. Details come from other nodes, so their size and nesting are bounded.

use prost::Message;
use tonic::{Code, Status};
use xavantes_model::digest::Digest;
use xavantes_proto::v1::holder_failure::Kind;
use xavantes_proto::v1::{self, FetchFailure, HolderFailure};

use crate::error::Error;

/// Upper bound on the relays of one request, which ask each other in turn: the number of groups between two nodes. It also
/// bounds the nesting of their failures.
pub(crate) const MAX_RELAYS: usize = 8;
/// Upper bound on an encoded failure. HTTP/2 clients refuse headers of more than 16 KiB, and details are a header.
const MAX_DETAIL_BYTES: usize = 2 << 10;
/// Upper bound on the message of a status, which is a header, too.
const MAX_MESSAGE_BYTES: usize = 1 << 10;
/// Upper bound on an address or on the message of another node within a failure.
const MAX_TEXT_BYTES: usize = 200;

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Gone { failure, .. } => {
                let details = bounded(failure).encode_to_vec();
                Status::with_details(Code::NotFound, shorten(&message, MAX_MESSAGE_BYTES), details.into())
            }
            Error::Missing(_) => Status::not_found(message),
            Error::Full { .. } => Status::resource_exhausted(message),
            Error::Busy(_) => Status::aborted(message),
            Error::Damaged(_) => Status::data_loss(message),
            Error::Path { .. } | Error::Directory(_) => Status::invalid_argument(message),
            Error::Io { .. } => Status::internal(message),
        }
    }
}

/// The failure of a node that answered with an error.
pub(crate) fn refused(address: &str, relay: bool, digest: &Digest, status: &Status) -> HolderFailure {
    let kind = match status.code() {
        Code::NotFound if relay && !status.details().is_empty() => match decode(digest, status.details()) {
            Some(failure) => Kind::Relayed(failure),
            None => Kind::Error("it sent a malformed failure".into()),
        },
        Code::NotFound => Kind::Missing(v1::Nothing {}),
        Code::DataLoss => Kind::Damaged(v1::Nothing {}),
        _ => Kind::Error(shorten(status.message(), MAX_TEXT_BYTES).to_owned()),
    };
    HolderFailure { address: shorten(address, MAX_TEXT_BYTES).to_owned(), relay, kind: Some(kind) }
}

/// The failure of a node that cannot be reached.
pub(crate) fn unreachable(address: &str, relay: bool) -> HolderFailure {
    let kind = Some(Kind::Unreachable(v1::Nothing {}));
    HolderFailure { address: shorten(address, MAX_TEXT_BYTES).to_owned(), relay, kind }
}

/// Decodes the details of a status; nothing if they exceed a bound or are about another object.
fn decode(digest: &Digest, details: &[u8]) -> Option<FetchFailure> {
    if details.len() > MAX_DETAIL_BYTES {
        return None;
    }
    let failure = FetchFailure::decode(details).ok()?;
    (failure.digest == digest.0 && is_nested_at_most(&failure, MAX_RELAYS)).then_some(failure)
}

/// Whether at most `depth` failures contain each other. Prost itself bounds the nesting of a message that it decodes, so this
/// recursion is bounded, too.
fn is_nested_at_most(failure: &FetchFailure, depth: usize) -> bool {
    depth > 0
        && failure.holders.iter().all(|holder| match &holder.kind {
            Some(Kind::Relayed(inner)) => is_nested_at_most(inner, depth - 1),
            _ => true,
        })
}

/// Shortens a failure until it fits into the details of a status: drops what relays reported, then the last holders.
fn bounded(mut failure: FetchFailure) -> FetchFailure {
    if failure.encoded_len() > MAX_DETAIL_BYTES {
        for holder in &mut failure.holders {
            if matches!(holder.kind, Some(Kind::Relayed(_))) {
                holder.kind = Some(Kind::Error("the nodes that it asked did not deliver".into()));
            }
        }
    }
    while failure.encoded_len() > MAX_DETAIL_BYTES && failure.holders.len() > 1 {
        failure.holders.pop();
    }
    failure
}

/// The longest prefix of a text that has at most `limit` bytes.
fn shorten(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: Digest = Digest([7; 32]);

    fn failure(holders: Vec<HolderFailure>) -> FetchFailure {
        FetchFailure { digest: DIGEST.0.to_vec(), holders }
    }

    /// A failure that `depth` nodes report, each the relay of the next.
    fn nested(depth: usize) -> FetchFailure {
        (1..depth).fold(failure(vec![unreachable("far:1", false)]), |inner, _| {
            let status = Status::with_details(Code::NotFound, "", inner.encode_to_vec().into());
            let relayed = FetchFailure::decode(status.details()).ok().map(Kind::Relayed);
            failure(vec![HolderFailure { address: "relay:1".into(), relay: true, kind: relayed }])
        })
    }

    fn received(failure: FetchFailure) -> Option<Kind> {
        let status = Status::with_details(Code::NotFound, "", failure.encode_to_vec().into());
        refused("relay:1", true, &DIGEST, &status).kind
    }

    #[test]
    fn the_failure_of_a_relay_arrives_as_it_was_sent() {
        let sent = failure(vec![unreachable("far:1", false), refused("b:2", false, &DIGEST, &Status::not_found(""))]);
        let status = Status::from(Error::Gone { digest: DIGEST, failure: sent.clone() });
        assert_eq!(status.code(), Code::NotFound);
        assert!(status.message().contains("far:1 cannot be reached; b:2 does not have it"), "{status}");
        let holder = refused("relay:1", true, &DIGEST, &status);
        assert_eq!(holder.kind, Some(Kind::Relayed(sent)));
        assert!(holder.to_string().starts_with("through relay:1: far:1 cannot be reached"), "{holder}");
        // A node that is not a relay fetches nothing for others, so its details mean nothing.
        assert_eq!(refused("a:1", false, &DIGEST, &status).kind, Some(Kind::Missing(v1::Nothing {})));
    }

    #[test]
    fn details_beyond_the_bounds_are_refused() {
        assert_eq!(received(nested(MAX_RELAYS)), Some(Kind::Relayed(nested(MAX_RELAYS))));
        let malformed = |kind| matches!(kind, Some(Kind::Error(_)));
        assert!(malformed(received(nested(MAX_RELAYS + 1))));
        assert!(malformed(received(failure(vec![unreachable(&"x".repeat(100), false); 30]))));
        assert!(malformed(received(FetchFailure { digest: vec![1; 32], holders: Vec::new() })));
        let status = Status::with_details(Code::NotFound, "", b"anything"[..].into());
        assert!(malformed(refused("relay:1", true, &DIGEST, &status).kind));
    }

    #[test]
    fn large_failures_are_shortened_until_they_fit() {
        let long = "ü".repeat(5000);
        let many = vec![refused(&long, true, &DIGEST, &Status::internal(&*long)); 20];
        let relay = HolderFailure { kind: Some(Kind::Relayed(failure(many.clone()))), ..many[0].clone() };
        let status = Status::from(Error::Gone { digest: DIGEST, failure: failure([vec![relay], many].concat()) });
        assert!(status.details().len() <= MAX_DETAIL_BYTES && status.message().len() <= MAX_MESSAGE_BYTES);
        let sent = decode(&DIGEST, status.details()).expect("a shortened failure is within the bounds");
        assert!(matches!(sent.holders[0].kind, Some(Kind::Error(_))) && sent.holders.len() > 1, "{sent:?}");
    }
}
