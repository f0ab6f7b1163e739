//! Where in a file the bytes of a stream are. Pure.
//!
//! A file holds a stream up to its limit. Of a longer stream it holds two halves: the first is the beginning of the stream,
//! the second is a ring in which the newest bytes replace the oldest.

use std::ops::Range;

/// A range of new data and the offset in the file that it goes to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutputPlacement {
    pub offset: u64,
    pub data: Range<usize>,
}

/// A part of a stream that a file holds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReadableRange {
    /// Bytes of the stream before the range that the file no longer holds.
    pub left_out: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Length of the range; 0 at the end of the stream.
    pub length: u64,
}

/// Sizes of the two halves.
fn halves(limit: u64) -> (u64, u64) {
    (limit - limit / 2, limit / 2)
}

/// Where `length` new bytes go behind `written` bytes. Bytes that the same data would overwrite have no place.
pub(crate) fn place(written: u64, length: usize, limit: u64) -> Vec<OutputPlacement> {
    let (head, ring) = halves(limit);
    let (mut at, end) = (written, written + length as u64);
    let mut places = Vec::new();
    if at < head {
        let until = end.min(head);
        places.push(OutputPlacement { offset: at, data: 0..(until - at) as usize });
        at = until;
    }
    if ring == 0 {
        return places;
    }
    at = at.max(end.saturating_sub(ring));
    while at < end {
        let in_ring = (at - head) % ring;
        let count = (ring - in_ring).min(end - at);
        let from = (at - written) as usize;
        places.push(OutputPlacement { offset: head + in_ring, data: from..from + count as usize });
        at += count;
    }
    places
}

/// The next part of a stream of `written` bytes that a reader at `from` can get.
pub(crate) fn readable(from: u64, written: u64, limit: u64) -> ReadableRange {
    let (head, ring) = halves(limit);
    if from < head.min(written) {
        return ReadableRange { left_out: 0, offset: from, length: head.min(written) - from };
    }
    let oldest = head.max(written.saturating_sub(ring)).min(written);
    let at = from.max(oldest);
    if ring == 0 || at >= written {
        return ReadableRange { left_out: written.saturating_sub(from), offset: 0, length: 0 };
    }
    let in_ring = (at - head) % ring;
    ReadableRange { left_out: at - from, offset: head + in_ring, length: (ring - in_ring).min(written - at) }
}
