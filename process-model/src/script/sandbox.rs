//! Runs scripts: one Lua state for many scripts of many processes, each run with limits of its own and without a
//! trace left for the next one.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mlua::{
    Function, Lua, LuaOptions, MultiValue, StdLib, Table, UserData, UserDataMethods, Value as LuaValue, VmState,
};

use super::convert::{EMPTY_MAP, SharedHandle, freeze, from_lua, to_lua};
use super::{Code, prelude};
use crate::shared::{Call, Method, Objects, Undo, methods};
use crate::value::{SharedKind, SharedRef, Value};

/// What one run of a script may use.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Loop turns and calls.
    pub steps: u64,
    /// Bytes.
    pub memory: usize,
    /// A guard for what steps do not measure. Scripts that come near it are refused by steps or memory first.
    pub time: Duration,
}

impl Limits {
    /// For code of controllers, which holds up everything else in its process.
    pub const CONTROL: Limits = Limits { steps: 1_000_000, memory: 64 << 20, time: Duration::from_secs(5) };
}

/// Why a script failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// An error in the code, or raised by it.
    Code,
    /// It ran over its limit of steps.
    Steps,
    /// It ran over its limit of memory.
    Memory,
    /// It ran over its limit of time.
    Time,
    /// It was stopped from outside.
    Stopped,
}

/// A script failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Why.
    pub kind: ErrorKind,
    /// What the author is told, without the place.
    pub message: String,
    /// The line in the author's document.
    pub line: u32,
}

/// What a script did to shared objects.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Effects {
    /// Objects that it created.
    pub created: Vec<SharedRef>,
    /// Calls that changed something, in order.
    pub calls: Vec<Call>,
}

impl Effects {
    /// True if it did nothing.
    pub fn is_empty(&self) -> bool {
        self.created.is_empty() && self.calls.is_empty()
    }
}

/// What the code of an activity reaches outside its sandbox.
pub trait RemoteObjects {
    /// Calls a method of a shared object and waits for the answer.
    fn call(&mut self, object: &SharedRef, method: Method, arguments: Vec<Value>) -> Result<Value, String>;
    /// Takes a line that the code printed.
    fn print(&mut self, line: &str);
    /// Asked now and then: should the code stop?
    fn stopped(&mut self) -> bool {
        false
    }
}

enum Backend {
    Nothing,
    Local { objects: Objects, effects: Effects, undo: Vec<Undo> },
    Remote(Box<dyn RemoteObjects>),
}

struct Meter {
    limits: Cell<Limits>,
    steps: Cell<u64>,
    since: Cell<Instant>,
    tripped: Cell<Option<ErrorKind>>,
}

/// A sandbox. Not to be shared between threads; each thread that runs scripts has one of its own.
pub struct Sandbox {
    lua: Lua,
    functions: HashMap<u64, Function>,
    backend: Rc<RefCell<Backend>>,
    meter: Rc<Meter>,
    frozen: Frozen,
    growing: HashMap<(u64, u64, u64), (Table, usize)>,
}

/// What a script is given.
#[derive(Debug, Clone, Copy)]
pub enum Argument<'a> {
    /// A value; lists and maps are read-only in code.
    Value(&'a Value),
    /// A list that only grows from one run to the next: only what is new is converted. `of` tells lists apart.
    Growing {
        /// The list's identity.
        of: (u64, u64, u64),
        /// Its items so far.
        items: &'a [Value],
    },
}

/// Compiled functions, and growing lists, that are kept at most; a coordinator has few types and loops at once.
const MOST_FUNCTIONS: usize = 16_384;
const MOST_GROWING: usize = 256;
/// The interrupt looks at the clock once in so many steps.
const STEPS_PER_LOOK: u64 = 64;

impl Sandbox {
    /// A fresh sandbox. `jit` compiles scripts to machine code, which pays for long computations.
    pub fn new(limits: Limits, jit: bool) -> Result<Self, Error> {
        Self::build(limits, jit).map_err(|error| Error {
            kind: ErrorKind::Code,
            message: format!("the sandbox did not start: {error}"),
            line: 0,
        })
    }

