//! HEFT (heterogeneous earliest finish time) of Topcuoglu, Hariri and Wu, IEEE TPDS 13(3), 2002: tasks by descending
//! upward rank, each on the machine where it ends first, with or without insertion into gaps. Ties: parents before
//! children, then the order of definition.

use crate::partial_schedule::Partial;
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::rank::Ranks;
use crate::schedule::Schedule;
use crate::timeline::Fill;

/// The HEFT planner.
#[derive(Debug, Clone, Copy)]
pub struct Heft {
    /// Whether tasks use gaps.
    pub fill: Fill,
}

impl Default for Heft {
    fn default() -> Self {
        Self { fill: Fill::Insert }
    }
}

impl Planner for Heft {
    fn name(&self) -> &'static str {
        match self.fill {
            Fill::Insert => "heft",
            Fill::Append => "heft-append",
        }
    }

    fn plan(&self, problem: &Problem, _: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let mut partial = Partial::new(problem);
        for task in Ranks::of(problem).order(problem) {
            let candidate = partial.earliest_finish(task, self.fill)?;
            partial.place(task, candidate);
        }
        partial.into_schedule()
    }
}
