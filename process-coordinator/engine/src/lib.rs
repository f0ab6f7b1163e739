//! The interpreter of processes, without I/O, clock or threads.
//!
//! [`Engine::step`] takes an [`Input`] (what happened) and yields [`Event`]s (facts to journal) and [`Command`]s (effects
//! wanted). The state changes through `apply(event)` alone, live and in replay, so the journal and the state cannot
//! disagree. The engine decides from the state alone, so it can go on after any prefix of the journal.
//!
//! | module | is about |
//! |---|---|
//! | `engine` | the engine: steps, the agenda, capacity |
//! | `start` | engines for new processes, from snapshots and from journals |
//! | `input`, `rejection` | what happened, and why an input changed nothing |
//! | `step_output`, `event`, `command` | what steps yield: facts and wanted effects |
//! | `state` | the live elements of a process |
//! | `decide` | what each element does next |
//! | `apply` | the effect of each event on the state |
//! | `outcome`, `failure` | how elements end, and why they fail |
//! | `history` | counts, failures and interventions of the past |
//! | `live_view` | live elements as monitoring sees them |
//! | `element_id`, `time` | ids of element instances; time as the driver passes it in |

mod apply;
mod command;
mod decide;
mod element_id;
mod engine;
mod event;
mod failure;
mod history;
mod input;
mod live_view;
mod outcome;
mod rejection;
mod start;
mod state;
mod step_output;
mod time;

pub use apply::ApplyError;
pub use command::{Command, Delegation};
pub use decide::budget::HANDLER_RESERVE;
pub use decide::parameters::MAX_CALL_DEPTH;
pub use element_id::ElementId;
pub use engine::Engine;
pub use event::{AssignmentTarget, Bounds, ElementChange, Event, ScriptOutputs};
pub use failure::{Failure, FailureKind};
pub use history::{History, Intervention, MAX_RECORDED_FAILURES, MAX_RECORDED_INTERVENTIONS, Tally};
pub use input::{Action, Answer, Input, SharedCall};
pub use live_view::{CurrentBounds, ElementState, EndedCounts, LiveElement, LivePhase, PendingElement, View, WaitsFor};
pub use outcome::{Outcome, StopReason};
pub use rejection::Rejection;
pub use start::{Root, Start};
pub use state::body::Range;
pub use state::{Counts, EngineState};
pub use step_output::{Product, StepOutput};
pub use time::Time;
