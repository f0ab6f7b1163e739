//! Lua in definitions: checked before anything runs, compiled once, run in a sandbox.
//!
//! A script is a pure function. The values that it reads from the scopes around it are its arguments, and the values
//! that it assigns are its results. Shared objects are the only thing that it reaches while it runs.
//!
//! | module | content |
//! |---|---|
//! | `script_check` | [`check()`]: syntax and free names of a text |
//! | `free_names` | walks the syntax tree for names that a text takes from outside |
//! | `code` | [`Code`]: a text made into a function of its inputs |
//! | `compiler` | Luau's compiler and the places in its messages |
//! | `sandbox` | [`Sandbox`]: runs [`Code`] |
//! | `script_limits` | [`ScriptLimits`] of a run and [`Error`]s |
//! | `lua_objects` | shared objects and output, as code reaches them |
//! | `arguments` | arguments of scripts as Lua values |
//! | `lua_values` | values across the Lua boundary |
//! | `int64` | 64-bit integers in Lua |
//! | `prelude` | the globals that code finds |

mod arguments;
mod code;
mod compiler;
mod free_names;
mod int64;
mod lua_objects;
mod lua_values;
mod prelude;
mod sandbox;
mod script_check;
mod script_limits;

pub use arguments::Argument;
pub use code::{Code, Port};
pub use free_names::NameUse;
pub use lua_objects::{Effects, RemoteObjects};
pub use prelude::BUILTINS;
pub(crate) use prelude::{RAISES, TEXT_OF};
pub use sandbox::Sandbox;
pub use script_check::{Form, MAX_CODE, MAX_NAMES, SyntaxError, check};
pub use script_limits::{Error, ErrorKind, ScriptLimits};
