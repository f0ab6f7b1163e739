//! What steps of the engine yield to the driver.

use std::sync::Arc;

use xavantes_model::value::Value;

use crate::command::Command;
use crate::event::Event;

/// What steps yield. A driver may let several steps append to one output, and store their events together.
#[derive(Debug, Default, PartialEq)]
pub struct StepOutput {
    /// Events to journal, in order, before the driver carries out any of the commands.
    pub events: Vec<Event>,
    /// Effects to carry out.
    pub commands: Vec<Command>,
    /// Bytes of the values in `events`, approximately. A driver that takes the events sets it back to 0.
    pub bytes: u64,
    /// Results of completed elements, if the process is followed ([`Engine::set_followed`](crate::Engine::set_followed)).
    pub products: Vec<Product>,
}

/// The results of an element that completed.
#[derive(Debug, Clone, PartialEq)]
pub struct Product {
    /// The path of the element.
    pub path: String,
    /// Results by name, of an activity, a subprocess or a controller that ran on another coordinator.
    pub results: Vec<(Arc<str>, Value)>,
    /// The value that the loop collects, of an iteration.
    pub collected: Option<Value>,
}
