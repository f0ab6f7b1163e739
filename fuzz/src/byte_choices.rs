//! Reads choices out of bytes. After the last byte every choice is 0.

use xavantes_proto::AttemptKey;

/// The bytes that are left.
pub struct ByteChoices<'a>(pub &'a [u8]);

impl<'a> ByteChoices<'a> {
    /// Are there bytes left?
    pub fn has_more(&self) -> bool {
        !self.0.is_empty()
    }

    /// One byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below the bound.
    pub fn below(&mut self, bound: u8) -> u8 {
        self.byte() % bound
    }

    /// A number that is mostly small, and sometimes as large as possible.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::MAX,
            254 => u64::from(u32::MAX),
            small => u64::from(small % 16),
        }
    }

    /// The next bytes, at most 255.
    pub fn bytes(&mut self) -> &'a [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }

    /// A key of few possible ones, so that many inputs are about the same attempt.
    pub fn key(&mut self) -> AttemptKey {
        let process = if self.below(4) == 0 { "q" } else { "p" };
        AttemptKey::new(process, u64::from(self.below(6)), u32::from(self.below(3)))
    }
}
