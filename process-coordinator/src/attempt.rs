//! Attempts: their names, what they need, and what is sent for them.

use std::sync::Arc;

use xavantes_model::definition::{ActivityCode, ActivityType, Requires};
pub use xavantes_proto::AttemptKey;
use xavantes_proto::v1;

use crate::data::locations::Need;

/// An attempt that wants a worker, or another coordinator.
#[derive(Debug, Clone)]
pub struct Task {
    /// Its name.
    pub key: AttemptKey,
    /// The program that its activity is of.
    pub program: Arc<v1::Program>,
    /// What its worker must have.
    pub needs: Needs,
    /// Files that it needs.
    pub files: Vec<Need>,
    /// Another worker is better: it failed there.
    pub avoid: Option<Arc<str>>,
    /// What is sent.
    pub job: v1::Job,
}

/// What a worker must have to run an activity. A subtree needs nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Slots.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Graphics processors.
    pub gpus: u32,
    /// What it must be tagged with.
    pub tags: Vec<Arc<str>>,
    /// The language that it must have an interpreter for.
    pub language: Option<Arc<str>>,
    /// It must run containers.
    pub container: bool,
}

impl Needs {
    /// Of an activity of this type.
    pub fn of(activity: &ActivityType) -> Self {
        let Requires { cpus, memory, gpus, ref tags, .. } = activity.requires;
        let container = activity.launch.image.is_some();
        let language = match &activity.code {
            // An image has its own.
            ActivityCode::Interpreter { language, .. } if !container => Some(language.clone()),
            _ => None,
        };
        Self { cpus, memory, gpus, tags: tags.clone(), language, container }
    }
}
