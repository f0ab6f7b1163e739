//! Runs scripts: one Lua state for many scripts of many processes. Each run has limits of its own and leaves no trace
//! for the next one.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, VmState};

use super::arguments::{Argument, ArgumentCache};
use super::code::Code;
use super::compiler::{AUTHOR_CHUNK, AUTHOR_PREFIX, is_out_of_memory, line_and_message};
use super::lua_objects::{Backend, Effects, RemoteObjects, install_shared};
use super::lua_values::{EMPTY_MAP, from_lua, to_lua};
use super::prelude;
use super::script_limits::{Error, ErrorKind, Meter, ScriptLimits, limit_message};
use crate::shared_objects::Objects;
use crate::value::Value;

/// Upper bound on the compiled functions of a sandbox. A coordinator has few types at once, so dropping all functions
/// at the bound is rare.
const MAX_FUNCTIONS: usize = 16_384;

/// A sandbox belongs to one thread; each thread that runs scripts has one of its own.
pub struct Sandbox {
    lua: Lua,
    /// Compiled functions by the id of their code.
    functions: HashMap<u64, Function>,
    backend: Rc<RefCell<Backend>>,
    meter: Rc<Meter>,
    arguments: ArgumentCache,
    turn: Turn,
}

/// The time that scripts of controllers have taken since the caller began a turn.
struct Turn {
    spent: Duration,
    limit: Duration,
}

impl Sandbox {
    /// Makes a fresh sandbox. `jit` compiles scripts to machine code, which pays off for long computations.
    pub fn new(limits: ScriptLimits, jit: bool) -> Result<Self, Error> {
        Self::build(limits, jit).map_err(|error| Error {
            kind: ErrorKind::Code,
            message: format!("cannot start the Lua sandbox: {error}"),
            line: 0,
        })
    }

    fn build(limits: ScriptLimits, jit: bool) -> mlua::Result<Self> {
        let libraries = StdLib::COROUTINE
            | StdLib::TABLE
            | StdLib::STRING
            | StdLib::UTF8
            | StdLib::BIT
            | StdLib::MATH
            | StdLib::BUFFER;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        lua.enable_jit(jit);
        let backend = Rc::new(RefCell::new(Backend::Idle));
        let meter = Rc::new(Meter::new(limits));
        prelude::install(&lua, limits.memory)?;
        let empty_map = lua.create_table()?;
        empty_map.set_readonly(true);
        lua.set_named_registry_value(EMPTY_MAP, empty_map)?;
        install_shared(&lua, &backend)?;
        lua.sandbox(true)?;
        lua.globals().set_readonly(true);
        set_interrupt(&lua, &meter, &backend);
        Ok(Self {
            lua,
            functions: HashMap::new(),
            backend,
            meter,
            arguments: ArgumentCache::default(),
            turn: Turn { spent: Duration::ZERO, limit: Duration::MAX },
        })
    }

    /// Begins a turn of scripts that together should take no longer than this.
    pub fn begin_turn(&mut self, limit: Duration) {
        self.turn = Turn { spent: Duration::ZERO, limit };
    }

    /// The scripts of this turn have taken their time: others should run next. Always false before the first turn.
    pub fn is_turn_over(&self) -> bool {
        self.turn.spent >= self.turn.limit
    }

    /// Runs the code of a controller. Returns its results and its effects on `objects`. `objects` itself is unchanged:
    /// the caller journals the effects first and applies them then.
    pub fn run<'a>(
        &mut self,
        code: &Code,
        arguments: impl IntoIterator<Item = Argument<'a>>,
        objects: &mut Objects,
    ) -> Result<(Vec<Value>, Effects), Error> {
        let began = Instant::now();
        let converted = self.arguments.convert(&self.lua, arguments);
        let arguments = converted.map_err(|error| self.explain(code, &error))?;
        *self.backend.borrow_mut() = Backend::Local {
            objects: std::mem::take(objects),
            effects: Effects::default(),
            undo: Vec::new(),
            room: self.meter.limits.memory as u64,
        };
        let outcome = self.call(code, arguments);
        let mut effects = Effects::default();
        if let Backend::Local { objects: mut borrowed, effects: made, undo, .. } = self.backend.replace(Backend::Idle) {
            undo.into_iter().rev().for_each(|undo| borrowed.undo(undo));
            made.created.iter().rev().for_each(|created| borrowed.undo_create(created));
            *objects = borrowed;
            effects = made;
        }
        self.turn.spent += began.elapsed();
        Ok((outcome?, effects))
    }

    /// Runs the code of an activity.
    pub fn run_activity(
        &mut self,
        code: &Code,
        arguments: &[Value],
        time: Duration,
        remote: Box<dyn RemoteObjects>,
    ) -> Result<Vec<Value>, Error> {
        self.meter.time.set(time);
        let converted: mlua::Result<MultiValue> =
            arguments.iter().map(|value| to_lua(&self.lua, value, false)).collect();
        let converted = converted.map_err(|error| self.explain(code, &error))?;
        *self.backend.borrow_mut() = Backend::Remote(remote);
        let outcome = self.call(code, converted);
        *self.backend.borrow_mut() = Backend::Idle;
        outcome
    }
    fn call(&mut self, code: &Code, arguments: MultiValue) -> Result<Vec<Value>, Error> {
        let outcome = self.try_call(code, arguments);
        // The conversion of the results is not the script's doing, so it has no limit.
        let _ = self.lua.set_memory_limit(0);
        let values = match (outcome, self.meter.exceeded.get()) {
            (Ok(values), None) => values,
            (Ok(_), Some(kind)) => {
                return Err(Error { kind, message: limit_message(kind, self.meter.limits()), line: code.line });
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
            if self.functions.len() >= MAX_FUNCTIONS {
                self.functions.clear();
            }
            let function = self.lua.load(&*code.chunk).set_name(AUTHOR_CHUNK).into_function()?;
            self.functions.insert(code.id, function);
        }
        let function = &self.functions[&code.id];
        self.meter.reset();
        self.lua.set_memory_limit(self.lua.used_memory() + self.meter.limits.memory)?;
        function.call(arguments)
    }

    /// Words an error for the author and finds its line in the document.
    fn explain(&self, code: &Code, error: &mlua::Error) -> Error {
        let (line, message) = line_and_message(error);
        let kind = match self.meter.exceeded.get() {
            Some(kind) => kind,
            None if is_out_of_memory(error) => ErrorKind::Memory,
            None => ErrorKind::Code,
        };
        let message = match kind {
            ErrorKind::Code => message,
            kind => limit_message(kind, self.meter.limits()),
        };
        Error { kind, message, line: code.line + line.saturating_sub(1) }
    }
}

/// Installs the handler that Luau calls at every loop iteration and call.
fn set_interrupt(lua: &Lua, meter: &Rc<Meter>, backend: &Rc<RefCell<Backend>>) {
    let (meter, backend) = (meter.clone(), backend.clone());
    lua.set_interrupt(move |lua| {
        let stopped = || match backend.try_borrow_mut().as_deref_mut() {
            Ok(Backend::Remote(remote)) => remote.stopped(),
            _ => false,
        };
        if meter.step(stopped).is_some() {
            let line = lua.inspect_stack(0, |frame| frame.current_line()).flatten().unwrap_or(1);
            return Err(mlua::Error::runtime(format!("{AUTHOR_PREFIX}{line}: limit")));
        }
        Ok(VmState::Continue)
    });
}
