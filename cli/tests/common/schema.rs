//! Validates documents by the part of JSON Schema that docs/output.schema.json uses. The crates that validate all of it
//! enable features of common dependencies, so that tests and the program would no longer share their artefacts.

use serde_json::Value as Json;

/// Keywords that say nothing about what is valid.
const ANNOTATIONS: [&str; 6] = ["$schema", "$defs", "title", "description", "format", "default"];

/// A schema with its types.
pub struct Schema(pub Json);

impl Schema {
    /// The first problem of a document that should be valid by the type of this name.
    pub fn problem(&self, name: &str, document: &Json) -> Option<String> {
        self.check(&self.0["$defs"][name], document, name).err()
    }

    fn check(&self, schema: &Json, document: &Json, place: &str) -> Result<(), String> {
        let keywords = match schema {
            Json::Bool(true) => return Ok(()),
            Json::Object(keywords) => keywords,
            other => return Err(format!("{place}: there is no such type: {other}")),
        };
        for (keyword, value) in keywords {
            let valid = |schema: &Json| self.check(schema, document, place).is_ok();
            let fits = match keyword.as_str() {
                "$ref" => {
                    let name =
                        value.as_str().and_then(|it| it.strip_prefix("#/$defs/")).expect("a type of this schema");
                    self.check(&self.0["$defs"][name], document, place)?;
                    true
                }
                "type" => types(value).any(|name| is_of(name, document)),
                "const" => value == document,
                "enum" => value.as_array().is_some_and(|values| values.contains(document)),
                "minimum" => document.as_f64() >= value.as_f64() || !document.is_number(),
                "maximum" => document.as_f64() <= value.as_f64() || !document.is_number(),
                "anyOf" => value.as_array().is_some_and(|all| all.iter().any(valid)),
                "oneOf" => value.as_array().is_some_and(|all| all.iter().filter(|schema| valid(schema)).count() == 1),
                "required" => types(value).all(|name| document.get(name).is_some() || !document.is_object()),
                "properties" => {
                    for (name, schema) in value.as_object().into_iter().flatten() {
                        if let Some(member) = document.get(name) {
                            self.check(schema, member, &format!("{place}.{name}"))?;
                        }
                    }
                    true
                }
                "additionalProperties" => {
                    let named = |name: &String| schema["properties"].get(name).is_some();
                    for (name, member) in document.as_object().into_iter().flatten().filter(|(name, _)| !named(name)) {
                        self.check(value, member, &format!("{place}.{name}"))?;
                    }
                    true
                }
                "items" => {
                    for (index, item) in document.as_array().into_iter().flatten().enumerate() {
                        self.check(value, item, &format!("{place}[{index}]"))?;
                    }
                    true
                }
                other => {
                    assert!(ANNOTATIONS.contains(&other), "{place}: the keyword {other} is not supported here");
                    true
                }
            };
            if !fits {
                return Err(format!("{place}: {document} does not fit {keyword}: {value}"));
            }
        }
        Ok(())
    }
}

/// One text or several.
fn types(value: &Json) -> impl Iterator<Item = &str> {
    value.as_str().into_iter().chain(value.as_array().into_iter().flatten().filter_map(Json::as_str))
}

fn is_of(name: &str, document: &Json) -> bool {
    match name {
        "null" => document.is_null(),
        "boolean" => document.is_boolean(),
        "integer" => document.is_i64() || document.is_u64(),
        "number" => document.is_number(),
        "string" => document.is_string(),
        "array" => document.is_array(),
        "object" => document.is_object(),
        other => panic!("{other} is no type of JSON"),
    }
}
