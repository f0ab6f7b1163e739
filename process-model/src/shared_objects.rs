//! Shared objects: sets, lists, maps and counters that many activities use at once. They are part of the state of the
//! process that created them. Every call is atomic, and the coordinator journals calls that change something.

mod call_memory;
mod object_calls;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::value::{Map, SharedKind, SharedRef, Value};
use call_memory::CallMemory;

pub use call_memory::CallAnswer;
pub use object_calls::{Call, Method, MethodSignature, called_method, methods};

/// The position of the call memory in the table of objects. It is in the table so that this version reads the states that earlier
/// ones stored.
const CALLS: u64 = u64::MAX;

/// The content of a shared object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum SharedObject {
    Set(BTreeSet<Value>),
    List(Vec<Value>),
    Map(BTreeMap<Value, Value>),
    Counter(i64),
    /// No object: the calls of elements, see [`CALLS`].
    Calls(CallMemory),
}

/// The state before one change, to take the change back.
#[derive(Debug)]
pub(crate) struct Undo {
    object: u64,
    before: Before,
    /// By how many bytes the change made the object larger.
    growth: i64,
}

/// The part of an object that a change replaced.
#[derive(Debug)]
enum Before {
    /// The whole object.
    Whole(SharedObject),
    /// A value, and whether it was a member of the set.
    Member(Value, bool),
    /// The length of the list.
    Length(usize),
    /// An item of the list and its position.
    Item(usize, Value),
    /// The last item of the list.
    Popped(Value),
    /// A key of the map, and its value if it had one.
    Entry(Value, Option<Value>),
    /// Nothing changed.
    Same,
}

/// Bytes of an object beside its content.
const OBJECT_BYTES: u64 = 64;

/// The shared objects of one process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredObjects")]
pub struct Objects {
    home: Arc<str>,
    next: u64,
    table: BTreeMap<u64, SharedObject>,
    /// Bytes of all objects.
    #[serde(skip)]
    bytes: u64,
}

/// What is stored of [`Objects`].
#[derive(Deserialize)]
struct StoredObjects {
    home: Arc<str>,
    next: u64,
    table: BTreeMap<u64, SharedObject>,
}

impl From<StoredObjects> for Objects {
    fn from(StoredObjects { home, next, table }: StoredObjects) -> Self {
        let bytes = table.values().map(SharedObject::bytes).sum();
        Self { home, next, table, bytes }
    }
}

impl Objects {
    /// Makes the empty collection of the process with the id `home`.
    pub fn new(home: Arc<str>) -> Self {
        Self { home, next: 0, table: BTreeMap::new(), bytes: 0 }
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.table.len() - usize::from(self.table.contains_key(&CALLS))
    }

    /// Returns the bytes that all objects take, approximately.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Creates an empty object.
    pub fn create(&mut self, kind: SharedKind) -> SharedRef {
        let id = self.next;
        self.next += 1;
        let object = match kind {
            SharedKind::Set => SharedObject::Set(BTreeSet::new()),
            SharedKind::List => SharedObject::List(Vec::new()),
            SharedKind::Map => SharedObject::Map(BTreeMap::new()),
            SharedKind::Counter => SharedObject::Counter(0),
        };
        self.table.insert(id, object);
        self.bytes += OBJECT_BYTES;
        SharedRef { kind, home: self.home.clone(), id }
    }

    /// Takes the creation of an object back.
    pub(crate) fn undo_create(&mut self, object: &SharedRef) {
        self.remove(object.id);
        self.next = self.next.min(object.id);
    }

    /// Deletes an object.
    pub fn remove(&mut self, id: u64) {
        if id != CALLS {
            let removed = self.table.remove(&id).map_or(0, |object| object.bytes());
            self.bytes = self.bytes.saturating_sub(removed);
        }
    }

    /// True if the reference is to an object of this process.
    pub fn is_home_of(&self, object: &SharedRef) -> bool {
        object.home == self.home
    }

    /// Performs a call.
    pub fn call(&mut self, call: &Call) -> Result<Value, String> {
        self.call_undoable(call).map(|(value, _)| value)
    }

