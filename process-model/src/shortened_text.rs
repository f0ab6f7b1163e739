//! Long texts, shortened for people.

/// Upper bound on the message of a failure; a longer one keeps its beginning and its end.
pub const MAX_FAILURE_BYTES: usize = 8 << 10;

/// Shortens a text to at most `max_bytes` bytes. Keeps its beginning and its end, and says how much it left out.
pub fn shorten(text: String, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text;
    }
    let note = |left_out: usize| format!(" … [{left_out} bytes left out] … ");
    let room = max_bytes.saturating_sub(note(text.len()).len());
    // The beginning says what happened, the end what happened last.
    let begin = text.floor_char_boundary(room * 3 / 4);
    let end = text.ceil_char_boundary(text.len() - (room - room * 3 / 4));
    format!("{}{}{}", &text[..begin], note(end - begin), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_beginning_and_its_end() {
        assert_eq!(shorten("short".into(), 5), "short");
        let long = format!("begin {} end", "ä".repeat(10_000));
        for max_bytes in [64, 100, 1001, 4096] {
            let short = shorten(long.clone(), max_bytes);
            assert!(short.len() <= max_bytes && short.len() + 8 > max_bytes, "{} of {max_bytes}", short.len());
            assert!(short.starts_with("begin ") && short.ends_with(" end") && short.contains(" bytes left out]"));
        }
        assert!(shorten(long, 0).len() < 64, "the note alone is left");
    }
}
