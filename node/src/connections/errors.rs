//! Texts of errors. They travel in headers of HTTP/2, where a client accepts only a few kibibytes. A longer text would break
//! the connection instead of reaching the user.

use tonic::codegen::http::{HeaderMap, HeaderValue};

/// Upper bound on the text of an error, as it travels.
const MAX_TEXT_BYTES: usize = 8 << 10;
/// Header with the text of an error, percent-encoded.
const TEXT: &str = "grpc-message";
/// Header with the typed reason of an error.
const DETAILS: &str = "grpc-status-details-bin";
/// What stands for the rest of a text, percent-encoded.
const CUT: &str = "%0A%E2%80%A6 (the message is longer)";

/// Shortens the text of an error, and drops details that are too large.
pub(super) fn shorten_error(headers: &mut HeaderMap) {
    if let Some(text) = headers.get(TEXT).filter(|text| text.len() > MAX_TEXT_BYTES) {
        let short = shorten(text.as_bytes());
        match HeaderValue::from_bytes(&short) {
            Ok(short) => drop(headers.insert(TEXT, short)),
            Err(_) => drop(headers.remove(TEXT)),
        }
    }
    if headers.get(DETAILS).is_some_and(|details| details.len() > MAX_TEXT_BYTES) {
        headers.remove(DETAILS);
    }
}

/// Cuts a percent-encoded text before the character that crosses the bound.
fn shorten(encoded: &[u8]) -> Vec<u8> {
    let mut end = MAX_TEXT_BYTES - CUT.len();
    // Not inside of an escape, and not inside of a character of several bytes: those are escaped, each byte by itself.
    while end > 0 && (encoded[end - 1] == b'%' || (end > 1 && encoded[end - 2] == b'%')) {
        end -= 1;
    }
    let continues = |at: usize| {
        let escape = encoded.get(at..at + 3).filter(|escape| escape[0] == b'%');
        escape.is_some_and(|escape| matches!(escape[1], b'8' | b'9' | b'A' | b'B' | b'a' | b'b'))
    };
    while end >= 3 && continues(end) {
        end -= 3;
    }
    [&encoded[..end], CUT.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        for text in ["x".repeat(100_000), "ä€𝄞\n".repeat(10_000), format!("a{}", "€".repeat(10_000))] {
            let mut headers = tonic::Status::internal(text.clone()).into_http::<()>().headers().clone();
            assert!(headers[TEXT].len() > MAX_TEXT_BYTES);
            shorten_error(&mut headers);
            assert!(headers[TEXT].len() <= MAX_TEXT_BYTES);
            let read = tonic::Status::from_header_map(&headers).unwrap();
            let (begin, _) = read.message().split_once("\n… (the message is longer)").expect("it says so");
            assert!(text.starts_with(begin) && begin.len() > 1000, "{:?}", &begin[begin.len().saturating_sub(20)..]);
        }
        let mut short = tonic::Status::internal("short").into_http::<()>().headers().clone();
        shorten_error(&mut short);
        assert_eq!(short[TEXT], "short");
    }
}