    /// Returns the whole content as a plain value, for the results of a process.
    pub fn content(&self, object: &SharedRef) -> Option<Value> {
        Some(match self.table.get(&object.id)? {
            SharedObject::Calls(_) => return None,
            SharedObject::Set(set) => set.iter().cloned().collect::<Vec<_>>().into(),
            SharedObject::List(list) => list.clone().into(),
            SharedObject::Map(map) => {
                let entries = map.iter().map(|(key, value)| (Arc::from(key.to_string()), value.clone()));
                Value::Map(Arc::new(entries.collect::<Map>()))
            }
            SharedObject::Counter(count) => Value::Int(*count),
        })
    }

    /// Performs a call and returns how to take it back.
    pub(crate) fn call_undoable(&mut self, call: &Call) -> Result<(Value, Undo), String> {
        let object = self.table.get_mut(&call.object).filter(|_| call.object != CALLS);
        let object = object.ok_or("the shared object no longer exists")?;
        let mut nested = false;
        call.arguments.iter().for_each(|argument| argument.each_shared(&mut |_| nested = true));
        if nested {
            return Err("a shared object cannot hold another shared object".into());
        }
        let (value, before) = object.call(call.method, &call.arguments)?;
        let growth = growth(call, &before);
        self.bytes = self.bytes.saturating_add_signed(growth);
        Ok((value, Undo { object: call.object, before, growth }))
    }

    /// Remembers that an element made a call, its call with this number, from 1, in the current try.
    pub fn remember_call(&mut self, element: u64, sequence: u64, call: &Call, answer: &CallAnswer) {
        if let Entry::Vacant(vacant) = self.table.entry(CALLS) {
            vacant.insert(SharedObject::Calls(CallMemory::default()));
            self.bytes += OBJECT_BYTES;
        }
        if let Some(SharedObject::Calls(calls)) = self.table.get_mut(&CALLS) {
            let growth = calls.add(element, sequence, call, answer);
            self.bytes = self.bytes.saturating_add_signed(growth);
        }
    }

    /// The answer that an element got when its call with this number was this one.
    pub fn remembered_answer(&self, element: u64, sequence: u64, call: &Call) -> Option<&CallAnswer> {
        match self.table.get(&CALLS)? {
            SharedObject::Calls(calls) => {
                calls.get(element, sequence).filter(|(known, _)| known == call).map(|(_, answer)| answer)
            }
            _ => None,
        }
    }

    /// Forgets the calls of an element: its try has ended.
    pub fn forget_calls(&mut self, element: u64) {
        if let Some(SharedObject::Calls(calls)) = self.table.get_mut(&CALLS) {
            let mut removed = calls.remove(element);
            if calls.is_empty() {
                self.table.remove(&CALLS);
                removed += OBJECT_BYTES;
            }
            self.bytes = self.bytes.saturating_sub(removed);
        }
    }

    pub(crate) fn undo(&mut self, undo: Undo) {
        let Some(object) = self.table.get_mut(&undo.object) else { return };
        self.bytes = self.bytes.saturating_add_signed(-undo.growth);
        match (object, undo.before) {
            (object, Before::Whole(whole)) => *object = whole,
            (SharedObject::Set(set), Before::Member(value, was_in)) => {
                if was_in {
                    set.insert(value);
                } else {
                    set.remove(&value);
                }
            }
            (SharedObject::List(list), Before::Length(length)) => list.truncate(length),
            (SharedObject::List(list), Before::Item(index, value)) => list[index] = value,
            (SharedObject::List(list), Before::Popped(value)) => list.push(value),
            (SharedObject::Map(map), Before::Entry(key, Some(value))) => {
                map.insert(key, value);
            }
            (SharedObject::Map(map), Before::Entry(key, None)) => {
                map.remove(&key);
            }
            _ => {}
        }
    }
}

