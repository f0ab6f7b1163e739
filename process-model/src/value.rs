//! The data that flows through a process: typed, immutable, cheap to clone.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::xml::trim;

/// Lists and maps nest no deeper than this, so that walking a value cannot exhaust the stack.
pub const MAX_VALUE_DEPTH: usize = 30;

/// Integers up to this magnitude are exact as Lua numbers.
pub const EXACT_INTEGER: i64 = 1 << 53;

/// True if a Lua number holds this integer exactly.
pub fn is_exact(i: i64) -> bool {
    i.unsigned_abs() <= EXACT_INTEGER.unsigned_abs()
}

/// A map of a process: keys are text, kept in order.
pub type Map = BTreeMap<Arc<str>, Value>;

/// One value of a parameter.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub enum Value {
    /// Nothing: not set, or set to nothing.
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
    /// `bytes`: anything.
    Bytes(Arc<[u8]>),
    /// `list`.
    List(Arc<Vec<Value>>),
    /// `map`.
    Map(Arc<Map>),
    /// `file` or `directory`: a reference to bytes that live elsewhere.
    File(Arc<FileRef>),
    /// A reference to a shared object.
    Shared(SharedRef),
}

/// A reference names so many of the nodes that hold its content, so that it stays small.
pub const MOST_HOLDERS: usize = 4;

/// Where the bytes of a `file` or `directory` parameter are to be found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileRef {
    /// `source://name/path`, or a path as the user wrote it; of kept content the name of the file.
    pub uri: Arc<str>,
    /// A whole directory rather than one file.
    pub directory: bool,
    /// What is in it, if that is known: then the grid keeps it.
    pub content: Option<Content>,
}

impl FileRef {
    /// A reference to something outside the grid.
    pub fn outside(uri: impl Into<Arc<str>>, directory: bool) -> Self {
        Self { uri: uri.into(), directory, content: None }
    }
}

/// The content of a file, or of all files of a directory, and who has it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Content {
    /// Of the bytes of a file, or of the list of what is in a directory.
    pub digest: Digest,
    /// In bytes; of a directory the sum of its files.
    pub size: u64,
    /// A program.
    pub executable: bool,
    /// Addresses of nodes that had it when the reference was made; at most [`MOST_HOLDERS`].
    pub holders: Vec<Arc<str>>,
}

impl Content {
    /// What makes it what it is. Who holds it does not.
    fn identity(&self) -> (&Digest, u64, bool) {
        (&self.digest, self.size, self.executable)
    }
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Content {}

impl Ord for Content {
    fn cmp(&self, other: &Self) -> Ordering {
        self.identity().cmp(&other.identity())
    }
}

impl PartialOrd for Content {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The kinds of shared objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SharedKind {
    /// A set of values, in their order.
    Set,
    /// A list of values.
    List,
    /// A map from simple values to values.
    Map,
    /// A number that is added to.
    Counter,
}

impl SharedKind {
    /// All kinds.
    pub const ALL: [SharedKind; 4] = [SharedKind::Set, SharedKind::List, SharedKind::Map, SharedKind::Counter];

