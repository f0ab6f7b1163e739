//! Names that authors write: which are legal, and expressions that are nothing but a name.

use crate::script::NameUse;

/// Upper bound on the length of the name of an element, parameter or type.
pub(super) const MAX_NAME: usize = 128;

/// `continue` and `goto` are keywords in some versions of Lua only; names avoid them in all.
const KEYWORDS: [&str; 23] = [
    "and", "break", "continue", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in", "local",
    "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// True for a keyword of Lua.
fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

/// True if Lua reads the text as one identifier.
fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !is_keyword(text)
}

/// Checks the name of an element, parameter, case or axis. The error is a message and advice.
pub(super) fn check_name(name: &str) -> Result<(), (String, &'static str)> {
    check_letters(name, "_", "use letters, digits and _, beginning with a letter")?;
    if is_keyword(name) {
        return Err((format!("{name:?} is a keyword of Lua and cannot be a name"), "choose another name"));
    }
    if name.starts_with("_xv") {
        return Err((format!("{name:?} begins with _xv, which is reserved for Xavantes"), "choose another name"));
    }
    Ok(())
}

/// Checks the name of a type.
pub(super) fn check_type_name(name: &str) -> Result<(), (String, &'static str)> {
    check_letters(name, "_.-", "use letters, digits and _ . -, beginning with a letter")
}

fn check_letters(name: &str, special: &str, help: &'static str) -> Result<(), (String, &'static str)> {
    if name.len() > MAX_NAME {
        return Err((format!("the name is longer than {MAX_NAME} characters"), "choose a shorter name"));
    }
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !begins || !name.chars().all(|c| c.is_ascii_alphanumeric() || special.contains(c)) {
        let message = if name.is_empty() { "the name is empty".into() } else { format!("{name:?} is not a name") };
        return Err((message, help));
    }
    Ok(())
}

/// Reads an expression that is nothing but `name` or `name.field`; `None` for any other text.
pub(super) fn single_name(text: &str) -> Option<NameUse> {
    let trimmed = text.trim();
    let (name, field) = trimmed.split_once('.').map_or((trimmed, None), |(name, field)| (name, Some(field)));
    if !is_identifier(name) || !field.is_none_or(is_identifier) {
        return None;
    }
    let start = text.len() - text.trim_start().len();
    let end = start + name.len();
    let field = field.map(|field| (field.to_owned(), end + 1..end + 1 + field.len()));
    let (name, inner) = (name.to_owned(), Vec::new());
    Some(NameUse { name, at: start..end, field, inner, writes_inside: false, write: false, read: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_identifiers_of_lua_that_xavantes_does_not_reserve() {
        for right in ["a", "_x", "Fit2", "xv"] {
            assert!(check_name(right).is_ok(), "{right}");
        }
        for wrong in ["", "2a", "a-b", "a.b", "end", "_xv1", "é", "a b"] {
            assert!(check_name(wrong).is_err(), "{wrong}");
        }
        assert!(check_name(&"a".repeat(129)).is_err());
        assert!(check_type_name("My.Type-2").is_ok());
    }
}
