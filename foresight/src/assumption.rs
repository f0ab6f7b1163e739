//! What a task graph assumes about a process, because its definition does not tell.

use std::collections::BTreeMap;
use std::fmt;

/// An assumption about one element of the definition, whatever the number of its iterations.
#[derive(Debug, Clone, PartialEq)]
pub struct Assumption {
    /// Names of elements down to this one, without iterations: `search/refine`.
    pub element: String,
    /// What is assumed of it.
    pub what: Assumed,
}

/// What is assumed of an element.
#[derive(Debug, Clone, PartialEq)]
pub enum Assumed {
    /// The loop runs this many iterations.
    Iterations {
        /// How many.
        count: u64,
        /// Whether the user expects it; otherwise it is the default.
        expected: bool,
    },
    /// The switch takes this case.
    Branch {
        /// The name of the case.
        case: String,
        /// Whether the user expects it; otherwise it is the case with the most work.
        expected: bool,
    },
    /// Several iterations are one task, as long as all of them together.
    Chunks {
        /// Iterations.
        iterations: u64,
        /// Chunks.
        chunks: u64,
    },
    /// The parallel controller waits for all of its elements, although `JOIN` or `EXIT_CONDITION` may end it before.
    AllElements,
    /// The types call each other again and again; from here on they are one task.
    Recursion,
    /// The code of the element failed with what is known.
    Code {
        /// Its message.
        message: String,
    },
    /// No estimate and no history says how long activities of this type take.
    Seconds {
        /// The activity type.
        activity: String,
        /// What is assumed instead.
        seconds: f64,
    },
}

impl fmt::Display for Assumption {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let element = &self.element;
        let because = |expected: bool| if expected { "as expected" } else { "by default" };
        match &self.what {
            Assumed::Iterations { count, expected } => {
                write!(out, "{element} runs {count} iterations, {}", because(*expected))
            }
            Assumed::Branch { case, expected: true } => write!(out, "{element} takes {case}, as expected"),
            Assumed::Branch { case, expected: false } => {
                write!(out, "{element} takes {case}, the case with the most work")
            }
            Assumed::Chunks { iterations, chunks } => {
                write!(out, "{element}: {iterations} iterations are planned in {chunks} chunks")
            }
            Assumed::AllElements => write!(out, "{element} runs all of its elements to their end"),
            Assumed::Recursion => {
                write!(out, "{element} calls no further process: the recursion is planned as one task")
            }
            Assumed::Code { message } => write!(out, "{element}: what its code computes is not known: {message}"),
            Assumed::Seconds { activity, seconds } => {
                write!(out, "activities of the type {activity} take {seconds} s: no estimate and no history says it")
            }
        }
    }
}

/// Collects assumptions, each element's once of each kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct AssumptionLog {
    found: BTreeMap<(String, u8), Assumption>,
}

impl AssumptionLog {
    /// Adds an assumption. Of several counts for the same element the largest stays.
    pub(crate) fn add(&mut self, element: String, what: Assumed) {
        let kind = match &what {
            Assumed::Iterations { .. } => 0,
            Assumed::Branch { .. } => 1,
            Assumed::Chunks { .. } => 2,
            Assumed::AllElements => 3,
            Assumed::Recursion => 4,
            Assumed::Code { .. } => 5,
            Assumed::Seconds { .. } => 6,
        };
        let place = match &what {
            // One line for each type, whatever the elements.
            Assumed::Seconds { activity, .. } => activity.clone(),
            _ => element.clone(),
        };
        let known = self.found.entry((place, kind)).or_insert_with(|| Assumption { element, what: what.clone() });
        match (&mut known.what, what) {
            (Assumed::Iterations { count, .. }, Assumed::Iterations { count: more, .. }) => *count = (*count).max(more),
            (Assumed::Chunks { iterations, chunks }, Assumed::Chunks { iterations: more, chunks: parts })
                if more > *iterations =>
            {
                (*iterations, *chunks) = (more, parts);
            }
            _ => {}
        }
    }

    /// All assumptions, those about structure first.
    pub(crate) fn finish(self) -> Vec<Assumption> {
        let mut all: Vec<_> = self.found.into_values().collect();
        all.sort_by_key(|assumption| matches!(assumption.what, Assumed::Seconds { .. }));
        all
    }
}
