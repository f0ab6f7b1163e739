//! Values as JSON and back, without loss.

use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::data::{MAX_VALUE_DEPTH, Value};
use super::file_reference::{Content, FileRef, MAX_HOLDERS};
use super::value_type::Type;

impl Value {
    /// Converts to JSON. Values that JSON lacks become an object with one key that begins with `$`: `{"$bytes":
    /// "<hex>"}`, `{"$float": "NaN"}`, `{"$file": uri}`, `{"$directory": uri}`, `{"$shared": …}`. Files and directories
    /// whose content the grid stores have more members: `{"$file": {"name": …, "digest": …, "size": …, "holders":
    /// […]}}`.
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Null => Json::Null,
            Value::Bool(b) => Json::Bool(*b),
            Value::Int(i) => json!(i),
            Value::Float(f) if f.is_finite() => json!(f),
            Value::Float(f) => json!({ "$float": f.to_string() }),
            Value::Str(s) => json!(s),
            Value::Bytes(b) => json!({ "$bytes": b.iter().map(|b| format!("{b:02x}")).collect::<String>() }),
            Value::List(items) => items.iter().map(Value::to_json).collect(),
            Value::Map(map) => Json::Object(map.iter().map(|(k, v)| (k.to_string(), v.to_json())).collect()),
            Value::File(file) => {
                let Content { digest, size, executable, holders } = match &file.content {
                    None => return json!({ kind_key(file.directory): file.uri }),
                    Some(content) => content,
                };
                let mut known = json!({
                    "name": file.uri, "digest": digest.to_string(), "size": size, "holders": holders,
                });
                if *executable {
                    known["executable"] = json!(true);
                }
                json!({ kind_key(file.directory): known })
            }
            Value::Shared(object) => {
                json!({ "$shared": { "kind": object.kind.type_name(), "home": object.home, "id": object.id } })
            }
        }
    }
}

impl TryFrom<Json> for Value {
    type Error = String;

    /// Converts from JSON: the inverse of [`Value::to_json`], except for shared objects. A user could forge a reference
    /// to a shared object, so `{"$shared": …}` stays a plain map.
    fn try_from(json: Json) -> Result<Self, String> {
        let value = from_json(json)?;
        if value.depth() > MAX_VALUE_DEPTH {
            return Err(format!("lists and maps nest deeper than {MAX_VALUE_DEPTH}"));
        }
        Ok(value)
    }
}

// serde_json refuses documents that nest deeper than 128, which bounds this recursion.
fn from_json(json: Json) -> Result<Value, String> {
    Ok(match json {
        Json::Null => Value::Null,
        Json::Bool(b) => Value::Bool(b),
        Json::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(i), _) => Value::Int(i),
            (None, Some(f)) if n.is_f64() => Value::Float(f),
            _ => return Err(format!("{n} does not fit in 64 bits")),
        },
        Json::String(s) => Value::from(s.as_str()),
        Json::Array(items) => Value::List(Arc::new(items.into_iter().map(from_json).collect::<Result<_, _>>()?)),
        Json::Object(map) => {
            if map.len() == 1
                && let Some((key, only)) = map.iter().next()
                && let Some(special) = special(key, only)
            {
                return special;
            }
            let entries = map.into_iter().map(|(k, v)| Ok((Arc::from(k.as_str()), from_json(v)?)));
            Value::Map(Arc::new(entries.collect::<Result<_, String>>()?))
        }
    })
}

/// Reads an object with one key that begins with `$`; `None` if it is an ordinary map.
fn special(key: &str, json: &Json) -> Option<Result<Value, String>> {
    Some(match (key, json) {
        ("$float", Json::String(text)) => {
            text.parse().map(Value::Float).map_err(|_| format!("{text:?} is not a float"))
        }
        ("$bytes", Json::String(text)) => {
            hex(text).map(|bytes| Value::Bytes(bytes.into())).ok_or_else(|| format!("{text:?} is not hex"))
        }
        ("$file", Json::String(text)) => Type::File.accept(Value::from(text.as_str())),
        ("$directory", Json::String(text)) => Type::Directory.accept(Value::from(text.as_str())),
        ("$file" | "$directory", Json::Object(known)) => {
            file_from(known, key == "$directory").map(|file| Value::File(Arc::new(file)))
        }
        _ => return None,
    })
}

fn kind_key(directory: bool) -> &'static str {
    if directory { "$directory" } else { "$file" }
}

fn file_from(known: &serde_json::Map<String, Json>, directory: bool) -> Result<FileRef, String> {
    let text =
        |key: &str| known.get(key).and_then(|member| member.as_str()).ok_or_else(|| format!("a file has no {key:?}"));
    let holders = known.get("holders").and_then(|member| member.as_array()).into_iter().flatten();
    let content = Content {
        digest: text("digest")?.parse()?,
        size: known.get("size").and_then(|member| member.as_u64()).ok_or("a file has no \"size\"")?,
        executable: known.get("executable").and_then(|member| member.as_bool()).unwrap_or_default(),
        holders: holders.filter_map(|member| member.as_str()).take(MAX_HOLDERS).map(Arc::from).collect(),
    };
    Ok(FileRef { uri: text("name")?.into(), directory, content: Some(content) })
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