    fn build(limits: Limits, jit: bool) -> mlua::Result<Self> {
        let libraries = StdLib::COROUTINE
            | StdLib::TABLE
            | StdLib::STRING
            | StdLib::UTF8
            | StdLib::BIT
            | StdLib::MATH
            | StdLib::BUFFER;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        lua.enable_jit(jit);
        let backend = Rc::new(RefCell::new(Backend::Nothing));
        let meter = Rc::new(Meter {
            limits: Cell::new(limits),
            steps: Cell::new(0),
            since: Cell::new(Instant::now()),
            tripped: Cell::new(None),
        });
        prelude::install(&lua, limits.memory)?;
        let empty_map = lua.create_table()?;
        empty_map.set_readonly(true);
        lua.set_named_registry_value(EMPTY_MAP, empty_map)?;
        install_shared(&lua, &backend)?;
        lua.sandbox(true)?;
        lua.globals().set_readonly(true);
        set_interrupt(&lua, &meter, &backend);
        let (functions, growing) = (HashMap::new(), HashMap::new());
        Ok(Self { lua, functions, backend, meter, frozen: Frozen::default(), growing })
    }

    /// Runs code of a controller. On success the effects on `objects` are told, not yet made.
    pub fn run<'a>(
        &mut self,
        code: &Code,
        arguments: impl IntoIterator<Item = Argument<'a>>,
        objects: &mut Objects,
    ) -> Result<(Vec<Value>, Effects), Error> {
        let arguments = self.arguments(arguments).map_err(|error| self.explain(code, &error))?;
        *self.backend.borrow_mut() =
            Backend::Local { objects: std::mem::take(objects), effects: Effects::default(), undo: Vec::new() };
        let outcome = self.call(code, arguments);
        let mut effects = Effects::default();
        if let Backend::Local { objects: mut borrowed, effects: told, undo } = self.backend.replace(Backend::Nothing) {
            undo.into_iter().rev().for_each(|undo| borrowed.undo(undo));
            told.created.iter().rev().for_each(|created| borrowed.uncreate(created));
            *objects = borrowed;
            effects = told;
        }
        Ok((outcome?, effects))
    }

    /// Runs the code of an activity.
    pub fn run_activity(
        &mut self,
        code: &Code,
        arguments: &[Value],
        remote: Box<dyn RemoteObjects>,
    ) -> Result<Vec<Value>, Error> {
        let converted: mlua::Result<MultiValue> =
            arguments.iter().map(|value| to_lua(&self.lua, value, false)).collect();
        let converted = converted.map_err(|error| self.explain(code, &error))?;
        *self.backend.borrow_mut() = Backend::Remote(remote);
        let outcome = self.call(code, converted);
        *self.backend.borrow_mut() = Backend::Nothing;
        outcome
    }

    fn arguments<'a>(&mut self, arguments: impl IntoIterator<Item = Argument<'a>>) -> mlua::Result<MultiValue> {
        let mut converted = Vec::new();
        for argument in arguments {
            converted.push(match argument {
                Argument::Value(value) => self.frozen.get(&self.lua, value)?,
                Argument::Growing { of, items } => self.growing(of, items)?,
            });
        }
        Ok(MultiValue::from_vec(converted))
    }

    fn growing(&mut self, of: (u64, u64, u64), items: &[Value]) -> mlua::Result<LuaValue> {
        if self.growing.len() >= MOST_GROWING && !self.growing.contains_key(&of) {
            self.growing.clear();
        }
        let stale = self.growing.get(&of).is_some_and(|(_, known)| *known > items.len());
        if stale || !self.growing.contains_key(&of) {
            self.growing.insert(of, (self.lua.create_table()?, 0));
        }
        let (table, known) = self.growing.get_mut(&of).ok_or_else(|| mlua::Error::runtime("results went missing"))?;
        table.set_readonly(false);
        for item in &items[*known..] {
            let item = to_lua(&self.lua, item, true)?;
            freeze(&item)?;
            table.raw_push(item)?;
        }
        *known = items.len();
        table.set_readonly(true);
        Ok(LuaValue::Table(table.clone()))
    }

    fn call(&mut self, code: &Code, arguments: MultiValue) -> Result<Vec<Value>, Error> {
        let outcome = self.try_call(code, arguments);
        // Without a limit again: what is ours must not fail for what the script used.
        let _ = self.lua.set_memory_limit(0);
        let values = match (outcome, self.meter.tripped.get()) {
            (Ok(values), None) => values,
            (Ok(_), Some(kind)) => {
                return Err(Error { kind, message: limit_message(kind, self.meter.limits.get()), line: code.line });
            }
            (Err(error), _) => return Err(self.explain(code, &error)),
        };
        values.iter().map(|value| from_lua(&self.lua, value)).collect::<mlua::Result<_>>().map_err(|error| Error {
            kind: ErrorKind::Code,
            message: line_and_message(&error).1,
            line: code.line,
        })
    }

    fn try_call(&mut self, code: &Code, arguments: MultiValue) -> mlua::Result<MultiValue> {
        if !self.functions.contains_key(&code.id) {
            if self.functions.len() >= MOST_FUNCTIONS {
                self.functions.clear();
            }
            let function = self.lua.load(&*code.chunk).set_name(CHUNK).into_function()?;
            self.functions.insert(code.id, function);
        }
        let function = &self.functions[&code.id];
        self.meter.steps.set(0);
        self.meter.tripped.set(None);
        self.meter.since.set(Instant::now());
        self.lua.set_memory_limit(self.lua.used_memory() + self.meter.limits.get().memory)?;
        function.call(arguments)
    }

    fn explain(&self, code: &Code, error: &mlua::Error) -> Error {
        let (line, message) = line_and_message(error);
        let kind = match self.meter.tripped.get() {
            Some(kind) => kind,
            None if message.contains("not enough memory") => ErrorKind::Memory,
            None => ErrorKind::Code,
        };
        let message = match kind {
            ErrorKind::Code => message,
            kind => limit_message(kind, self.meter.limits.get()),
        };
        Error { kind, message, line: code.line + line.saturating_sub(1) }
    }
}

