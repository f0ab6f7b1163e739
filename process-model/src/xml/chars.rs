//! Characters as XML 1.0 classifies them, and white space as XML defines it.

/// Strips the white space around `text`. Only space, tab, carriage return and line feed are white space in XML; other
/// Unicode spaces are ordinary characters.
pub fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\r', '\n'])
}

/// True if `text` consists of XML white space only.
pub fn is_blank(text: &str) -> bool {
    text.bytes().all(is_space)
}

pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// XML 1.0, production 2 (`Char`); a Rust `char` is never a surrogate.
pub(super) fn is_xml_char(c: char) -> bool {
    !matches!(c, '\0'..='\x08' | '\x0B' | '\x0C' | '\x0E'..='\x1F' | '\u{FFFE}' | '\u{FFFF}')
}

/// XML 1.0 (fifth edition), production 4 (`NameStartChar`).
pub(super) fn is_name_start(c: char) -> bool {
    matches!(c, ':' | '_' | 'A'..='Z' | 'a'..='z' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
        | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}' | '\u{200D}' | '\u{2070}'..='\u{218F}'
        | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
        | '\u{10000}'..='\u{EFFFF}')
}

/// XML 1.0 (fifth edition), production 4a (`NameChar`).
pub(super) fn is_name_char(c: char) -> bool {
    is_name_start(c) || matches!(c, '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}' | '\u{2040}')
}

/// Shortens a quotation from the document so that it fits in a message.
pub(super) fn clip(written: &str) -> String {
    match written.char_indices().nth(40) {
        None => written.to_owned(),
        Some((at, _)) => format!("{}…", &written[..at]),
    }
}
