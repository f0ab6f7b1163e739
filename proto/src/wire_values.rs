//! Conversion of values to and from the wire. Conversion from the wire checks everything, because a message may come
//! from any program.

use std::sync::Arc;

use xavantes_model::digest::Digest;
use xavantes_model::shared_objects::{Method, methods};
use xavantes_model::value::{Content, FileRef, MAX_HOLDERS, MAX_VALUE_DEPTH, SharedKind, SharedRef, Value};

use crate::v1;

/// An invalid message, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidMessage(pub &'static str);

impl From<InvalidMessage> for tonic::Status {
    fn from(unfit: InvalidMessage) -> Self {
        tonic::Status::invalid_argument(unfit.0)
    }
}

/// Converts a value to the wire.
pub fn value(value: &Value) -> v1::Value {
    use v1::value::Kind;
    let kind = match value {
        Value::Null => Kind::Nothing(v1::Nothing {}),
        Value::Bool(b) => Kind::Boolean(*b),
        Value::Int(i) => Kind::Int(*i),
        Value::Float(f) => Kind::Float(*f),
        Value::Str(s) => Kind::Text(s.to_string()),
        Value::Bytes(b) => Kind::Bytes(b.to_vec()),
        Value::List(items) => Kind::List(v1::ValueList { items: items.iter().map(self::value).collect() }),
        Value::Map(map) => {
            let entries = map.iter().map(|(key, item)| (key.to_string(), self::value(item))).collect();
            Kind::Map(v1::ValueMap { entries })
        }
        Value::File(file) => Kind::File((&**file).into()),
        Value::Shared(object) => Kind::Shared(object.into()),
    };
    v1::Value { kind: Some(kind) }
}

/// Converts a value from the wire.
pub fn value_from(value: v1::Value) -> Result<Value, InvalidMessage> {
    value_at_depth(value, 0)
}

fn value_at_depth(value: v1::Value, depth: usize) -> Result<Value, InvalidMessage> {
    use v1::value::Kind;
    if depth > MAX_VALUE_DEPTH {
        return Err(InvalidMessage("a value nests too deep"));
    }
    Ok(match value.kind {
        None | Some(Kind::Nothing(_)) => Value::Null,
        Some(Kind::Boolean(b)) => Value::Bool(b),
        Some(Kind::Int(i)) => Value::Int(i),
        Some(Kind::Float(f)) => Value::Float(f),
        Some(Kind::Text(s)) => Value::Str(s.into()),
        Some(Kind::Bytes(b)) => Value::Bytes(b.into()),
        Some(Kind::List(list)) => {
            let items = list.items.into_iter().map(|item| value_at_depth(item, depth + 1));
            Value::List(Arc::new(items.collect::<Result<_, _>>()?))
        }
        Some(Kind::Map(map)) => {
            let entries = map.entries.into_iter().map(|(key, item)| Ok((key.into(), value_at_depth(item, depth + 1)?)));
            Value::Map(Arc::new(entries.collect::<Result<_, _>>()?))
        }
        Some(Kind::File(file)) => Value::File(Arc::new(file.try_into()?)),
        Some(Kind::Shared(object)) => Value::Shared(object.try_into()?),
    })
}

impl From<&FileRef> for v1::FileReference {
    fn from(file: &FileRef) -> Self {
        let content = file.content.as_ref().map(|content| v1::Content {
            digest: content.digest.0.to_vec(),
            size: content.size,
            executable: content.executable,
            holders: content.holders.iter().map(|holder| holder.to_string()).collect(),
        });
        Self { uri: file.uri.to_string(), directory: file.directory, content }
    }
}

impl TryFrom<v1::FileReference> for FileRef {
    type Error = InvalidMessage;

    fn try_from(file: v1::FileReference) -> Result<Self, InvalidMessage> {
        let content = file.content.map(|content| {
            Ok(Content {
                digest: digest_from(&content.digest)?,
                size: content.size,
                executable: content.executable,
                holders: content.holders.into_iter().take(MAX_HOLDERS).map(Arc::from).collect(),
            })
        });
        Ok(Self { uri: file.uri.into(), directory: file.directory, content: content.transpose()? })
    }
}

/// Converts a digest from the wire.
pub fn digest_from(bytes: &[u8]) -> Result<Digest, InvalidMessage> {
    Digest::from_bytes(bytes).ok_or(InvalidMessage("a digest does not have 32 bytes"))
}

impl From<&SharedRef> for v1::SharedReference {
    fn from(object: &SharedRef) -> Self {
        let kind = match object.kind {
            SharedKind::Set => v1::SharedKind::Set,
            SharedKind::List => v1::SharedKind::List,
            SharedKind::Map => v1::SharedKind::Map,
            SharedKind::Counter => v1::SharedKind::Counter,
        };
        Self { kind: kind.into(), home: object.home.to_string(), id: object.id }
    }
}

impl TryFrom<v1::SharedReference> for SharedRef {
    type Error = InvalidMessage;

    fn try_from(object: v1::SharedReference) -> Result<Self, InvalidMessage> {
        let kind = match object.kind() {
            v1::SharedKind::Set => SharedKind::Set,
            v1::SharedKind::List => SharedKind::List,
            v1::SharedKind::Map => SharedKind::Map,
            v1::SharedKind::Counter => SharedKind::Counter,
            v1::SharedKind::Unspecified => return Err(InvalidMessage("a shared object has no kind")),
        };
        Ok(Self { kind, home: object.home.into(), id: object.id })
    }
}

/// Name of a method of a kind of shared object. Empty if the kind does not have the method.
pub fn method_name(kind: SharedKind, method: Method) -> &'static str {
    methods(kind).iter().find(|(_, known, ..)| *known == method).map_or("", |(name, ..)| name)
}
