//! Values as programs see them, in JSON: as everywhere, except that a shared object is a number that only the attempt knows, and
//! that integers which JavaScript cannot hold are text. Pure.

use std::collections::HashMap;

use serde_json::{Value as Json, json};
use xavantes_model::value::{MAX_VALUE_DEPTH, SharedRef, Value, is_exact};

/// Upper bound on the shared objects that one attempt can reach.
const MAX_OBJECTS: usize = 100_000;

/// The shared objects that a program may call: those in its parameters, and those that it got from calls. A program knows
/// them by number, so it cannot invent others.
#[derive(Debug, Default)]
pub(crate) struct ProgramObjects {
    known: Vec<SharedRef>,
    numbers: HashMap<SharedRef, usize>,
}

impl ProgramObjects {
    pub fn get(&self, number: u64) -> Option<&SharedRef> {
        self.known.get(usize::try_from(number).ok()?)
    }

    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Adds the shared objects of a value. `MAX_VALUE_DEPTH` bounds the recursion.
    pub fn add(&mut self, value: &Value) -> Result<(), String> {
        match value {
            Value::Shared(object) => self.number(object).map(drop),
            Value::List(items) => items.iter().try_for_each(|item| self.add(item)),
            Value::Map(map) => map.values().try_for_each(|item| self.add(item)),
            _ => Ok(()),
        }
    }

    fn number(&mut self, object: &SharedRef) -> Result<usize, String> {
        if let Some(number) = self.numbers.get(object) {
            return Ok(*number);
        }
        if self.known.len() >= MAX_OBJECTS {
            return Err(format!("the program has more than {MAX_OBJECTS} shared objects"));
        }
        self.known.push(object.clone());
        self.numbers.insert(object.clone(), self.known.len() - 1);
        Ok(self.known.len() - 1)
    }

    /// The value as JSON for the program.
    // `MAX_VALUE_DEPTH` bounds the recursion.
    pub fn encode(&mut self, value: &Value) -> Result<Json, String> {
        Ok(match value {
            Value::Int(number) if !is_exact(*number) => json!({ "$int": number.to_string() }),
            Value::List(items) => items.iter().map(|item| self.encode(item)).collect::<Result<_, _>>()?,
            Value::Map(map) => {
                let members = map.iter().map(|(key, item)| Ok((key.to_string(), self.encode(item)?)));
                Json::Object(members.collect::<Result<_, String>>()?)
            }
            Value::Shared(object) => {
                let number = self.number(object)?;
                json!({ "$shared": { "kind": object.kind.type_name(), "object": number } })
            }
            other => other.to_json(),
        })
    }

    /// The value that a program gave as JSON.
    pub fn decode(&self, json: Json) -> Result<Value, String> {
        let value = self.read(json)?;
        match value.depth() > MAX_VALUE_DEPTH {
            true => Err(format!("lists and maps nest deeper than {MAX_VALUE_DEPTH}")),
            false => Ok(value),
        }
    }

    // serde_json refuses documents that nest deeper than 128, which bounds this recursion.
    fn read(&self, json: Json) -> Result<Value, String> {
        match json {
            Json::Array(items) => {
                let items: Vec<Value> = items.into_iter().map(|item| self.read(item)).collect::<Result<_, _>>()?;
                Ok(items.into())
            }
            Json::Object(members) => {
                if members.len() == 1
                    && let Some((key, inner)) = members.iter().next()
                    && key.starts_with('$')
                {
                    match (key.as_str(), inner) {
                        ("$int", Json::String(text)) => {
                            return text.parse().map(Value::Int).map_err(|_| format!("{text} does not fit in 64 bits"));
                        }
                        ("$shared", Json::Object(reference)) => {
                            let number = reference.get("object").and_then(Json::as_u64);
                            let object = number.and_then(|number| self.get(number));
                            let object = object.ok_or("this shared object is unknown here")?;
                            return Ok(Value::Shared(object.clone()));
                        }
                        _ => return Value::try_from(Json::Object(members)),
                    }
                }
                let entries = members.into_iter().map(|(key, item)| Ok((key.as_str().into(), self.read(item)?)));
                Ok(Value::Map(std::sync::Arc::new(entries.collect::<Result<_, String>>()?)))
            }
            scalar => Value::try_from(scalar),
        }
    }
}

#[cfg(test)]
mod tests {
    use xavantes_model::value::SharedKind;

    use super::*;

    #[test]
    fn values_survive_the_way_to_a_program_and_back() {
        let set = SharedRef { kind: SharedKind::Set, home: "P-1".into(), id: 3 };
        let values = [
            Value::Int(i64::MAX),
            Value::Float(f64::INFINITY),
            Value::Bytes(vec![0, 255].into()),
            vec![Value::Shared(set.clone()), Value::Null, Value::from("x"), Value::Shared(set)].into(),
        ];
        let mut objects = ProgramObjects::default();
        for value in values {
            let json = objects.encode(&value).expect("it fits");
            assert_eq!(objects.decode(json), Ok(value));
        }
        assert_eq!(objects.known.len(), 1);
    }

    #[test]
    fn floats_keep_all_digits() {
        let objects = ProgramObjects::default();
        for number in [0.1 + 0.2, 31.245270191439438, 1.0 / 3.0, 5e-324, f64::MAX, 2.638344616030823e-256] {
            for text in [format!("{number:e}"), format!("{number:.16e}")] {
                let json = serde_json::from_str(&text).expect("it is a number");
                assert_eq!(objects.decode(json), Ok(Value::Float(number)), "{text}");
            }
        }
    }

    #[test]
    fn programs_cannot_invent_shared_objects() {
        let objects = ProgramObjects::default();
        for json in [json!({ "$shared": { "object": 0 } }), json!([{ "$shared": { "kind": "RemoteSet" } }])] {
            assert!(objects.decode(json).is_err());
        }
        assert!(objects.decode(json!({ "$int": "99999999999999999999" })).is_err());
    }
}
