//! 64-bit integers with checked arithmetic, because the numbers of Lua are exact only up to 2^53.

use mlua::{FromLua, Lua, MetaMethod, UserData, UserDataMethods, Value as LuaValue};

use crate::value::is_exact;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Int64(pub i64);

impl FromLua for Int64 {
    fn from_lua(value: LuaValue, _: &Lua) -> mlua::Result<Self> {
        let unfit = |what: &str| mlua::Error::runtime(format!("int64: {what} is not an exact integer"));
        match value {
            LuaValue::Integer(i) if is_exact(i) => Ok(Self(i)),
            LuaValue::Integer(i) => Err(unfit(&format!("{}", i as f64))),
            LuaValue::Number(n) => Err(unfit(&n.to_string())),
            LuaValue::UserData(data) => match data.borrow::<Int64>() {
                Ok(int) => Ok(*int),
                Err(_) => Err(unfit("an object")),
            },
            LuaValue::String(text) => {
                let text = text.to_string_lossy();
                text.trim().parse().map(Self).map_err(|_| unfit(&format!("{text:?}")))
            }
            other => Err(unfit(&format!("a {}", other.type_name()))),
        }
    }
}

fn checked(operation: &str, result: Option<i64>) -> mlua::Result<Int64> {
    result.map(Int64).ok_or_else(|| mlua::Error::runtime(format!("int64: overflow or division by zero in {operation}")))
}

impl UserData for Int64 {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_function(MetaMethod::Add, |_, (a, b): (Int64, Int64)| checked("+", a.0.checked_add(b.0)));
        methods.add_meta_function(MetaMethod::Sub, |_, (a, b): (Int64, Int64)| checked("-", a.0.checked_sub(b.0)));
        methods.add_meta_function(MetaMethod::Mul, |_, (a, b): (Int64, Int64)| checked("*", a.0.checked_mul(b.0)));
        // Lua rounds towards minus infinity, and the remainder has the sign of the divisor.
        methods.add_meta_function(MetaMethod::IDiv, |_, (a, b): (Int64, Int64)| {
            checked(
                "//",
                a.0.checked_div(b.0).map(|q| if a.0 % b.0 != 0 && (a.0 < 0) != (b.0 < 0) { q - 1 } else { q }),
            )
        });
        methods.add_meta_function(MetaMethod::Mod, |_, (a, b): (Int64, Int64)| {
            checked("%", a.0.checked_rem(b.0).map(|r| if r != 0 && (r < 0) != (b.0 < 0) { r + b.0 } else { r }))
        });
        methods.add_meta_function(MetaMethod::Unm, |_, a: Int64| checked("-", a.0.checked_neg()));
        methods.add_meta_function(MetaMethod::Eq, |_, (a, b): (Int64, Int64)| Ok(a.0 == b.0));
        methods.add_meta_function(MetaMethod::Lt, |_, (a, b): (Int64, Int64)| Ok(a.0 < b.0));
        methods.add_meta_function(MetaMethod::Le, |_, (a, b): (Int64, Int64)| Ok(a.0 <= b.0));
        methods.add_meta_function(MetaMethod::ToString, |_, a: Int64| Ok(a.0.to_string()));
        methods.add_meta_function(MetaMethod::Concat, |lua, (a, b): (LuaValue, LuaValue)| {
            let text = |value: LuaValue| match &value {
                LuaValue::UserData(data) => Ok(data.borrow::<Int64>()?.0.to_string()),
                _ => Ok::<_, mlua::Error>(
                    lua.coerce_string(value)?
                        .ok_or_else(|| {
                            mlua::Error::runtime("attempt to concatenate a value that is neither text nor a number")
                        })?
                        .to_string_lossy(),
                ),
            };
            Ok(text(a)? + &text(b)?)
        });
        methods.add_method("tonumber", |_, a, ()| Ok(a.0 as f64));
    }
}
