//! What happens when a schedule meets reality: a simulator of schedules by discrete events.
//!
//! Machines run the tasks of the schedule in its order, each as early as parents, data and cores allow. Without
//! disturbances the result is the schedule itself, or better where the schedule leaves gaps. Options add noise,
//! contention and failures.
//!
//! This is not the crate `simulation`, which runs the program's own nodes in a simulated world. Here is no program:
//! tasks are numbers of seconds.

mod event_loop;
mod online;
mod options;

pub use online::{OnlineRule, simulate_online};
pub use options::{Options, SimulatedRun};

use crate::problem::Problem;
use crate::schedule::Schedule;

/// Carries out a schedule, which must be valid.
pub fn simulate(problem: &Problem, schedule: &Schedule, options: &Options) -> SimulatedRun {
    event_loop::Simulator::new(problem, schedule, options).run()
}
