//! CTC (compromised time and cost) after Liu, Jin, Chen, Liu, Yuan and Yang 2010: each task runs on the machine with
//! the best compromise of its end and its cost. The weight of time is the least that keeps the deadline, found by
//! halving.

use super::common::{by_rank, cheapest_schedule, deadline, within_deadline};
use crate::ordered::Ordered;
use crate::partial_schedule::Candidate;
use crate::planner::{PlanError, Planner, Run};
use crate::problem::Problem;
use crate::schedule::Schedule;

/// Halvings of the weight.
const STEPS: usize = 12;

/// The CTC planner. Without a deadline it makes the cheapest schedule.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ctc;

impl Planner for Ctc {
    fn name(&self) -> &'static str {
        "ctc"
    }

    fn plan(&self, problem: &Problem, run: &mut Run<'_>) -> Result<Schedule, PlanError> {
        let Some(limit) = deadline(problem, run) else {
            return cheapest_schedule(problem);
        };
        let mut best = within_deadline(compromise(problem, 1.0)?, limit)?;
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..STEPS {
            let weight = (low + high) / 2.0;
            match within_deadline(compromise(problem, weight)?, limit) {
                Ok(schedule) => (best, high) = (schedule, weight),
                Err(_) => low = weight,
            }
        }
        Ok(best)
    }
}

/// Time and money count relative to their range over all machines.
fn compromise(problem: &Problem, weight: f64) -> Result<Schedule, PlanError> {
    by_rank(problem, |partial, task, candidates| {
        let range = |of: &dyn Fn(&Candidate) -> f64| {
            let low = candidates.iter().map(of).fold(f64::INFINITY, f64::min);
            let high = candidates.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
            (low, (high - low).max(1e-12))
        };
        let money = |candidate: &Candidate| partial.added_money(task, candidate);
        let ((first, time), (least, cost)) = (range(&|candidate| candidate.finish), range(&money));
        let key = |candidate: &&Candidate| {
            Ordered(weight * (candidate.finish - first) / time + (1.0 - weight) * (money(candidate) - least) / cost)
        };
        candidates.iter().min_by_key(key).copied()
    })
}
