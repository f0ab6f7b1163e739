//! Finds expressions that certainly do not have the type of their parameter.

use super::template::{closing, string_end};
use crate::value::{Type, Value};

/// True if a value of type `given` may have a value of type `expected`, at least for some values.
pub(super) fn fits(given: Type, expected: Type) -> bool {
    given == expected
        || matches!(
            (given, expected),
            (Type::Int, Type::Float)
                | (Type::Float, Type::Int)
                | (Type::String, Type::Bytes | Type::File | Type::Directory)
        )
}

/// Explains why a literal of Lua does not have the type `ty`. Returns `None` if it has, or if the expression is no
/// literal.
pub(super) fn wrong_literal(text: &str, ty: Type, may_be_nil: bool) -> Option<String> {
    let bytes = text.as_bytes();
    let value = match bytes.first()? {
        b'{' if closing(bytes, 1) == Some(bytes.len() - 1) => {
            return (!matches!(ty, Type::List | Type::Map)).then(|| format!("expected {}, got a table", ty.name()));
        }
        b'\'' | b'"' if string_end(bytes, 0) == Some(bytes.len() - 1) => Value::from(&text[1..text.len() - 1]),
        b'0'..=b'9' | b'-' | b'.' => {
            let number: f64 = text.replace('_', "").parse().ok()?;
            match number.fract() == 0.0 && number.abs() < 1e15 {
                true => Value::Int(number as i64),
                false => Value::Float(number),
            }
        }
        _ => match text {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "nil" if may_be_nil => return None,
            "nil" => Value::Null,
            _ => return None,
        },
    };
    ty.accept(value).err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_of_lua_are_checked_against_types() {
        for (text, ty, wrong) in [
            ("5", Type::Int, false),
            ("5.5", Type::Int, true),
            ("-1e3", Type::Int, false),
            ("1_000", Type::Float, false),
            ("5", Type::String, true),
            ("'a'", Type::String, false),
            ("'a'", Type::File, false),
            ("\"a\"", Type::Int, true),
            ("'a' .. 'b'", Type::Int, false),
            ("{1, '}'}", Type::Int, true),
            ("{1}", Type::List, false),
            ("{1}[1]", Type::Int, false),
            ("true", Type::Boolean, false),
            ("true", Type::List, true),
            ("nil", Type::Int, true),
            ("-x", Type::String, false),
            ("", Type::Int, false),
            ("é", Type::Int, false),
        ] {
            assert_eq!(wrong_literal(text, ty, false).is_some(), wrong, "{text} as {}", ty.name());
        }
        assert_eq!(wrong_literal("nil", Type::Int, true), None);
    }
}
