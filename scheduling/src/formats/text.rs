//! Words of a text with their lines: what the formats of Stockinger 2020 consist of.

use std::str::FromStr;

use super::ReadError;

/// The words of a text, one after the other. A word that begins with `%` begins a comment, which ends with the line.
pub(super) struct Words<'a> {
    lines: std::iter::Enumerate<std::str::Lines<'a>>,
    words: std::str::SplitWhitespace<'a>,
    line: usize,
}

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { lines: text.lines().enumerate(), words: "".split_whitespace(), line: 1 }
    }

    /// The line of the last word, from 1.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// The next word.
    pub(super) fn word(&mut self, what: &str) -> Result<&'a str, ReadError> {
        loop {
            if let Some(word) = self.words.next().filter(|word| !word.starts_with('%')) {
                return Ok(word);
            }
            match self.lines.next() {
                Some((line, text)) => {
                    self.line = line + 1;
                    self.words = text.split_whitespace();
                }
                None => return Err(self.error(format!("the document ends where {what} should be"))),
            }
        }
    }

    fn parse<T: FromStr>(&mut self, what: &str, kind: &str) -> Result<T, ReadError> {
        let word = self.word(what)?;
        word.parse().map_err(|_| self.error(format!("{what} must be {kind}, not `{}`", shorten(word))))
    }

    /// The next word as a count or an index.
    pub(super) fn count(&mut self, what: &str) -> Result<usize, ReadError> {
        self.parse(what, "a whole number")
    }

    /// The next word as a number that is finite and not negative.
    pub(super) fn number(&mut self, what: &str) -> Result<f64, ReadError> {
        let number: f64 = self.parse(what, "a number")?;
        if number.is_finite() && number >= 0.0 {
            Ok(number)
        } else {
            Err(self.error(format!("{what} must be finite and not negative, not {number}")))
        }
    }

    /// The next words as numbers.
    pub(super) fn numbers(&mut self, count: usize, what: &str) -> Result<Vec<f64>, ReadError> {
        (0..count).map(|_| self.number(what)).collect()
    }

    pub(super) fn error(&self, reason: impl Into<String>) -> ReadError {
        ReadError::line(self.line, reason)
    }
}

/// The beginning of a word, for messages.
pub(crate) fn shorten(word: &str) -> &str {
    const MOST_CHARS: usize = 60;
    word.char_indices().nth(MOST_CHARS).map_or(word, |(end, _)| &word[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_know_their_lines() {
        let mut words = Words::new("a b % c\n\n  7 x\n-1\n");
        assert_eq!((words.word("w").unwrap(), words.word("w").unwrap()), ("a", "b"));
        assert_eq!((words.count("n").unwrap(), words.line()), (7, 3));
        assert_eq!(words.count("n").unwrap_err().to_string(), "line 3: n must be a whole number, not `x`");
        assert_eq!(words.number("n").unwrap_err().to_string(), "line 4: n must be finite and not negative, not -1");
        assert_eq!(words.word("w").unwrap_err().to_string(), "line 4: the document ends where w should be");
    }
}