fn limit_message(kind: ErrorKind, limits: Limits) -> String {
    match kind {
        ErrorKind::Steps => format!("the code ran longer than its limit of {} steps", limits.steps),
        ErrorKind::Memory => format!("the code needs more than its limit of {} MiB of memory", limits.memory >> 20),
        ErrorKind::Time => format!("the code ran longer than its limit of {} s", limits.time.as_secs()),
        ErrorKind::Stopped => "the code was stopped".into(),
        ErrorKind::Code => "the code failed".into(),
    }
}

fn set_interrupt(lua: &Lua, meter: &Rc<Meter>, backend: &Rc<RefCell<Backend>>) {
    let (meter, backend) = (meter.clone(), backend.clone());
    lua.set_interrupt(move |lua| {
        let steps = meter.steps.get() + 1;
        meter.steps.set(steps);
        let limits = meter.limits.get();
        if steps > limits.steps {
            meter.tripped.set(Some(ErrorKind::Steps));
        } else if steps % STEPS_PER_LOOK == 0 {
            if meter.since.get().elapsed() > limits.time {
                meter.tripped.set(Some(ErrorKind::Time));
            } else if let Ok(mut backend) = backend.try_borrow_mut()
                && let Backend::Remote(remote) = &mut *backend
                && remote.stopped()
            {
                meter.tripped.set(Some(ErrorKind::Stopped));
            }
        }
        // Once tripped always tripped, so that `pcall` only delays the end by one step.
        if meter.tripped.get().is_some() {
            let line = lua.inspect_stack(0, |frame| frame.current_line()).flatten().unwrap_or(1);
            return Err(mlua::Error::runtime(format!("{CHUNK_PREFIX}{line}: limit")));
        }
        Ok(VmState::Continue)
    });
}

