//! What code reaches while it runs: shared objects, and the output of activities.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, UserData, UserDataMethods, Value as LuaValue};

use super::lua_values::{SharedHandle, from_lua, to_lua};
use crate::shared_objects::{Call, Method, Objects, Undo, called_method, methods};
use crate::value::{SharedKind, SharedRef, Value};

/// Changes that a script made to shared objects.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Effects {
    /// Created objects.
    pub created: Vec<SharedRef>,
    /// Calls that changed something, in order.
    pub calls: Vec<Call>,
}

impl Effects {
    /// True if the script changed nothing.
    pub fn is_empty(&self) -> bool {
        self.created.is_empty() && self.calls.is_empty()
    }
}

/// The world outside the sandbox of an activity.
pub trait RemoteObjects {
    /// Calls a method of a shared object and waits for the answer.
    fn call(&mut self, object: &SharedRef, method: Method, arguments: Vec<Value>) -> Result<Value, String>;
    /// Receives a line that the code printed.
    fn print(&mut self, line: &str);
    /// True if the code should stop. The sandbox asks at intervals.
    fn stopped(&mut self) -> bool {
        false
    }
}

/// Where the calls of the running script go.
pub(super) enum Backend {
    /// No script runs.
    Idle,
    /// Code of a controller works on the objects of its process. `undo` takes its changes back in the end. Its calls may
    /// add `room` more bytes to the objects, which are not in the memory of the sandbox.
    Local { objects: Objects, effects: Effects, undo: Vec<Undo>, room: u64 },
    /// Code of an activity calls the coordinator.
    Remote(Box<dyn RemoteObjects>),
}
/// Installs the constructors of shared objects (`RemoteSet.new()`, …), their methods, and `print`.
pub(super) fn install_shared(lua: &Lua, backend: &Rc<RefCell<Backend>>) -> mlua::Result<()> {
    for kind in SharedKind::ALL {
        let class = lua.create_table()?;
        let backend = backend.clone();
        class.set(
            "new",
            lua.create_function(move |_, ()| match &mut *backend.borrow_mut() {
                Backend::Local { objects, effects, .. } => {
                    let object = objects.create(kind);
                    effects.created.push(object.clone());
                    Ok(SharedHandle(object))
                }
                _ => Err(mlua::Error::runtime(format!(
                    "only the code of a controller can create a {0}; create it in a PRE_CODE and pass it to the activity",
                    kind.type_name()
                ))),
            })?,
        )?;
        class.set_readonly(true);
        lua.globals().set(kind.type_name(), class)?;
    }
    let printer = backend.clone();
    lua.globals().set(
        "print",
        lua.create_function(move |lua, values: MultiValue| {
            if let Backend::Remote(remote) = &mut *printer.borrow_mut() {
                let show: Function = lua.globals().get("tostring")?;
                let shown: mlua::Result<Vec<String>> = values.iter().map(|value| show.call(value)).collect();
                remote.print(&shown?.join("\t"));
            }
            Ok(())
        })?,
    )?;
    lua.set_app_data(backend.clone());
    Ok(())
}

impl UserData for SharedHandle {
    fn add_methods<M: UserDataMethods<Self>>(registry: &mut M) {
        let mut names: Vec<&str> =
            SharedKind::ALL.iter().flat_map(|kind| methods(*kind)).map(|(name, ..)| *name).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            registry.add_method(name, move |lua, this, arguments: MultiValue| {
                let backend = lua.app_data_ref::<Rc<RefCell<Backend>>>().map(|backend| backend.clone());
                let backend = backend.ok_or_else(|| mlua::Error::runtime("shared objects cannot be used here"))?;
                call_shared(lua, &backend, &this.0, name, &arguments)
            });
        }
        registry.add_meta_method(mlua::MetaMethod::ToString, |_, this, ()| Ok(this.0.kind.type_name()));
        registry.add_meta_function(mlua::MetaMethod::Eq, |_, (a, b): (mlua::AnyUserData, mlua::AnyUserData)| {
            let (a, b) = (a.borrow::<SharedHandle>()?, b.borrow::<SharedHandle>()?);
            Ok(a.0 == b.0)
        });
    }
}

fn call_shared(
    lua: &Lua,
    backend: &RefCell<Backend>,
    object: &SharedRef,
    name: &'static str,
    arguments: &MultiValue,
) -> mlua::Result<LuaValue> {
    let kind = object.kind.type_name();
    let method = called_method(object.kind, name, arguments.len()).map_err(mlua::Error::runtime)?;
    let arguments = arguments.iter().map(|value| from_lua(lua, value)).collect::<mlua::Result<Vec<_>>>()?;
    let answer = match &mut *backend.borrow_mut() {
        Backend::Local { objects, effects, undo, room } => {
            if !objects.is_home_of(object) {
                return Err(mlua::Error::runtime(format!("this {kind} belongs to another process")));
            }
            let call = Call { object: object.id, method, arguments };
            let growth = call.max_growth();
            *room = room.checked_sub(growth).ok_or_else(|| {
                mlua::Error::runtime(format!(
                    "{kind}:{name}: the code adds more to shared objects than its limit of memory"
                ))
            })?;
            objects.call_undoable(&call).map(|(value, reverse)| {
                if method.changes() {
                    undo.push(reverse);
                    effects.calls.push(call);
                }
                value
            })
        }
        Backend::Remote(remote) => remote.call(object, method, arguments),
        Backend::Idle => Err("shared objects cannot be used here".into()),
    };
    to_lua(lua, &answer.map_err(|message| mlua::Error::runtime(format!("{kind}:{name}: {message}")))?, false)
}
