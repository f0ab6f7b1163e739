//! Messages and services, generated from `xavantes/v1/*.proto`, and their conversion to the types of the program.
//!
//! | module | is about |
//! |---|---|
//! | `connect` | connections and the timeout of calls |
//! | `wire_values` | values, files and shared objects to and from the wire |
//! | `message_parts` | large messages in parts |
//! | `list_pages` | long lists in pages, long texts cut |
//! | `programs` | names and memory of loaded programs |
//! | `attempt` | the name of an attempt |
//! | `epochs` | the fencing of coordinators |
//! | `message_memory` | the memory that messages take while they arrive |
//! | `message_limits` | upper bounds on what peers and users send, and the checks |
//! | `reasons` | sentences for the typed reasons of the wire |
//! | `state_words` | words for the states of the wire |

mod attempt_key;
mod connect;
mod epochs;
mod list_pages;
pub mod message_limits;
pub mod message_memory;
mod message_parts;
pub mod programs;
mod reasons;
mod state_words;
mod wire_values;

/// Version 1 of the protocol.
#[allow(missing_docs, clippy::all)] // Documented in the .proto files.
pub mod v1 {
    tonic::include_proto!("xavantes.v1");
}

/// Encoding and size of messages.
pub use prost::Message;

pub use attempt_key::AttemptKey;
pub use connect::{call_with_timeout, connect, connect_bulk, first_message, status_text, transport_text};
pub use epochs::Epochs;
pub use list_pages::{MAX_PAGE_BYTES, MAX_PAGE_ITEMS, MAX_TEXT_BYTES, Page, cut_text, page_of};
pub use message_parts::{Assembler, Multipart, next_whole, pack, receive, split};

pub use wire_values::{InvalidMessage, digest_from, method_name, value, value_from};

/// Encoded file descriptors of the protocol, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Upper bound on the bytes of a gRPC message. Larger messages travel in parts.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Upper bound on the bytes of items that share a message, well below [`MAX_MESSAGE_BYTES`]. A larger item travels in parts of
/// this size.
pub const MAX_PART_BYTES: usize = 8 << 20;

/// Upper bound on the bytes of a job, an answer, and a call of a shared object or its reply.
pub const MAX_PAYLOAD_BYTES: usize = 64 << 20;

/// Upper bound on the bytes of all results of a process together.
pub const MAX_RESULTS_BYTES: usize = 256 << 20;

/// The error text for values that are larger than [`MAX_PAYLOAD_BYTES`].
pub fn too_large(what: &str, size: usize) -> String {
    format!(
        "{what} are too large to be sent: {:.1} MiB, at most {} MiB",
        size as f64 / f64::from(1 << 20),
        MAX_PAYLOAD_BYTES >> 20
    )
}

/// Number of items in the next message: as many as fit into [`MAX_PART_BYTES`] together, at least one.
pub fn count_fitting(sizes: impl Iterator<Item = usize>) -> usize {
    let mut total = 0;
    let together = sizes.take_while(|size| {
        total += size;
        total <= MAX_PART_BYTES
    });
    together.count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_all_items_that_fit_and_at_least_one() {
        assert_eq!(count_fitting([1, 2, 3].into_iter()), 3);
        assert_eq!(count_fitting([MAX_PART_BYTES - 1, 1, 1].into_iter()), 2);
        assert_eq!(count_fitting([2 * MAX_PART_BYTES, 1].into_iter()), 1);
        assert_eq!(count_fitting([1, MAX_PART_BYTES].into_iter()), 1);
    }
}
