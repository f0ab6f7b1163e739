//! The globals of the sandbox, made safe: nothing reaches outside, nothing differs between runs, and no single call
//! runs long without an interrupt.

use mlua::{Lua, LuaString, MultiValue, Result, Value as LuaValue};

use super::compiler::{OUT_OF_MEMORY, PRELUDE_CHUNK};
use super::int64::Int64;

/// The function that raises an error.
pub(crate) const RAISES: &str = "error";

/// The names that code finds without declaring them.
pub const BUILTINS: [&str; 30] = [
    "assert",
    "bit32",
    "buffer",
    "coroutine",
    "error",
    "getmetatable",
    "int64",
    "ipairs",
    "math",
    "next",
    "null",
    "pairs",
    "pcall",
    "print",
    "rawequal",
    "rawget",
    "rawlen",
    "rawset",
    "select",
    "setmetatable",
    "string",
    "table",
    "tonumber",
    "tostring",
    "type",
    "typeof",
    "unpack",
    "utf8",
    "xpcall",
    "_VERSION",
];

/// `tostring` under a name that no author can take, for generated code.
pub const TEXT_OF: &str = "_xvtext";

/// Removes the functions of the standard libraries that reach outside, load code or differ between runs.
const REMOVED: &str = "
loadstring, require, getfenv, setfenv, collectgarbage, newproxy, gcinfo, _G = nil
math.random, math.randomseed = nil
";

/// Wrappers around library functions. `tostring` and `format` hide addresses. The others refuse a call at once that
/// would exhaust memory or run long.
const WRAPPERS: &str = r##"
local limit, too_much = ...
local tostring0, format0, rep0, create0, buffer0, move0 =
  tostring, string.format, string.rep, table.create, buffer.create, table.move
local type, select, getmetatable = type, select, getmetatable

function tostring(value)
  local kind = type(value)
  if kind == "function" or kind == "thread" or kind == "buffer" then return kind end
  if kind == "table" then
    local meta = getmetatable(value)
    if type(meta) ~= "table" or not meta.__tostring then return kind end
  end
  return tostring0(value)
end

function string.format(text, ...)
  local count = select("#", ...)
  local values
  for index = 1, count do
    local value = select(index, ...)
    local kind = type(value)
    if kind == "table" or kind == "function" or kind == "thread" or kind == "buffer" then
      values = values or { ... }
      values[index] = tostring(value)
    end
  end
  if values then return format0(text, table.unpack(values, 1, count)) end
  return format0(text, ...)
end

function string.rep(text, count, separator)
  if type(text) == "string" and type(count) == "number" then
    local size = #text + (type(separator) == "string" and #separator or 0)
    if size * count > limit then too_much() end
  end
  return rep0(text, count, separator)
end

function table.create(count, value)
  if type(count) == "number" and count * 16 > limit then too_much() end
  return create0(count, value)
end

function buffer.create(size)
  if type(size) == "number" and size > limit then too_much() end
  return buffer0(size)
end

function table.move(from, first, last, ...)
  if type(first) == "number" and type(last) == "number" and (last - first) * 16 > limit then too_much() end
  return move0(from, first, last, ...)
end
"##;

/// Prepares the globals of a fresh state in which code may use `memory` bytes.
pub(super) fn install(lua: &Lua, memory: usize) -> Result<()> {
    for statement in REMOVED.trim().lines() {
        lua.load(statement).exec()?;
    }
    // The same typed error as Luau raises when an allocation exceeds the limit.
    let too_much = lua.create_function(|_, ()| Err::<(), _>(mlua::Error::MemoryError(OUT_OF_MEMORY.to_owned())))?;
    lua.load(WRAPPERS).set_name(PRELUDE_CHUNK).call::<()>((memory, too_much))?;
    let globals = lua.globals();
    globals.set(TEXT_OF, globals.get::<mlua::Function>("tostring")?)?;
    globals.set("null", LuaValue::NULL)?;
    globals.set("int64", lua.create_function(|_, int: Int64| Ok(int))?)?;
    let string: mlua::Table = globals.get("string")?;
    string.set("find", find(lua, string.get("find")?)?)?;
    string.set("split", lua.create_function(split)?)?;
    Ok(())
}

/// Makes a `string.find` with a linear search where no pattern is involved, because Luau's own search is quadratic and
/// no interrupt reaches it.
fn find(lua: &Lua, original: mlua::Function) -> Result<mlua::Function> {
    lua.create_function(move |_, arguments: MultiValue| {
        let mut values = arguments.iter();
        if let (Some(LuaValue::String(text)), Some(LuaValue::String(wanted))) = (values.next(), values.next()) {
            let first = match values.next() {
                None | Some(LuaValue::Nil) => Some(1),
                Some(LuaValue::Integer(first)) => Some(*first),
                _ => None,
            };
            let plain = values.next().is_some_and(|plain| !matches!(plain, LuaValue::Nil | LuaValue::Boolean(false)));
            let (text, wanted) = (text.as_bytes(), wanted.as_bytes());
            if let Some(first) = first
                && (plain || !wanted.iter().any(|byte| b"^$*+?.([%-".contains(byte)))
            {
                let length = text.len() as i64;
                // As in Lua, negative positions count from the end.
                let start = if first < 0 { (length + first).max(0) } else { (first - 1).max(0) };
                let found = text
                    .get(start as usize..)
                    .and_then(|rest| memchr::memmem::find(rest, &wanted))
                    .map(|at| start + at as i64);
                return Ok(match found {
                    Some(at) => MultiValue::from_vec(vec![
                        LuaValue::Integer(at + 1),
                        LuaValue::Integer(at + wanted.len() as i64),
                    ]),
                    None => MultiValue::from_vec(vec![LuaValue::Nil]),
                });
            }
        }
        original.call::<MultiValue>(arguments)
    })
}

/// `string.split` in linear time.
fn split(lua: &Lua, (text, separator): (LuaString, Option<LuaString>)) -> Result<mlua::Table> {
    let text = text.as_bytes();
    let separator = separator.map_or_else(|| b",".to_vec(), |separator| separator.as_bytes().to_vec());
    let parts = lua.create_table()?;
    if separator.is_empty() {
        for byte in text.iter() {
            parts.raw_push(lua.create_string([*byte])?)?;
        }
        return Ok(parts);
    }
    let mut start = 0;
    for at in memchr::memmem::find_iter(&text, &separator) {
        parts.raw_push(lua.create_string(&text[start..at])?)?;
        start = at + separator.len();
    }
    parts.raw_push(lua.create_string(&text[start..])?)?;
    Ok(parts)
}
