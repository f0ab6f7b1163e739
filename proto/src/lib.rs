//! Messages and services, generated from `xavantes/v1/*.proto`, and their conversion to what the rest of the program
//! works with. Messages come from strangers: converting them back checks everything.

mod attempt;
mod connect;
mod convert;
mod epochs;
mod parts;
mod reasons;
mod words;

/// Version 1 of the protocol.
#[allow(missing_docs, clippy::all)] // Documented in the .proto files.
pub mod v1 {
    tonic::include_proto!("xavantes.v1");
}

/// For the sizes of messages.
pub use prost::Message;

pub use attempt::AttemptKey;
pub use connect::{connect, connect_bulk, question};
pub use epochs::Epochs;
pub use parts::{Assembler, Parted, pack, split};

pub use convert::{Unfit, digest_from, method_name, value, value_from};

/// The description of the protocol, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Messages larger than this are refused; what is larger travels in parts.
pub const MAX_MESSAGE: usize = 16 << 20;

/// A message carries several things as long as they are together no larger than this, so that none comes near the limit
/// of messages. One that is larger by itself travels in parts of this size.
pub const MAX_PART: usize = 8 << 20;

/// A job, an answer, or a call of a shared object and its reply are at most so large.
pub const MAX_LARGE: usize = 64 << 20;

/// All results of a process together are at most so large.
pub const MAX_WHOLE: usize = 256 << 20;

/// Why something is not sent that is larger than [`MAX_LARGE`].
pub fn too_large(what: &str, size: usize) -> String {
    format!(
        "{what} are too large to be sent: {:.1} MiB, at most {} MiB",
        size as f64 / f64::from(1 << 20),
        MAX_LARGE >> 20
    )
}

/// How many of these go into the next message: as many as are together no larger than [`MAX_PART`], at least one.
pub fn fitting(sizes: impl Iterator<Item = usize>) -> usize {
    let mut total = 0;
    let together = sizes.take_while(|size| {
        total += size;
        total <= MAX_PART
    });
    together.count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_takes_what_fits_and_at_least_one() {
        assert_eq!(fitting([1, 2, 3].into_iter()), 3);
        assert_eq!(fitting([MAX_PART - 1, 1, 1].into_iter()), 2);
        assert_eq!(fitting([2 * MAX_PART, 1].into_iter()), 1);
        assert_eq!(fitting([1, MAX_PART].into_iter()), 1);
    }
}
