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
        text += "_xv_write() {\n  {\n";
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
        let _ = writeln!(text, "  }} > {assigned}\n}}");
        text += TRAPS;
        // Shells other than bash do not let functions have the names of such commands.
        text += if language == Language::Bash { "trap() { _xv_trap \"$@\"; }\n" } else { "alias trap=_xv_trap\n" };
    }
    if !activity.launch.relaxed {
        text += "command set -o pipefail 2>/dev/null || :\nset -eu\n";
    }
    let _ = writeln!(text, ". {}", quoted(&workdir.script().to_string_lossy()));
    if assigned_outs(activity).next().is_some() {
        text += "_xv_last\n";
    }
    text
}

/// Writes the results at the end, wherever the code ends, and before and after the trap that the code itself sets for the end.
/// That trap is `_xv_exit`. Subshells have their own traps.
const TRAPS: &str = r#"_xv_exit=
_xv_status() { return "$1"; }
_xv_last() {
  _xv_code=$?
  set +eu
  _xv_write
  [ -n "$_xv_exit" ] || _xv_write() { :; }
  exit "$_xv_code"
}
_xv_end() {
  _xv_code=$?
  command trap - EXIT
  set +eu
  _xv_write
  if [ -n "$_xv_exit" ]; then
    _xv_status "$_xv_code"
    eval "$_xv_exit"
    _xv_write
  fi
  exit "$_xv_code"
}
_xv_trap() {
  [ "${1-}" != -- ] || shift
  case $#,${1-}," $* " in
    0,*|*,-[a-zA-Z]*,*) ;;
    *" EXIT "*|*" exit "*|*" SIGEXIT "*|*" 0 "*)
      read -r _xv_process _xv_rest < /proc/self/stat || _xv_process=$$
      if [ "$_xv_process" = $$ ]; then
        if [ $# = 1 ]; then _xv_action=-; else _xv_action=$1; shift; fi
        while [ $# -gt 0 ]; do
          case $1 in
            EXIT|exit|SIGEXIT|0) _xv_exit=${_xv_action#-} ;;
            *) command trap -- "$_xv_action" "$1" || return ;;
          esac
          shift
        done
        return
      fi ;;
  esac
  if [ $# = 0 ]; then command trap; return; fi
  case $1 in
    -[a-zA-Z]*) command trap "$@" ;;
    *) command trap -- "$@" ;;
  esac
}
trap _xv_end EXIT
"#;

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
    let mut fields = bytes.split(|byte| *byte == 0);
    // What follows the last NUL is no field.
    fields.next_back();
    let mut assigned = Assigned::new();
    let mut next = || fields.next();
    while let Some(name) = next() {
        let result = match next() {
            Some(b"s") => next().map(Field::Text),
            Some(b"a") => {
                let count = next().and_then(|count| std::str::from_utf8(count).ok()?.parse::<usize>().ok());
                // The iterator bounds how many there are.
                count.and_then(|count| (0..count).map(|_| next()).collect::<Option<Vec<_>>>().map(Field::Items))
            }
            _ => None,
        };
        let result = result.ok_or("the shell did not write all of them")?;
        let Some(out) = assigned_outs(activity).find(|out| out.name.as_bytes() == name) else { continue };
        let same = |value: &Value, text: &[u8]| shell_text(value).as_bytes() == text;
        let value = match (result, out.before(staged)) {
            (Field::Text(text), Some(before)) if same(before, text) => Ok(before.clone()),
            (Field::Items(texts), Some(Value::List(items)))
                if items.len() == texts.len() && items.iter().zip(&texts).all(|(item, text)| same(item, text)) =>
            {
                Ok(Value::List(items.clone()))
            }
            (Field::Text(text), _) if out.ty == Type::Bytes => Ok(bytes_from(text)),
            (Field::Text(text), _) => out.ty.parse(&String::from_utf8_lossy(text)),
            (Field::Items(texts), _) => Ok(texts.into_iter().map(word).collect::<Vec<_>>().into()),
        };
        assigned.insert(out.name.to_owned(), value);
    }
    Ok(assigned)
}

enum Field<'a> {
    Text(&'a [u8]),
    Items(Vec<&'a [u8]>),
}

/// Bytes as a shell gives them: as they are, or as `{"$bytes": …}`.
fn bytes_from(text: &[u8]) -> Value {
    let json = serde_json::from_slice::<serde_json::Value>(text).ok().filter(serde_json::Value::is_object);
    match json.and_then(|json| Value::try_from(json).ok()) {
        Some(value @ Value::Bytes(_)) => value,
        _ => Value::Bytes(text.into()),
    }
}

/// An item of an array: JSON for numbers, truth values, lists and maps, otherwise text, or bytes that are no text. An integer
/// with more than 64 bits is no number of a process.
fn word(text: &[u8]) -> Value {
    let Ok(text) = std::str::from_utf8(text) else { return Value::Bytes(text.into()) };
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<i64>().is_err() {
        return Value::from(text);
    }
    let json = serde_json::from_str::<serde_json::Value>(text).ok().filter(|json| !json.is_string() && !json.is_null());
    json.and_then(|json| Value::try_from(json).ok()).unwrap_or_else(|| Value::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_arrays_are_numbers_where_they_look_like_numbers() {
        let words = ["7", "1.5", "true", "007", "a b", "[1]", "\"x\"", "null", "", "12345678901234567890123"];
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
            Value::from("12345678901234567890123"),
        ];
        assert_eq!(words.map(|text| word(text.as_bytes())), expected);
        assert_eq!(word(b"\xff"), Value::Bytes([255].as_slice().into()));
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }

    #[test]
    fn bytes_of_shells_stay_as_they_are() {
        for (text, expected) in [
            (&b"\xff\xfe"[..], &[255, 254][..]),
            (b"{\"$bytes\":\"fffe\"}", &[255, 254]),
            (b"{\"$bytes\":\"no\"}", b"{\"$bytes\":\"no\"}"),
            (b"ab", b"ab"),
        ] {
            assert_eq!(bytes_from(text), Value::Bytes(expected.into()));
        }
    }
}
