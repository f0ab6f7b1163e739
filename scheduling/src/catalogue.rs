//! The catalogue of all planners: one table from which commands, comparisons, tests and the documentation choose.
//!
//! The blind planner is not in it: it chooses the machines, too (see [`crate::blind`]).

use crate::auto::Auto;
pub use crate::planner_list::{CatalogueEntry, Effort, PlannerKind, PlannerLimit, SharedPlanner};
use crate::planner_list::{HUGE, OTHERS, objective, plain};

/// The entry with this name.
pub fn find(name: &str) -> Option<&'static CatalogueEntry> {
    ALL.iter().find(|entry| entry.name == name)
}

const AUTO: CatalogueEntry = objective(
    plain(
        "auto",
        PlannerKind::Search,
        "every cheap planner, then a proof if the problem is small, else the relay search",
        "ours",
        |effort| Box::new(Auto { threads: effort.threads, until_stopped: effort.until_stopped, ..Auto::default() }),
    ),
    HUGE,
);

/// All planners; `auto` is the first.
pub const ALL: &[CatalogueEntry] = &{
    let mut all = [AUTO; OTHERS.len() + 1];
    let mut place = 0;
    while place < OTHERS.len() {
        all[place + 1] = OTHERS[place];
        place += 1;
    }
    all
};
