//! Values and texts of cache entries, short enough for people.

use xavantes_model::value::Value;

/// Upper bound on the characters of a shown parameter.
pub(super) const MAX_SHOWN_CHARS: usize = 60;

/// What people see of a secret value.
pub(crate) const HIDDEN: &str = "(hidden)";

/// Shortens a text for people.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// A value for people. Reads no more of a large value than it shows.
pub(crate) fn show_value(value: &Value) -> String {
    // A character has at most four bytes.
    const ENOUGH_BYTES: usize = 4 * MAX_SHOWN_CHARS + 4;
    fn write(value: &Value, text: &mut String) {
        if text.len() > ENOUGH_BYTES {
            return;
        }
        match value {
            Value::Str(long) => {
                let begin: String = long.chars().take(MAX_SHOWN_CHARS + 1).collect();
                *text += &json_text(&begin);
            }
            Value::Bytes(bytes) => *text += &format!("bytes ({})", bytes.len()),
            Value::List(items) => {
                *text += "[";
                for (number, item) in items.iter().take(MAX_SHOWN_CHARS).enumerate() {
                    *text += if number > 0 { "," } else { "" };
                    write(item, text);
                }
                *text += "]";
            }
            Value::Map(map) => {
                *text += "{";
                for (number, (key, item)) in map.iter().take(MAX_SHOWN_CHARS).enumerate() {
                    *text += if number > 0 { "," } else { "" };
                    *text += &format!("{}:", json_text(&key.chars().take(MAX_SHOWN_CHARS).collect::<String>()));
                    write(item, text);
                }
                *text += "}";
            }
            Value::File(file) => {
                *text += &shorten(&file.uri);
                if let Some(content) = &file.content {
                    *text += &format!(" ({}, {} bytes)", content.digest.short(), content.size);
                }
            }
            simple => *text += &simple.to_json().to_string(),
        }
    }
    let mut text = String::new();
    write(value, &mut text);
    shorten(&text)
}

fn json_text(text: &str) -> String {
    Value::from(text).to_json().to_string()
}