/// `RemoteSet.new()` and its like, `print`, and the methods of shared objects.
fn install_shared(lua: &Lua, backend: &Rc<RefCell<Backend>>) -> mlua::Result<()> {
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
                    "{} objects are created by the code of controllers, not of activities",
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
                let backend = backend.ok_or_else(|| mlua::Error::runtime("no shared objects here"))?;
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
    let Some((_, method, least, most)) = methods(object.kind).iter().find(|(known, ..)| *known == name) else {
        return Err(mlua::Error::runtime(format!("a {kind} has no method {name:?}")));
    };
    if arguments.len() < *least || arguments.len() > *most {
        return Err(mlua::Error::runtime(format!("{kind}:{name} takes {most} arguments, got {}", arguments.len())));
    }
    let arguments = arguments.iter().map(|value| from_lua(lua, value)).collect::<mlua::Result<Vec<_>>>()?;
    let answer = match &mut *backend.borrow_mut() {
        Backend::Local { objects, effects, undo } => {
            if !objects.is_home_of(object) {
                return Err(mlua::Error::runtime(format!("this {kind} belongs to another process")));
            }
            let call = Call { object: object.id, method: *method, arguments };
            objects.call_undoable(&call).map(|(value, take_back)| {
                if method.changes() {
                    undo.push(take_back);
                    effects.calls.push(call);
                }
                value
            })
        }
        Backend::Remote(remote) => remote.call(object, *method, arguments),
        Backend::Nothing => Err("no shared objects here".into()),
    };
    to_lua(lua, &answer.map_err(|message| mlua::Error::runtime(format!("{kind}:{name}: {message}")))?, false)
}

const CHUNK: &str = "=lua";
const CHUNK_PREFIX: &str = "lua:";

/// The line in the chunk, from 1, and the message without place and traceback.
pub(super) fn line_and_message(error: &mlua::Error) -> (u32, String) {
    let (text, trace) = match error {
        mlua::Error::CallbackError { traceback, cause } => {
            let mut cause: &mlua::Error = cause;
            while let mlua::Error::CallbackError { cause: inner, .. } = cause {
                cause = inner;
            }
            (line_and_message(cause), Some(traceback.as_str()))
        }
        mlua::Error::RuntimeError(text) | mlua::Error::SyntaxError { message: text, .. } => {
            let (message, trace) = text.split_once("\nstack traceback:").unwrap_or((text, ""));
            (place(message), Some(trace))
        }
        other => (place(&other.to_string()), None),
    };
    match text {
        (0, message) => (trace.and_then(line_in).unwrap_or(1), message),
        placed => placed,
    }
}

/// Takes `lua:12: ` or `[string "…"]:12: ` off the front of a message; line 0 when there is none.
fn place(message: &str) -> (u32, String) {
    // An error in one of our wrappers is the author's, where the wrapper was called.
    if let Some((_, text)) = message.strip_prefix("prelude:").and_then(|rest| rest.split_once(": ")) {
        return (0, text.to_owned());
    }
    let rest = message
        .strip_prefix(CHUNK_PREFIX)
        .or_else(|| message.strip_prefix('[').and_then(|rest| rest.split_once("]:").map(|(_, rest)| rest)))
        .or_else(|| message.strip_prefix(':'));
    match rest.and_then(|rest| rest.split_once(": ")).and_then(|(line, text)| Some((line.parse().ok()?, text))) {
        Some((line, text)) => (line, text.to_owned()),
        None => (0, message.to_owned()),
    }
}

fn line_in(trace: &str) -> Option<u32> {
    trace.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix(CHUNK_PREFIX)?;
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
    })
}

/// Read-only tables of large lists and maps, so that reading one item of a long list in every turn of a loop does not
/// convert the whole list in every turn.
#[derive(Default)]
struct Frozen {
    tables: HashMap<usize, (Value, Table)>,
    items: usize,
}

impl Frozen {
    /// Smaller ones are converted each time.
    const WORTH: usize = 16;
    /// Items kept at most, before all are dropped.
    const MOST: usize = 1_000_000;

    fn get(&mut self, lua: &Lua, value: &Value) -> mlua::Result<LuaValue> {
        let (address, length) = match value {
            Value::List(items) => (Arc::as_ptr(items).addr(), items.len()),
            Value::Map(map) => (Arc::as_ptr(map).addr(), map.len()),
            _ => return to_lua(lua, value, false),
        };
        if length < Self::WORTH {
            let converted = to_lua(lua, value, false)?;
            freeze(&converted)?;
            return Ok(converted);
        }
        if let Some((_, table)) = self.tables.get(&address) {
            return Ok(LuaValue::Table(table.clone()));
        }
        if self.items + length > Self::MOST {
            self.tables.clear();
            self.items = 0;
        }
        let converted = to_lua(lua, value, false)?;
        freeze(&converted)?;
        if let LuaValue::Table(table) = &converted {
            // The value is kept too: its address must not come to mean another one.
            self.tables.insert(address, (value.clone(), table.clone()));
            self.items += length;
        }
        Ok(converted)
    }
}
