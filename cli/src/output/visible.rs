//! Text of others made safe to read: characters that control a terminal, or change the order in which it shows text, become
//! visible escapes such as `\x1b`. Pure.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character controls a terminal or changes the order of text: C0 except newline and tab, DEL, C1, and the
/// embeddings, overrides and isolates of bidirectional text.
pub(crate) fn is_active(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => c.is_control(),
    }
}

/// A text with escapes in place of active characters. A carriage return before a newline stays.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_active) {
        return text.into();
    }
    let mut safe = String::with_capacity(text.len() + 16);
    push_visible(&mut safe, text);
    safe.into()
}

/// A text as a part of one line: newlines and tabs become escapes, too.
pub(crate) fn visible_line(text: &str) -> Cow<'_, str> {
    match text.contains(['\n', '\t']) {
        true => Cow::Owned(visible(text).replace('\n', "\\n").replace('\t', "\\t")),
        false => visible(text),
    }
}

/// A log message with its newline: one line, in which only the colours of the program itself stay.
pub(crate) fn visible_log(message: &str) -> String {
    let line = message.strip_suffix('\n').unwrap_or(message);
    let mut safe = coloured(line, visible_line);
    safe.push('\n');
    safe
}

/// A text that the program coloured. Colours stay, other active characters become escapes.
pub(crate) fn visible_coloured(text: &str) -> String {
    coloured(text, visible)
}

fn coloured(text: &str, visible: impl Fn(&str) -> Cow<'_, str>) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\x1b[") {
        safe += &visible(before);
        let length = after.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(after.len());
        match after[length..].strip_prefix('m') {
            Some(behind) => {
                safe += "\x1b[";
                safe += &after[..=length];
                rest = behind;
            }
            None => {
                safe += "\\x1b[";
                rest = after;
            }
        }
    }
    safe += &visible(rest);
    safe
}

/// JSON with escapes in place of active characters that JSON allows in texts.
pub(crate) fn visible_json(json: String) -> String {
    let is_shown = |c: char| !is_active(c);
    if json.chars().all(is_shown) {
        return json;
    }
    let mut safe = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match is_shown(c) {
            true => safe.push(c),
            // Writing to a text does not fail.
            false => drop(write!(safe, "\\u{:04x}", u32::from(c))),
        }
    }
    safe
}

fn push_visible(safe: &mut String, text: &str) {
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => safe.push(c),
            c if !is_active(c) => safe.push(c),
            c if u32::from(c) < 0x100 => push_code(safe, c as u8),
            // Writing to a text does not fail.
            c => drop(write!(safe, "\\u{{{:x}}}", u32::from(c))),
        }
    }
}

fn push_code(safe: &mut String, byte: u8) {
    let _ = write!(safe, "\\x{byte:02x}");
}

/// Bytes that come in pieces, made visible. Bytes that are no text become escapes, too.
#[derive(Debug, Default)]
pub(crate) struct VisibleBytes {
    /// The beginning of a character, or a carriage return, at the end of the last piece.
    held: Vec<u8>,
}

impl VisibleBytes {
    /// The next piece.
    pub(crate) fn add(&mut self, piece: &[u8]) -> String {
        self.held.extend_from_slice(piece);
        let mut safe = String::with_capacity(self.held.len());
        let mut rest = &self.held[..];
        loop {
            let valid = match std::str::from_utf8(rest) {
                Ok(text) => text.strip_suffix('\r').unwrap_or(text).len(),
                Err(error) => error.valid_up_to(),
            };
            let (text, after) = rest.split_at(valid);
            push_visible(&mut safe, std::str::from_utf8(text).unwrap_or_default());
            rest = after;
            let Some(wrong) = std::str::from_utf8(rest).err().and_then(|error| error.error_len()) else { break };
            rest[..wrong].iter().for_each(|byte| push_code(&mut safe, *byte));
            rest = &rest[wrong..];
        }
        self.held = rest.to_vec();
        safe
    }

    /// The end: what was held back.
    pub(crate) fn finish(&mut self) -> String {
        let mut safe = String::new();
        self.held.drain(..).for_each(|byte| push_code(&mut safe, byte));
        safe
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_active_characters_become_escapes() {
        assert_eq!(visible("naïve 名前\tb\r\nc"), "naïve 名前\tb\r\nc");
        let hostile = "a\x1b]52;c;cm0=\x07b\u{9b}2Jc\u{202e}d\u{2066}e\x7f\rf\0";
        assert_eq!(visible(hostile), "a\\x1b]52;c;cm0=\\x07b\\x9b2Jc\\u{202e}d\\u{2066}e\\x7f\\x0df\\x00");
        assert_eq!(visible_line("a\nb\tc\x1b"), "a\\nb\\tc\\x1b");
        assert_eq!(visible_line("plain"), "plain");
    }

    #[test]
    fn a_log_message_keeps_its_colours_and_is_one_line() {
        assert_eq!(visible_log("\x1b[2m12:00\x1b[0m ok\n"), "\x1b[2m12:00\x1b[0m ok\n");
        assert_eq!(
            visible_log("a\nb\x1b[2Jc\x1b]0;t\x07\u{202e}\x1b[1\n"),
            "a\\nb\\x1b[2Jc\\x1b]0;t\\x07\\u{202e}\\x1b[1\n"
        );
        assert_eq!(visible_coloured("\x1b[1;31merror\x1b[0m\n\x1b[5;5H"), "\x1b[1;31merror\x1b[0m\n\\x1b[5;5H");
    }

    #[test]
    fn json_stays_the_same_document() {
        let text = "a\x7f\u{9b}2J\u{202e}名\n\x1b";
        let json = visible_json(serde_json::to_string(text).unwrap());
        assert_eq!(json, "\"a\\u007f\\u009b2J\\u202e名\\n\\u001b\"");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }

    #[test]
    fn bytes_may_be_cut_anywhere() {
        let bytes = b"\xe5\x90\x8d\x1b[2J\xc2\x9bx\x9b\xff\r\ny\rz\xe5\x90";
        let whole = "名\\x1b[2J\\x9bx\\x9b\\xff\r\ny\\x0dz\\xe5\\x90";
        for size in 1..=bytes.len() {
            let mut visible = VisibleBytes::default();
            let text: String = bytes.chunks(size).map(|piece| visible.add(piece)).collect();
            assert_eq!(text + &visible.finish(), whole, "{size}");
        }
    }
}
