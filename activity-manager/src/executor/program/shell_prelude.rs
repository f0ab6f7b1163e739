//! Preludes of shells: variables are texts, lists are arrays where the shell has them, and results are texts that the declared
//! type reads. Pure.

use std::fmt::Write;

use xavantes_model::definition::{ActivityType, Language};
use xavantes_model::value::{Type, Value};

use super::assigned_outs::{Assigned, AssignedOut, assigned_outs};
use super::attempt_directories::WorkDir;

/// What the shell runs.
pub(super) fn prelude(language: Language, activity: &ActivityType, parameters: &[Value], workdir: &WorkDir) -> String {
    let mut text = String::new();
    for (variable, value) in activity.parameters.iter().zip(parameters).filter(|(it, _)| it.direction.is_in()) {
        let name = &variable.name;
        match value {
            Value::Null | Value::Shared(_) => {}
            // Writing to a string cannot fail.
            Value::List(items) if language == Language::Bash => {
                let items: Vec<String> = items.iter().map(|item| quoted(&shell_text(item))).collect();
                let _ = writeln!(text, "unset -v {name}; {name}=({})", items.join(" "));
            }
            value => {
                let _ = writeln!(text, "{name}={}", quoted(&shell_text(value)));
            }
        }
    }
    let outs: Vec<AssignedOut> = assigned_outs(activity).collect();
    if !outs.is_empty() {
        // A variable of the environment is no result.
        for (slot, variable) in activity.parameters.iter().enumerate() {
            if activity.is_assigned(slot) && !variable.direction.is_in() {
                let _ = writeln!(text, "unset -v {}", variable.name);
            }
        }
        text += "_xv_end() {\n  _xv_status=$?\n  trap - EXIT\n  set +eu\n  {\n";
        for AssignedOut { name, ty, .. } in outs {
            let _ = match (language, ty) {
                (Language::Bash, Type::List) => writeln!(
                    text,
                    "    case $(declare -p {name} 2>/dev/null) in\n      'declare -a'*) printf '%s\\0' {name} a \
                     \"${{#{name}[@]}}\" ${{{name}[@]+\"${{{name}[@]}}\"}} ;;\n      ?*) printf '%s\\0' {name} s \
                     \"${name}\" ;;\n    esac"
                ),
                _ => writeln!(text, "    [ -z \"${{{name}+x}}\" ] || printf '%s\\0' {name} s \"${name}\""),
            };
        }
        let assigned = quoted(&workdir.assigned().to_string_lossy());
        let _ = writeln!(text, "  }} > {assigned}\n  exit $_xv_status\n}}\ntrap _xv_end EXIT");
    }
    if !activity.launch.relaxed {
        text += "command set -o pipefail 2>/dev/null || :\nset -eu\n";
    }
    let _ = writeln!(text, ". {}", quoted(&workdir.script().to_string_lossy()));
    if assigned_outs(activity).next().is_some() {
        // Also if the code set a trap of its own.
        text += "_xv_end\n";
    }
    text
}

/// A value as text. Bytes that are no text look like in JSON.
fn shell_text(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => {
            std::str::from_utf8(bytes).map_or_else(|_| value.to_string(), |text| text.replace('\0', ""))
        }
        other => other.to_string(),
    }
}

/// A word that the shell reads as this text. No variable of a shell can hold NUL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\0', "").replace('\'', r"'\''"))
}

/// Reads what the shell wrote: fields that end with NUL. A scalar is a name, `s` and a text. An array is a name, `a`, its length
/// and its texts.
pub(super) fn read_assigned(activity: &ActivityType, staged: &[Value], bytes: &[u8]) -> Result<Assigned, String> {
    let text = String::from_utf8_lossy(bytes);
    let mut fields = text.split_terminator('\0');
    let mut assigned = Assigned::new();
    let mut next = || fields.next();
    while let Some(name) = next() {
        let result = match next() {
            Some("s") => next().map(Field::Text),
            Some("a") => {
                let count: Option<usize> = next().and_then(|count| count.parse().ok());
                // The iterator bounds how many there are.
                count.and_then(|count| (0..count).map(|_| next()).collect::<Option<Vec<_>>>().map(Field::Items))
            }
            _ => None,
        };
        let result = result.ok_or("the shell did not write all of them")?;
        let Some(out) = assigned_outs(activity).find(|out| out.name == name) else { continue };
        let value = match (result, out.before(staged)) {
            (Field::Text(text), Some(before)) if shell_text(before) == text => Ok(before.clone()),
            (Field::Items(texts), Some(Value::List(items)))
                if items.iter().map(shell_text).eq(texts.iter().copied()) =>
            {
                Ok(Value::List(items.clone()))
            }
            (Field::Text(text), _) => out.ty.parse(text),
            (Field::Items(texts), _) => Ok(texts.into_iter().map(word).collect::<Vec<_>>().into()),
        };
        assigned.insert(name.to_owned(), value);
    }
    Ok(assigned)
}

enum Field<'a> {
    Text(&'a str),
    Items(Vec<&'a str>),
}

/// An item of an array: JSON for numbers, truth values, lists and maps, otherwise text.
fn word(text: &str) -> Value {
    let json = serde_json::from_str::<serde_json::Value>(text).ok().filter(|json| !json.is_string() && !json.is_null());
    json.and_then(|json| Value::try_from(json).ok()).unwrap_or_else(|| Value::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_arrays_are_numbers_where_they_look_like_numbers() {
        let words = ["7", "1.5", "true", "007", "a b", "[1]", "\"x\"", "null", ""];
        let expected = [
            Value::Int(7),
            Value::Float(1.5),
            Value::Bool(true),
            Value::from("007"),
            Value::from("a b"),
            vec![Value::Int(1)].into(),
            Value::from("\"x\""),
            Value::from("null"),
            Value::from(""),
        ];
        assert_eq!(words.map(word), expected);
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
