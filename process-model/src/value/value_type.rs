//! The types that definitions declare, and which values belong to them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::data::{EXACT_INTEGER, Value, is_exact};
use super::file_reference::FileRef;
use super::shared_ref::SharedKind;
use crate::xml::trim;

/// The declared type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Type {
    /// 64-bit integer.
    Int,
    /// Double precision.
    Float,
    /// True or false.
    Boolean,
    /// Unicode text.
    String,
    /// Any bytes.
    Bytes,
    /// A list of any values.
    List,
    /// A map from text to any values.
    Map,
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A shared object.
    Shared(SharedKind),
}

impl Type {
    /// All types with their names in definitions.
    pub const ALL: [(&'static str, Type); 13] = [
        ("int", Type::Int),
        ("float", Type::Float),
        ("boolean", Type::Boolean),
        ("string", Type::String),
        ("bytes", Type::Bytes),
        ("list", Type::List),
        ("map", Type::Map),
        ("file", Type::File),
        ("directory", Type::Directory),
        ("RemoteSet", Type::Shared(SharedKind::Set)),
        ("RemoteList", Type::Shared(SharedKind::List)),
        ("RemoteMap", Type::Shared(SharedKind::Map)),
        ("RemoteCounter", Type::Shared(SharedKind::Counter)),
    ];

    /// Returns the type called `name`.
    pub fn from_name(name: &str) -> Option<Type> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, ty)| *ty)
    }

    /// Returns the name in definitions.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, ty)| *ty == self).map_or("?", |(name, _)| name)
    }

    /// Returns the value as this type: unchanged, or converted where the conversion loses nothing.
    pub fn accept(self, value: Value) -> Result<Value, String> {
        let accepted = match (self, value) {
            (Type::Int, Value::Float(f)) => return exact_int(f).map(Value::Int),
            (Type::Float, Value::Int(i)) if is_exact(i) => Value::Float(i as f64),
            (Type::Float, Value::Int(i)) => return Err(format!("{i} is not exact as a float")),
            (Type::Bytes, Value::Str(text)) => Value::Bytes(text.as_bytes().into()),
            // `{}` in Lua is an empty list and an empty map.
            (Type::Map, Value::List(items)) if items.is_empty() => Value::Map(Arc::default()),
            (Type::File, Value::Str(uri)) => Value::File(Arc::new(FileRef::outside(uri, false))),
            (Type::Directory, Value::Str(uri)) => Value::File(Arc::new(FileRef::outside(uri, true))),
            (_, value) => value,
        };
        let fits = match (self, &accepted) {
            (Type::Int, Value::Int(_))
            | (Type::Float, Value::Float(_))
            | (Type::Boolean, Value::Bool(_))
            | (Type::String, Value::Str(_))
            | (Type::Bytes, Value::Bytes(_))
            | (Type::List, Value::List(_))
            | (Type::Map, Value::Map(_)) => true,
            (Type::File, Value::File(file)) => !file.directory,
            (Type::Directory, Value::File(file)) => file.directory,
            (Type::Shared(kind), Value::Shared(object)) => kind == object.kind,
            _ => false,
        };
        if fits { Ok(accepted) } else { Err(format!("expected {}, got {}", self.name(), accepted.describe())) }
    }

    /// Parses a literal of a definition or of the command line.
    pub fn parse(self, text: &str) -> Result<Value, String> {
        let expected = || format!("expected {}, got {text:?}", self.name());
        match self {
            Type::Int => trim(text).parse().map(Value::Int).map_err(|_| expected()),
            Type::Float => trim(text).parse().map(Value::Float).map_err(|_| expected()),
            Type::Boolean => match trim(text) {
                "true" => Ok(Value::Bool(true)),
                "false" => Ok(Value::Bool(false)),
                _ => Err(expected()),
            },
            Type::String | Type::Bytes | Type::File | Type::Directory => self.accept(Value::from(text)),
            Type::List | Type::Map => {
                let json: serde_json::Value = serde_json::from_str(text)
                    .map_err(|error| format!("expected {} in JSON notation: {error}", self.name()))?;
                self.accept(Value::try_from(json)?)
            }
            Type::Shared(kind) => {
                Err(format!("a {0} has no literal: code creates it with {0}.new()", kind.type_name()))
            }
        }
    }
}

fn exact_int(f: f64) -> Result<i64, String> {
    if f.fract() != 0.0 {
        return Err(format!("expected int, got {f}"));
    }
    if f.abs() > EXACT_INTEGER as f64 {
        return Err(format!("{f} is beyond the exact integers of Lua (2^53): compute it with int64"));
    }
    Ok(f as i64)
}
