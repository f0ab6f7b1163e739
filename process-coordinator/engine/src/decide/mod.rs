//! What each element does next. The functions here read the state and emit events and commands; they never change the
//! state directly. They decide from the state alone, so examining an element twice does no harm.
//!
//! | file | is about |
//! |---|---|
//! | `controllers` | the next element of a sequence, switch, loop or `PAR` |
//! | `loop_bounds` | the bounds of a controller: iterations, cases, `JOIN`, `MAX_PARALLEL` |
//! | `parameters` | the values with which an element begins |
//! | `scripts` | the variables that code reads, and the effects of code |
//! | `budget` | the size that the state may have |
//! | `attempts` | activities and delegated subtrees: attempts and their answers |
//! | `shared_calls` | calls of shared objects by attempts |
//! | `ending` | `POST_CODE`, failure, `CATCH`, `FINALLY`, retries, the end |
//! | `stopping` | exits and cancellation |
//! | `timers` | time-outs and waits between tries |
//! | `steering` | cancel, pause, resume and retry by a user |
//! | `set` | changes of bounds, conditions and parameters by a user |

mod attempts;
pub(crate) mod budget;
mod controllers;
mod ending;
mod loop_bounds;
pub(crate) mod parameters;
mod scripts;
mod set;
mod shared_calls;
mod steering;
mod stopping;
mod timers;
