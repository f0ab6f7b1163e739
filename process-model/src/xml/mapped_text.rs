//! Decoded text that remembers where each of its bytes was written, so that findings in code point into the document.

use std::ops::Range;

/// Decoded text with a map from its bytes to bytes of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedText {
    /// Decoded text.
    pub value: String,
    // (offset in `value`, offset in the source) of each stretch in which both advance together. MAX_BYTES fits in 32
    // bits.
    runs: Vec<(u32, u32)>,
    end: usize,
}

impl MappedText {
    pub(super) fn new(start: usize) -> Self {
        Self { value: String::new(), runs: Vec::new(), end: start }
    }

    /// Returns the source offset of a byte offset of `value`. A character that was written as a reference is at its
    /// `&`. The end of `value`, and any offset past it, maps to the end of the text in the source.
    pub fn source_offset(&self, offset: usize) -> usize {
        let run = self.runs.partition_point(|(decoded, _)| *decoded as usize <= offset);
        match run.checked_sub(1).and_then(|run| self.runs.get(run)) {
            Some((decoded, source)) if offset < self.value.len() => *source as usize + (offset - *decoded as usize),
            _ => self.end,
        }
    }

    /// Returns the source range of a byte range of `value`.
    pub fn source_range(&self, range: Range<usize>) -> Range<usize> {
        let start = self.source_offset(range.start);
        start..self.source_offset(range.end).max(start)
    }

    /// Appends `piece`, which the source bytes `from` stand for.
    pub(super) fn push(&mut self, from: Range<usize>, piece: &str) {
        let expected =
            self.runs.last().map(|(decoded, source)| *source as usize + self.value.len() - *decoded as usize);
        if expected != Some(from.start) && !piece.is_empty() {
            self.runs.push((self.value.len() as u32, from.start as u32));
        }
        self.value.push_str(piece);
        self.end = from.end;
    }

    pub(super) fn append(&mut self, other: &MappedText) {
        let shift = self.value.len() as u32;
        self.runs.extend(other.runs.iter().map(|(decoded, source)| (decoded + shift, *source)));
        self.value.push_str(&other.value);
        self.end = other.end;
    }
}