impl Call {
    /// Returns an upper bound on the bytes that the call adds to its object.
    pub fn max_growth(&self) -> u64 {
        match self.method {
            Method::Add | Method::Append | Method::Put | Method::PutIfAbsent | Method::Set => {
                // A sum is stored even if its amount is not given.
                self.arguments.iter().map(Value::bytes).sum::<u64>() + Value::Null.bytes()
            }
            _ => 0,
        }
    }
}

/// By how many bytes a call made its object larger. `before` is what it replaced.
fn growth(call: &Call, before: &Before) -> i64 {
    let argument = |index: usize| call.arguments.get(index).map_or(0, Value::bytes) as i64;
    let entry = |key: &Value, value: &Value| (key.bytes() + value.bytes()) as i64;
    match (before, call.method) {
        (Before::Member(value, false), Method::Add) => value.bytes() as i64,
        (Before::Member(value, true), Method::Remove) => -(value.bytes() as i64),
        (Before::Length(_), _) => argument(0),
        (Before::Item(_, old), _) => argument(1) - old.bytes() as i64,
        (Before::Popped(old), _) => -(old.bytes() as i64),
        (Before::Entry(key, old), method) => {
            let new = match method {
                Method::Remove => 0,
                Method::Add => entry(key, &Value::Int(0)),
                _ => key.bytes() as i64 + argument(1),
            };
            new - old.as_ref().map_or(0, |old| entry(key, old))
        }
        (Before::Whole(old), Method::Clear) => OBJECT_BYTES as i64 - old.bytes() as i64,
        _ => 0,
    }
}

impl SharedObject {
    fn bytes(&self) -> u64 {
        let content: u64 = match self {
            SharedObject::Calls(calls) => calls.bytes(),
            SharedObject::Set(set) => set.iter().map(Value::bytes).sum(),
            SharedObject::List(list) => list.iter().map(Value::bytes).sum(),
            SharedObject::Map(map) => map.iter().map(|(key, value)| key.bytes() + value.bytes()).sum(),
            SharedObject::Counter(_) => 0,
        };
        OBJECT_BYTES + content
    }