    /// The name of its type in definitions and code.
    pub fn type_name(self) -> &'static str {
        match self {
            SharedKind::Set => "RemoteSet",
            SharedKind::List => "RemoteList",
            SharedKind::Map => "RemoteMap",
            SharedKind::Counter => "RemoteCounter",
        }
    }
}

/// Names a shared object anywhere in the grid.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SharedRef {
    /// What it is.
    pub kind: SharedKind,
    /// The process whose coordinator keeps it.
    pub home: Arc<str>,
    /// Its number there.
    pub id: u64,
}

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

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Type> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, ty)| *ty)
    }

    /// The name in definitions.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, ty)| *ty == self).map_or("?", |(name, _)| name)
    }

    /// The value as this type: unchanged, or converted where nothing is lost.
    pub fn accept(self, value: Value) -> Result<Value, String> {
        let accepted = match (self, value) {
            (Type::Int, Value::Float(f)) => return exact_int(f).map(Value::Int),
            (Type::Float, Value::Int(i)) if is_exact(i) => Value::Float(i as f64),
            (Type::Float, Value::Int(i)) => return Err(format!("{i} is not exact as a float")),
            (Type::Bytes, Value::Str(text)) => Value::Bytes(text.as_bytes().into()),
            // `{}` in Lua is both.
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

    /// A literal written in a definition or on the command line.
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

impl Value {
    /// What it is, for messages: `int 5`, `string "abc"`, `list of 3`.
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

    /// True for `Null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// Calls `visit` for every shared object referred to, at any depth.
    pub fn each_shared(&self, visit: &mut impl FnMut(&SharedRef)) {
        match self {
            Value::Shared(object) => visit(object),
            Value::List(items) => items.iter().for_each(|item| item.each_shared(visit)),
            Value::Map(map) => map.values().for_each(|item| item.each_shared(visit)),
            _ => {}
        }
    }

    /// Calls `visit` for every file and directory referred to, at any depth.
    pub fn each_file(&self, visit: &mut impl FnMut(&Arc<FileRef>)) {
        match self {
            Value::File(file) => visit(file),
            Value::List(items) => items.iter().for_each(|item| item.each_file(visit)),
            Value::Map(map) => map.values().for_each(|item| item.each_file(visit)),
            _ => {}
        }
    }

    /// How deep lists and maps nest in it; a simple value has depth 0.
    pub fn depth(&self) -> usize {
        match self {
            Value::List(items) => 1 + items.iter().map(Value::depth).max().unwrap_or(0),
            Value::Map(map) => 1 + map.values().map(Value::depth).max().unwrap_or(0),
            _ => 0,
        }
    }

    /// As JSON. What JSON cannot say is an object with one key that begins with `$`: `{"$bytes": "<hex>"}`,
    /// `{"$float": "NaN"}`, `{"$file": uri}`, `{"$directory": uri}`, `{"$shared": …}`. Files and directories whose content
    /// is known say more: `{"$file": {"name": …, "digest": …, "size": …, "holders": […]}}`.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::{Value as Json, json};
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

impl TryFrom<serde_json::Value> for Value {
    type Error = String;

    /// From plain JSON; the inverse of [`Value::to_json`] except for shared objects, which nobody may forge.
    fn try_from(json: serde_json::Value) -> Result<Self, String> {
        let value = from_json(json)?;
        if value.depth() > MAX_VALUE_DEPTH {
            return Err(format!("lists and maps nest deeper than {MAX_VALUE_DEPTH}"));
        }
        Ok(value)
    }
}

// serde_json itself refuses documents nested deeper than 128, which bounds this recursion.
fn from_json(json: serde_json::Value) -> Result<Value, String> {
    use serde_json::Value as Json;
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

fn special(key: &str, json: &serde_json::Value) -> Option<Result<Value, String>> {
    use serde_json::Value as Json;
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

fn file_from(known: &serde_json::Map<String, serde_json::Value>, directory: bool) -> Result<FileRef, String> {
    let text = |key: &str| known.get(key).and_then(|it| it.as_str()).ok_or_else(|| format!("a file has no {key:?}"));
    let holders = known.get("holders").and_then(|it| it.as_array()).into_iter().flatten();
    let content = Content {
        digest: text("digest")?.parse()?,
        size: known.get("size").and_then(|it| it.as_u64()).ok_or("a file has no \"size\"")?,
        executable: known.get("executable").and_then(|it| it.as_bool()).unwrap_or_default(),
        holders: holders.filter_map(|it| it.as_str()).take(MOST_HOLDERS).map(Arc::from).collect(),
    };
    Ok(FileRef { uri: text("name")?.into(), directory, content: Some(content) })
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
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

/// Equality of states: floats are equal when their bits are, so that a `NaN` equals itself.
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

/// A total order, so that values can be members and keys: first by kind, then by content.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_accept_what_loses_nothing_and_refuse_the_rest() {
        assert_eq!(Type::Int.accept(Value::Float(3.0)), Ok(Value::Int(3)));
        assert!(Type::Int.accept(Value::Float(3.5)).is_err());
        assert!(Type::Int.accept(Value::Float(1e17)).unwrap_err().contains("2^53"));
        assert_eq!(Type::Float.accept(Value::Int(2)), Ok(Value::Float(2.0)));
        assert!(Type::Float.accept(Value::Int(i64::MAX)).is_err());
        assert!(Type::String.accept(Value::Int(2)).unwrap_err().contains("expected string, got int 2"));
        assert_eq!(Type::Map.accept(Value::from(vec![])), Ok(Value::Map(Arc::default())));
        assert!(Type::Shared(SharedKind::Set).parse("{}").is_err());
    }

    #[test]
    fn values_survive_json() {
        let text = r#"{"a":[1,2.5,null,true,"x"],"b":{"$bytes":"00ff"},"c":{"$float":"NaN"},"d":9223372036854775807}"#;
        let value = Value::try_from(serde_json::from_str::<serde_json::Value>(text).unwrap()).unwrap();
        assert_eq!(Value::try_from(value.to_json()).unwrap(), value);
        let Value::Map(map) = &value else { panic!("not a map") };
        assert_eq!(map["b"], Value::Bytes(vec![0, 255].into()));
        assert_eq!(map["d"], Value::Int(i64::MAX));
    }

    #[test]
    fn files_survive_json_and_are_what_is_in_them() {
        let digest = "0f".repeat(32);
        let text = format!(
            r#"[{{"$file":"source://a/b"}},{{"$directory":{{"name":"d","digest":"{digest}","size":5,"holders":["a:1"]}}}},
               {{"$file":{{"name":"x","digest":"{digest}","size":0,"executable":true,"holders":[]}}}}]"#
        );
        let value = Value::try_from(serde_json::from_str::<serde_json::Value>(&text).unwrap()).unwrap();
        assert_eq!(Value::try_from(value.to_json()).unwrap(), value);
        let mut seen = Vec::new();
        value.each_file(&mut |file| seen.push(file.clone()));
        assert_eq!(seen.len(), 3);
        let mut moved = (*seen[1]).clone();
        assert_eq!(moved.content.as_ref().unwrap().holders, ["a:1".into()]);
        moved.content.as_mut().unwrap().holders.clear();
        assert_eq!(moved, *seen[1]);
        let wrong = serde_json::json!({ "$file": { "name": "x", "digest": "beef", "size": 1 } });
        assert!(Value::try_from(wrong).unwrap_err().contains("not a digest"));
    }

    #[test]
    fn json_beyond_64_bits_is_refused() {
        let json = serde_json::from_str::<serde_json::Value>("18446744073709551615").unwrap();
        assert!(Value::try_from(json).is_err());
    }
}
