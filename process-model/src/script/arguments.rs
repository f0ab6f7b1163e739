//! Arguments of scripts as Lua values. Long lists are converted once, not in every iteration of a loop that reads them.

use std::collections::HashMap;
use std::sync::Arc;

use mlua::{Lua, MultiValue, Table, Value as LuaValue};

use super::lua_values::{freeze, to_lua};
use crate::value::Value;

/// One argument of a script.
#[derive(Debug, Clone, Copy)]
pub enum Argument<'a> {
    /// A value. Lists and maps are read-only in code.
    Value(&'a Value),
    /// A list that only grows from one run to the next, so that only its new items are converted.
    Growing {
        /// Identity of the list, which tells growing lists apart.
        of: (u64, u64, u64),
        /// Items so far.
        items: &'a [Value],
    },
}

/// Upper bound on the growing lists with a cached table. A coordinator runs few loops with results at once, so dropping
/// all of them at the bound is rare.
const MAX_GROWING_LISTS: usize = 256;

/// Converts arguments and caches the tables of long and growing lists.
#[derive(Default)]
pub(super) struct ArgumentCache {
    frozen: FrozenTables,
    growing: HashMap<(u64, u64, u64), GrowingTable>,
}

/// The table of a growing list.
struct GrowingTable {
    table: Table,
    /// Items of the list that the table has.
    converted: usize,
}

impl ArgumentCache {
    /// Converts the arguments of one run.
    pub fn convert<'a>(
        &mut self,
        lua: &Lua,
        arguments: impl IntoIterator<Item = Argument<'a>>,
    ) -> mlua::Result<MultiValue> {
        let mut converted = Vec::new();
        for argument in arguments {
            converted.push(match argument {
                Argument::Value(value) => self.frozen.get(lua, value)?,
                Argument::Growing { of, items } => self.growing(lua, of, items)?,
            });
        }
        Ok(MultiValue::from_vec(converted))
    }

    fn growing(&mut self, lua: &Lua, of: (u64, u64, u64), items: &[Value]) -> mlua::Result<LuaValue> {
        if self.growing.len() >= MAX_GROWING_LISTS && !self.growing.contains_key(&of) {
            self.growing.clear();
        }
        let stale = self.growing.get(&of).is_some_and(|known| known.converted > items.len());
        if stale || !self.growing.contains_key(&of) {
            self.growing.insert(of, GrowingTable { table: lua.create_table()?, converted: 0 });
        }
        let GrowingTable { table, converted } =
            self.growing.get_mut(&of).ok_or_else(|| mlua::Error::runtime("a growing list lost its table"))?;
        table.set_readonly(false);
        for item in &items[*converted..] {
            let item = to_lua(lua, item, true)?;
            freeze(&item)?;
            table.raw_push(item)?;
        }
        *converted = items.len();
        table.set_readonly(true);
        Ok(LuaValue::Table(table.clone()))
    }
}

/// Read-only tables of long lists and maps, by the address of the value.
#[derive(Default)]
struct FrozenTables {
    /// The value keeps its address from being reused for another value.
    tables: HashMap<usize, (Value, Table)>,
    /// Items of all tables together.
    items: usize,
}

impl FrozenTables {
    /// Shorter lists and maps are converted each time.
    const MIN_ITEMS: usize = 16;
    /// Upper bound on the items of all tables. At the bound all tables are dropped.
    const MAX_TOTAL_ITEMS: usize = 1_000_000;

    fn get(&mut self, lua: &Lua, value: &Value) -> mlua::Result<LuaValue> {
        let (address, length) = match value {
            Value::List(items) => (Arc::as_ptr(items).addr(), items.len()),
            Value::Map(map) => (Arc::as_ptr(map).addr(), map.len()),
            _ => return to_lua(lua, value, false),
        };
        if length < Self::MIN_ITEMS {
            let converted = to_lua(lua, value, false)?;
            freeze(&converted)?;
            return Ok(converted);
        }
        if let Some((_, table)) = self.tables.get(&address) {
            return Ok(LuaValue::Table(table.clone()));
        }
        if self.items + length > Self::MAX_TOTAL_ITEMS {
            self.tables.clear();
            self.items = 0;
        }
        let converted = to_lua(lua, value, false)?;
        freeze(&converted)?;
        if let LuaValue::Table(table) = &converted {
            self.tables.insert(address, (value.clone(), table.clone()));
            self.items += length;
        }
        Ok(converted)
    }
}