    fn call(&mut self, method: Method, arguments: &[Value]) -> Result<(Value, Before), String> {
        use Before as B;
        let argument = |index: usize| arguments.get(index).cloned().unwrap_or_default();
        let amount = |index: usize| match arguments.get(index) {
            None => Ok(1),
            Some(Value::Int(i)) => Ok(*i),
            Some(other) => Err(format!("expected int, got {}", other.describe())),
        };
        let not_nil =
            |value: Value| if value.is_null() { Err("a shared object cannot hold nil".to_owned()) } else { Ok(value) };
        Ok(match (self, method) {
            (SharedObject::Set(set), Method::Size) => (Value::Int(set.len() as i64), B::Same),
            (SharedObject::Set(set), Method::Contains) => (Value::Bool(set.contains(&argument(0))), B::Same),
            (SharedObject::Set(set), Method::Values) => (set.iter().cloned().collect::<Vec<_>>().into(), B::Same),
            (SharedObject::Set(set), Method::Add) => {
                let value = not_nil(argument(0))?;
                let new = set.insert(value.clone());
                (Value::Bool(new), B::Member(value, !new))
            }
            (SharedObject::Set(set), Method::Remove) => {
                let value = argument(0);
                let was_in = set.remove(&value);
                (Value::Bool(was_in), B::Member(value, was_in))
            }
            (SharedObject::List(list), Method::Size) => (Value::Int(list.len() as i64), B::Same),
            (SharedObject::List(list), Method::Values) => (list.clone().into(), B::Same),
            (SharedObject::List(list), Method::Get) => {
                (position(&argument(0), list.len()).map(|index| list[index].clone()).unwrap_or_default(), B::Same)
            }
            (SharedObject::List(list), Method::Append) => {
                list.push(not_nil(argument(0))?);
                (Value::Int(list.len() as i64), B::Length(list.len() - 1))
            }
            (SharedObject::List(list), Method::Set) => {
                let index = position(&argument(0), list.len()).ok_or_else(|| {
                    format!("position {} does not exist in a list of {} items", argument(0), list.len())
                })?;
                (Value::Null, B::Item(index, std::mem::replace(&mut list[index], not_nil(argument(1))?)))
            }
            (SharedObject::List(list), Method::Pop) => match list.pop() {
                Some(value) => (value.clone(), B::Popped(value)),
                None => (Value::Null, B::Same),
            },
            (SharedObject::Map(map), Method::Size) => (Value::Int(map.len() as i64), B::Same),
            (SharedObject::Map(map), Method::Contains) => (Value::Bool(map.contains_key(&argument(0))), B::Same),
            (SharedObject::Map(map), Method::Keys) => (map.keys().cloned().collect::<Vec<_>>().into(), B::Same),
            (SharedObject::Map(map), Method::Values) => (map.values().cloned().collect::<Vec<_>>().into(), B::Same),
            (SharedObject::Map(map), Method::Get) => (map.get(&argument(0)).cloned().unwrap_or_default(), B::Same),
            (SharedObject::Map(map), Method::Put) => {
                let key = key(argument(0))?;
                let old = map.insert(key.clone(), not_nil(argument(1))?);
                (old.clone().unwrap_or_default(), B::Entry(key, old))
            }
            (SharedObject::Map(map), Method::PutIfAbsent) => {
                let key = key(argument(0))?;
                if map.contains_key(&key) {
                    (Value::Bool(false), B::Same)
                } else {
                    map.insert(key.clone(), not_nil(argument(1))?);
                    (Value::Bool(true), B::Entry(key, None))
                }
            }
            (SharedObject::Map(map), Method::Add) => {
                let key = key(argument(0))?;
                let old = map.get(&key).cloned();
                let sum = match &old {
                    None => Some(amount(1)?),
                    Some(Value::Int(i)) => i.checked_add(amount(1)?),
                    Some(other) => return Err(format!("cannot add to {}", other.describe())),
                };
                let sum = Value::Int(sum.ok_or("the sum does not fit in 64 bits")?);
                map.insert(key.clone(), sum.clone());
                (sum, B::Entry(key, old))
            }
            (SharedObject::Map(map), Method::Remove) => {
                let old = map.remove(&argument(0));
                (old.clone().unwrap_or_default(), B::Entry(argument(0), old))
            }
            (SharedObject::Counter(count), Method::Get) => (Value::Int(*count), B::Same),
            (SharedObject::Counter(count), Method::Add) => {
                let sum = count.checked_add(amount(0)?).ok_or("the sum does not fit in 64 bits")?;
                let old = std::mem::replace(count, sum);
                (Value::Int(sum), B::Whole(SharedObject::Counter(old)))
            }
            (SharedObject::Counter(count), Method::Set) => {
                let old = std::mem::replace(count, amount(0)?);
                (Value::Int(old), B::Whole(SharedObject::Counter(old)))
            }
            (object, Method::Clear) => {
                let empty = match object {
                    SharedObject::Set(_) => SharedObject::Set(BTreeSet::new()),
                    SharedObject::List(_) => SharedObject::List(Vec::new()),
                    SharedObject::Map(_) => SharedObject::Map(BTreeMap::new()),
                    SharedObject::Counter(_) => SharedObject::Counter(0),
                    SharedObject::Calls(_) => return Err("this is no shared object".into()),
                };
                (Value::Null, B::Whole(std::mem::replace(object, empty)))
            }
            (_, method) => return Err(format!("this kind of shared object has no method {method:?}")),
        })
    }
}

/// Converts a position in a list, from 1 as in Lua, to an index.
fn position(index: &Value, length: usize) -> Option<usize> {
    match index {
        Value::Int(i) => usize::try_from(*i).ok()?.checked_sub(1).filter(|index| *index < length),
        _ => None,
    }
}

/// Checks that a value can be a key of a map.
fn key(value: Value) -> Result<Value, String> {
    match value {
        Value::Bool(_) | Value::Int(_) | Value::Str(_) | Value::Bytes(_) => Ok(value),
        Value::Float(f) if !f.is_nan() => Ok(value),
        other => Err(format!("a key must be a simple value, not {}", other.describe())),
    }
}

#[cfg(test)]
mod tests;
