//! A task: what a coordinator sends to run one attempt, and what the worker must offer.

use std::sync::Arc;

use xavantes_model::definition::{ActivityCode, ActivityType, Requires};
use xavantes_proto::{AttemptKey, v1};

use crate::data::locations::Need;

/// An attempt to be run by a worker or by another coordinator.
#[derive(Debug, Clone)]
pub struct Task {
    /// Key of the attempt.
    pub key: AttemptKey,
    /// Program that defines the activity or subtree.
    pub program: Arc<v1::Program>,
    /// What a worker must offer to run the activity.
    pub needs: Needs,
    /// Files that the activity reads.
    pub files: Vec<Need>,
    /// Node on which the element failed before; another one is better.
    pub avoid: Option<Arc<str>>,
    /// The message to the worker or coordinator.
    pub job: v1::Job,
}

/// What a worker must offer to run an activity. A subtree needs nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Slots.
    pub cpus: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Graphics processors.
    pub gpus: u32,
    /// Tags of the worker.
    pub tags: Vec<Arc<str>>,
    /// Language that the worker has an interpreter for.
    pub language: Option<Arc<str>>,
    /// Whether the worker runs containers.
    pub container: bool,
}

impl From<&Needs> for v1::ActivityNeeds {
    fn from(needs: &Needs) -> Self {
        Self {
            slots: needs.cpus,
            memory: needs.memory,
            gpus: needs.gpus,
            tags: needs.tags.iter().map(ToString::to_string).collect(),
            language: needs.language.as_deref().unwrap_or_default().to_owned(),
            container: needs.container,
        }
    }
}

impl Needs {
    /// The needs of activities of this type.
    pub fn of(activity: &ActivityType) -> Self {
        let Requires { cpus, memory, gpus, ref tags, .. } = activity.requires;
        let container = activity.launch.image.is_some();
        let language = match &activity.code {
            // A container image brings its own interpreter.
            ActivityCode::Interpreter { language, .. } if !container => Some(language.clone()),
            _ => None,
        };
        Self { cpus, memory, gpus, tags: tags.clone(), language, container }
    }
}
