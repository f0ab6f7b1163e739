//! The line with which a program calls a shared object. Reading it takes two steps: the first finds out what the call is and how
//! many values it has, and allocates nothing for its arguments. The second reads the arguments. Pure.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value as Json;

/// Upper bound on the values in the arguments of a call, those in lists and maps included.
const MAX_VALUES: usize = 2 << 20;

/// The object that a call names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CalledObject {
    Number(u64),
    Name(String),
}

/// A call without its arguments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CallHead {
    pub object: Option<CalledObject>,
    pub method: Option<String>,
    /// Number of arguments.
    pub arguments: usize,
}

impl CallHead {
    pub fn read(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|error| match error.is_data() {
            true => format!("the call cannot be read: {error}"),
            false => format!("the call is not JSON: {error}"),
        })
    }
}

/// The arguments of a call whose head was read.
pub(super) fn read_arguments(line: &[u8]) -> Result<Vec<Json>, String> {
    #[derive(Deserialize)]
    struct CallArguments {
        #[serde(default)]
        arguments: Option<Vec<Json>>,
    }
    let read: CallArguments =
        serde_json::from_slice(line).map_err(|error| format!("the call cannot be read: {error}"))?;
    Ok(read.arguments.unwrap_or_default())
}

impl<'de> Deserialize<'de> for CallHead {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct HeadVisitor;
        impl<'de> Visitor<'de> for HeadVisitor {
            type Value = CallHead;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object with \"object\", \"method\" and \"arguments\"")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<CallHead, A::Error> {
                let (mut head, mut values) = (CallHead::default(), 0);
                while let Some(key) = members.next_key::<String>()? {
                    match key.as_str() {
                        "object" => head.object = Some(members.next_value()?),
                        "method" => head.method = Some(members.next_value()?),
                        "arguments" => head.arguments = members.next_value_seed(ArgumentCount(&mut values))?,
                        _ => drop(members.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(head)
            }
        }
        from.deserialize_map(HeadVisitor)
    }
}

impl<'de> Deserialize<'de> for CalledObject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;
        impl Visitor<'_> for ObjectVisitor {
            type Value = CalledObject;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("the name or the number of a shared object")
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<CalledObject, E> {
                Ok(CalledObject::Number(number))
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<CalledObject, E> {
                Ok(CalledObject::Name(name.to_owned()))
            }
        }
        from.deserialize_any(ObjectVisitor)
    }
}

/// Counts the arguments, and adds the values in them to a sum.
struct ArgumentCount<'a>(&'a mut usize);

impl<'de> DeserializeSeed<'de> for ArgumentCount<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<usize, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ArgumentCount<'_> {
    type Value = usize;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of arguments")
    }

    fn visit_unit<E: de::Error>(self) -> Result<usize, E> {
        Ok(0)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<usize, A::Error> {
        let mut count = 0;
        while items.next_element_seed(ValueCount(self.0))?.is_some() {
            count += 1;
        }
        Ok(count)
    }
}

/// Adds a value and the values in it to a sum. serde_json refuses documents that nest deeper than 128, which bounds the
/// recursion.
struct ValueCount<'a>(&'a mut usize);

impl<'de> DeserializeSeed<'de> for ValueCount<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        *self.0 += 1;
        if *self.0 > MAX_VALUES {
            return Err(D::Error::custom(format!("its arguments have more than {MAX_VALUES} values")));
        }
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueCount<'_> {
    type Value = ();

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(ValueCount(self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while members.next_key::<IgnoredAny>()?.is_some() {
            members.next_value_seed(ValueCount(self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_call_says_how_many_arguments_follow() {
        let line = br#"{"object": 3, "method": "put", "arguments": ["k", [1, {"a": null}]], "other": [1]}"#;
        let head = CallHead::read(line).expect("it is a call");
        assert_eq!(head, CallHead { object: Some(CalledObject::Number(3)), method: Some("put".into()), arguments: 2 });
        assert_eq!(read_arguments(line).map(|arguments| arguments.len()), Ok(2));
        let named = CallHead::read(br#"{"object": "set", "arguments": null}"#).expect("it is a call");
        assert_eq!(named, CallHead { object: Some(CalledObject::Name("set".into())), method: None, arguments: 0 });
    }

    #[test]
    fn lines_that_are_no_calls_say_why() {
        let problem = |line: &str| CallHead::read(line.as_bytes()).expect_err("it is no call");
        assert!(problem("{").starts_with("the call is not JSON"), "{}", problem("{"));
        assert!(problem("[]").contains("expected an object with"), "{}", problem("[]"));
        assert!(problem(r#"{"object": [1]}"#).contains("the name or the number of a shared object"));
        assert!(problem(r#"{"arguments": {}}"#).contains("expected a list of arguments"));
    }

    #[test]
    fn the_values_of_a_call_are_counted_before_they_are_read() {
        let items = vec!["0"; MAX_VALUES + 1].join(",");
        for arguments in [format!("[{items}]"), format!("[[{items}]]"), format!("[{{\"a\":[{items}]}}]")] {
            let line = format!("{{\"object\":0,\"method\":\"add\",\"arguments\":{arguments}}}");
            let problem = CallHead::read(line.as_bytes()).expect_err("it has too many values");
            assert!(problem.contains("more than 2097152 values"), "{problem}");
        }
    }
}
