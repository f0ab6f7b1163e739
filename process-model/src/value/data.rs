//! [`Value`]: what a parameter holds, with traversal, conversion, equality and order.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::file_reference::FileRef;
use super::shared_ref::SharedRef;

/// Upper bound on the nesting of lists and maps, so that walking a value cannot exhaust the stack.
pub const MAX_VALUE_DEPTH: usize = 30;

/// Largest magnitude up to which every integer is exact as a Lua number.
pub const EXACT_INTEGER: i64 = 1 << 53;

/// True if a Lua number holds this integer exactly.
pub fn is_exact(i: i64) -> bool {
    i.unsigned_abs() <= EXACT_INTEGER.unsigned_abs()
}

/// A map from text to values, sorted by key.
pub type Map = BTreeMap<Arc<str>, Value>;

/// Bytes of a value beside its content.
const VALUE_BYTES: u64 = size_of::<Value>() as u64;

/// One value of a parameter.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub enum Value {
    /// No value: never set, or set to `nil`.
    #[default]
    Null,
    /// `boolean`.
    Bool(bool),
    /// `int`.
    Int(i64),
    /// `float`.
    Float(f64),
    /// `string`: text.
    Str(Arc<str>),
    /// `bytes`: any bytes.
    Bytes(Arc<[u8]>),
    /// `list`.
    List(Arc<Vec<Value>>),
    /// `map`.
    Map(Arc<Map>),
    /// `file` or `directory`: a reference to bytes that are stored elsewhere.
    File(Arc<FileRef>),
    /// A reference to a shared object.
    Shared(SharedRef),
}

impl Value {
    /// Describes type and content for messages: `int 5`, `string "abc"`, `list of 3`.
    pub fn describe(&self) -> String {
        match self {
            Value::Null => "nothing".into(),
            Value::Bool(b) => format!("boolean {b}"),
            Value::Int(i) => format!("int {i}"),
            Value::Float(f) => format!("float {f}"),
            Value::Str(s) if s.chars().count() > 40 => {
                format!("string {:?}…", s.chars().take(40).collect::<String>())
            }
            Value::Str(s) => format!("string {s:?}"),
            Value::Bytes(b) => format!("bytes ({})", b.len()),
            Value::List(l) => format!("list of {}", l.len()),
            Value::Map(m) => format!("map of {}", m.len()),
            Value::File(f) => format!("{} {}", if f.directory { "directory" } else { "file" }, f.uri),
            Value::Shared(object) => object.kind.type_name().into(),
        }
    }

    /// Bytes that the value takes, approximately. Parts that it shares with other values count in each of them, as they do
    /// where values are stored.
    pub fn bytes(&self) -> u64 {
        let content = match self {
            Value::Str(text) => text.len() as u64,
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::List(items) => items.iter().map(Value::bytes).sum(),
            Value::Map(map) => map.iter().map(|(key, item)| VALUE_BYTES + key.len() as u64 + item.bytes()).sum(),
            Value::File(file) => VALUE_BYTES + file.uri.len() as u64,
            _ => 0,
        };
        VALUE_BYTES + content
    }

    /// True for `Null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Calls `visit` for every reference to a shared object, at any depth.
    pub fn each_shared(&self, visit: &mut impl FnMut(&SharedRef)) {
        match self {
            Value::Shared(object) => visit(object),
            Value::List(items) => items.iter().for_each(|item| item.each_shared(visit)),
            Value::Map(map) => map.values().for_each(|item| item.each_shared(visit)),
            _ => {}
        }
    }

    /// Calls `visit` for every reference to a file or directory, at any depth.
    pub fn each_file(&self, visit: &mut impl FnMut(&Arc<FileRef>)) {
        match self {
            Value::File(file) => visit(file),
            Value::List(items) => items.iter().for_each(|item| item.each_file(visit)),
            Value::Map(map) => map.values().for_each(|item| item.each_file(visit)),
            _ => {}
        }
    }

    /// Returns how deep lists and maps nest in this value; a simple value has depth 0.
    pub fn depth(&self) -> usize {
        match self {
            Value::List(items) => 1 + items.iter().map(Value::depth).max().unwrap_or(0),
            Value::Map(map) => 1 + map.values().map(Value::depth).max().unwrap_or(0),
            _ => 0,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::Str(text.into())
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Self {
        Value::Int(i)
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Value::List(Arc::new(items))
    }
}

/// Floats are equal if their bits are, so that a `NaN` equals itself and replayed states compare equal.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Int(a), Value::Int(b)) => a == b,
            (Value::Float(a), Value::Float(b)) => a.to_bits() == b.to_bits(),
            (Value::Str(a), Value::Str(b)) => a == b,
            (Value::Bytes(a), Value::Bytes(b)) => a == b,
            (Value::List(a), Value::List(b)) => Arc::ptr_eq(a, b) || a == b,
            (Value::Map(a), Value::Map(b)) => Arc::ptr_eq(a, b) || a == b,
            (Value::File(a), Value::File(b)) => a == b,
            (Value::Shared(a), Value::Shared(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

/// A total order, so that values can be members of sets and keys of maps: first by kind, then by content.
impl Ord for Value {
    fn cmp(&self, other: &Self) -> Ordering {
        fn rank(value: &Value) -> u8 {
            match value {
                Value::Null => 0,
                Value::Bool(_) => 1,
                Value::Int(_) => 2,
                Value::Float(_) => 3,
                Value::Str(_) => 4,
                Value::Bytes(_) => 5,
                Value::List(_) => 6,
                Value::Map(_) => 7,
                Value::File(_) => 8,
                Value::Shared(_) => 9,
            }
        }
        match (self, other) {
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Int(a), Value::Int(b)) => a.cmp(b),
            (Value::Float(a), Value::Float(b)) => a.total_cmp(b),
            (Value::Str(a), Value::Str(b)) => a.cmp(b),
            (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (Value::List(a), Value::List(b)) => a.cmp(b),
            (Value::Map(a), Value::Map(b)) => a.cmp(b),
            (Value::File(a), Value::File(b)) => a.cmp(b),
            (Value::Shared(a), Value::Shared(b)) => a.cmp(b),
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Str(s) => f.write_str(s),
            other => write!(f, "{}", other.to_json()),
        }
    }
}
