//! Conversion of values to Lua and back, without loss.
//!
//! | value | in Lua |
//! |---|---|
//! | `int` up to 2^53, `float` | number |
//! | `int` beyond | [`Int64`] |
//! | `string` | string |
//! | `bytes` | buffer (a string that is not UTF-8 comes back as bytes) |
//! | `list`, `map` | table |
//! | no value | `nil`; inside lists and maps `null` |
//! | `file`, `directory`, shared objects | objects |

use std::sync::Arc;

use mlua::{AnyUserData, Error, Lua, Result, Table, UserData, UserDataMethods, Value as LuaValue};

use super::int64::Int64;
use crate::value::{FileRef, MAX_VALUE_DEPTH, Map, Value, is_exact};

/// A `file` or `directory` in code. Code can pass it on and show it, but not open it.
pub(super) struct FileHandle(pub Arc<FileRef>);

impl UserData for FileHandle {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(mlua::MetaMethod::ToString, |_, this, ()| Ok(this.0.uri.to_string()));
    }
}

/// A shared object in code; the module `objects` adds its methods.
pub(super) struct SharedHandle(pub crate::value::SharedRef);

/// Registry key of the metatable that tells an empty map from an empty list.
pub(super) const EMPTY_MAP: &str = "xavantes.empty_map";

/// Converts a value to Lua. A missing value becomes `null` if `nested`, else `nil`.
pub(super) fn to_lua(lua: &Lua, value: &Value, nested: bool) -> Result<LuaValue> {
    Ok(match value {
        Value::Null if nested => LuaValue::NULL,
        Value::Null => LuaValue::Nil,
        Value::Bool(b) => LuaValue::Boolean(*b),
        Value::Int(i) if is_exact(*i) => LuaValue::Integer(*i),
        Value::Int(i) => LuaValue::UserData(lua.create_userdata(Int64(*i))?),
        Value::Float(f) => LuaValue::Number(*f),
        Value::Str(s) => LuaValue::String(lua.create_string(s.as_bytes())?),
        Value::Bytes(b) => LuaValue::Buffer(lua.create_buffer(b)?),
        Value::List(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items.iter() {
                table.raw_push(to_lua(lua, item, true)?)?;
            }
            LuaValue::Table(table)
        }
        Value::Map(map) => {
            let table = lua.create_table_with_capacity(0, map.len())?;
            for (key, item) in map.iter() {
                table.raw_set(lua.create_string(key.as_bytes())?, to_lua(lua, item, true)?)?;
            }
            if map.is_empty() {
                table.set_metatable(Some(lua.named_registry_value(EMPTY_MAP)?))?;
            }
            LuaValue::Table(table)
        }
        Value::File(file) => LuaValue::UserData(lua.create_userdata(FileHandle(file.clone()))?),
        Value::Shared(object) => LuaValue::UserData(lua.create_userdata(SharedHandle(object.clone()))?),
    })
}

/// Makes a table and all tables in it read-only.
pub(super) fn freeze(value: &LuaValue) -> Result<()> {
    if let LuaValue::Table(table) = value {
        table.for_each(|_: LuaValue, item: LuaValue| freeze(&item))?;
        table.set_readonly(true);
    }
    Ok(())
}

/// Converts a value from Lua. Functions, threads and foreign objects have no equivalent.
pub(super) fn from_lua(lua: &Lua, value: &LuaValue) -> Result<Value> {
    at_depth(lua, value, 0)
}

fn at_depth(lua: &Lua, value: &LuaValue, depth: usize) -> Result<Value> {
    if depth > MAX_VALUE_DEPTH {
        return Err(Error::runtime(format!("lists and maps nest deeper than {MAX_VALUE_DEPTH}, or hold themselves")));
    }
    Ok(match value {
        LuaValue::Nil => Value::Null,
        null if *null == LuaValue::NULL => Value::Null,
        LuaValue::Boolean(b) => Value::Bool(*b),
        LuaValue::Integer(i) if is_exact(*i) => Value::Int(*i),
        // The number was a double in Lua, and as a double it is exact.
        LuaValue::Integer(i) => Value::Float(*i as f64),
        LuaValue::Number(n) => Value::Float(*n),
        LuaValue::String(s) => match std::str::from_utf8(&s.as_bytes()) {
            Ok(text) => Value::from(text),
            Err(_) => Value::Bytes((&*s.as_bytes()).into()),
        },
        LuaValue::Buffer(buffer) => Value::Bytes(buffer.to_vec().into()),
        LuaValue::Table(table) => table_value(lua, table, depth)?,
        LuaValue::UserData(data) => object_value(data)?,
        other => return Err(Error::runtime(format!("a {} cannot be the value of a parameter", other.type_name()))),
    })
}

fn object_value(data: &AnyUserData) -> Result<Value> {
    if let Ok(int) = data.borrow::<Int64>() {
        Ok(Value::Int(int.0))
    } else if let Ok(object) = data.borrow::<SharedHandle>() {
        Ok(Value::Shared(object.0.clone()))
    } else if let Ok(file) = data.borrow::<FileHandle>() {
        Ok(Value::File(file.0.clone()))
    } else {
        Err(Error::runtime("this object cannot be the value of a parameter"))
    }
}

/// Converts a table. Keys 1 to n make a list, keys that are all text make a map; any other table is an error.
fn table_value(lua: &Lua, table: &Table, depth: usize) -> Result<Value> {
    let length = table.raw_len();
    let mut map = Map::new();
    table.for_each(|key: LuaValue, item: LuaValue| {
        match key {
            LuaValue::Integer(index) if (1..=length as i64).contains(&index) => {}
            LuaValue::String(key) => {
                let key = key.to_str().map_err(|_| Error::runtime("the keys of a map must be UTF-8 text"))?;
                map.insert(Arc::from(&*key), at_depth(lua, &item, depth + 1)?);
            }
            LuaValue::Integer(index) => {
                return Err(Error::runtime(format!("a list has no gaps: position {index} of {length}")));
            }
            other => {
                return Err(Error::runtime(format!("the keys of a map must be text, not {}", other.type_name())));
            }
        }
        Ok(())
    })?;
    if length == 0 {
        let is_map = !map.is_empty() || table.metatable().is_some();
        return Ok(if is_map { Value::Map(Arc::new(map)) } else { Value::List(Arc::default()) });
    }
    if !map.is_empty() {
        return Err(Error::runtime("a table is a list or a map, not both"));
    }
    let mut items = Vec::with_capacity(length);
    for index in 1..=length {
        let item: LuaValue = table.raw_get(index)?;
        if item.is_nil() {
            return Err(Error::runtime(format!("a list has no gaps: position {index} of {length}")));
        }
        items.push(at_depth(lua, &item, depth + 1)?);
    }
    Ok(Value::List(Arc::new(items)))
}
