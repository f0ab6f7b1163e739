//! The interpreter of processes, without I/O, clock or threads.
//!
//! [`Engine::step`] takes an [`Input`] (what happened) and yields [`Event`]s (facts to be journaled) and [`Command`]s
//! (effects wanted). The state changes through `apply(event)` alone, live and in replay, so that the journal and the
//! state cannot disagree. What to do next is always read off the state, never remembered beside it: after any prefix of
//! the journal the engine goes on from there.
//!
//! | file | is about |
//! |---|---|
//! | `state` | what is alive in a process |
//! | `event`, `apply` | facts, and what each does to the state |
//! | `engine` | the agenda: who has something to do, and room to do it |
//! | `scope` | values: binding parameters, running scripts |
//! | `flow` | controllers: what comes next in a sequence, switch, loop or `PAR` |
//! | `ending` | failure, `CATCH`, `FINALLY`, retries, ends |
//! | `attempt` | activities and delegated subtrees: attempts and their answers, calls of shared objects |
//! | `history` | what has become of everything, in numbers |
//! | `steer` | paths; cancel, pause, resume, retry and set |
//! | `view` | what a monitor sees |

mod apply;
mod attempt;
mod ending;
mod engine;
mod event;
mod failure;
mod flow;
mod history;
mod id;
mod input;
mod scope;
mod state;
mod steer;
mod view;

pub use engine::{Engine, MAX_CALL_DEPTH, Output, Product, Root, Start};
pub use event::{Begin, Change, Event, Outputs, Place};
pub use failure::{Failure, FailureKind};
pub use history::{History, MOST_FAILURES, MOST_STEERED, Steered, Tally};
pub use id::{ElementId, Time};
pub use input::{Action, Answer, Command, Delegation, Input, Rejection, SharedCall};
pub use state::{Outcome, Range, State, Stop};
pub use view::{Condition, View};
