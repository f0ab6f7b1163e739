//! `${…}` in attributes and arguments: where the expressions in a text begin and end, and one expression for the whole
//! text.

use std::ops::Range;

use crate::script::TEXT_OF;

/// A piece of a text with expressions in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Literal text.
    Text(String),
    /// Bytes of an expression, without its `${` and `}`.
    Code(Range<usize>),
}

/// Cuts a text into pieces. The error is the offset of a `${` that is never closed.
pub(super) fn cut(text: &str) -> Result<Vec<Piece>, usize> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'$', &text.as_bytes()[at..]) {
        let dollar = at + found;
        plain.push_str(&text[at..dollar]);
        let rest = &text[dollar..];
        if rest.starts_with("$${") {
            plain.push_str("${");
            at = dollar + 3;
        } else if rest.starts_with("${") {
            let end = closing(text.as_bytes(), dollar + 2).ok_or(dollar)?;
            if !plain.is_empty() {
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
            }
            pieces.push(Piece::Code(dollar + 2..end));
            at = end + 1;
        } else {
            plain.push('$');
            at = dollar + 1;
        }
    }
    plain.push_str(&text[at..]);
    if !plain.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(pieces)
}

/// Returns the offset of the brace that closes the expression which begins at `at`. Braces in strings do not count,
/// braces of tables come in pairs, and an interpolated string has expressions of its own.
pub(super) fn closing(text: &[u8], mut at: usize) -> Option<usize> {
    let mut open: Vec<u8> = Vec::new();
    while at < text.len() {
        let byte = text[at];
        if open.last() == Some(&b'`') {
            match byte {
                b'\\' => at += 1,
                b'`' => drop(open.pop()),
                b'{' => open.push(b'{'),
                _ => {}
            }
            at += 1;
            continue;
        }
        match byte {
            b'\'' | b'"' => at = string_end(text, at)?,
            b'[' => at = long_string_end(text, at)?,
            b'`' | b'{' => open.push(byte),
            b'}' if open.pop().is_none() => return Some(at),
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the offset of the closing quote of the string whose opening quote is at `at`.
pub(super) fn string_end(text: &[u8], at: usize) -> Option<usize> {
    let quote = text[at];
    let mut at = at + 1;
    while at < text.len() && text[at] != quote {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    (at < text.len()).then_some(at)
}

/// Returns the offset of the last byte of a `[[…]]` or `[=[…]=]` that begins at `at`; `at` itself if none begins there.
fn long_string_end(text: &[u8], at: usize) -> Option<usize> {
    let level = text[at + 1..].iter().take_while(|byte| **byte == b'=').count();
    if text.get(at + 1 + level) != Some(&b'[') {
        return Some(at);
    }
    let end = [b"]".as_slice(), &vec![b'='; level], b"]"].concat();
    let content = at + level + 2;
    memchr::memmem::find(&text[content..], &end).map(|found| content + found + end.len() - 1)
}

/// Returns the text as a Lua string, in quotes.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\0' => quoted.push_str("\\0"),
            _ => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// Upper bound on the operands of one chain of `..`, because Luau holds all of them in registers before it joins them.
const MAX_CHAIN: usize = 8;

/// Makes one expression of a text with expressions in it.
pub(super) fn join(text: &str, pieces: &[Piece]) -> String {
    if let [Piece::Code(range)] = pieces {
        return text[range.clone()].to_owned();
    }
    let mut parts: Vec<String> = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text(plain) => quoted(plain),
            // The line break ends a comment in the expression.
            Piece::Code(range) if text[range.clone()].contains("--") => {
                format!("{TEXT_OF}({}\n)", &text[range.clone()])
            }
            Piece::Code(range) => format!("{TEXT_OF}({})", &text[range.clone()]),
        })
        .collect();
    while parts.len() > MAX_CHAIN {
        parts = parts.chunks(MAX_CHAIN).map(|group| format!("({})", group.join(" .. "))).collect();
    }
    parts.join(" .. ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        match cut(text) {
            Err(at) => format!("unclosed at {at}"),
            Ok(pieces) => pieces
                .into_iter()
                .map(|piece| match piece {
                    Piece::Text(plain) => format!("({plain})"),
                    Piece::Code(range) => format!("<{}>", &text[range]),
                })
                .collect(),
        }
    }

    #[test]
    fn texts_are_cut_at_expressions() {
        for (text, expected) in [
            ("", "()"),
            ("plain $5 $", "(plain $5 $)"),
            ("${x}", "<x>"),
            ("a${x}b${y}", "(a)<x>(b)<y>"),
            ("$${x}", "(${x})"),
            ("$$${x}", "($${x})"),
            ("${ {a={1}} }", "< {a={1}} >"),
            ("${'}'}", "<'}'>"),
            (r#"${"\"}"}"#, r#"<"\"}">"#),
            ("${`a{b}}c`}é", "<`a{b}}c`>(é)"),
            ("${[[}]]}", "<[[}]]>"),
            ("${[=[}]]]=]}", "<[=[}]]]=]>"),
            ("${t[1]}", "<t[1]>"),
            ("${x", "unclosed at 0"),
            ("a${'x}", "unclosed at 1"),
            ("${'\\", "unclosed at 0"),
            ("${[[", "unclosed at 0"),
            ("${`\\", "unclosed at 0"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn quoted_texts_are_strings_of_lua() {
        assert_eq!(quoted("a\"b\\c\nd"), r#""a\"b\\c\nd""#);
    }
}
