//! Executors: they run the code of activities.
//!
//! | module | is about |
//! |---|---|
//! | `host` | what running activities may ask of the worker |
//! | `shared_calls` | calls of shared objects by one attempt |
//! | `lua` | Lua code, in threads of this process |
//! | `program` | external programs and scripts, in processes of their own |

pub(crate) mod host;
pub(crate) mod lua;
pub mod program;
pub(crate) mod shared_calls;
