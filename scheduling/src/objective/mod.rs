//! What a planner makes small: time, money, a weighted sum of both, or one of them within a limit of the other.

mod money;
mod pareto;

pub use money::{machine_bills, money};
pub use pareto::ParetoSet;

use crate::problem::Problem;
use crate::schedule::Schedule;

/// Time and money of a schedule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlanValue {
    /// When the last task ends, in seconds.
    pub makespan: f64,
    /// What all machines cost.
    pub money: f64,
}

impl PlanValue {
    /// Time and money of a schedule.
    pub fn of(problem: &Problem, schedule: &Schedule) -> Self {
        Self { makespan: schedule.makespan(), money: money(problem, schedule) }
    }

    /// Whether this value is at least as good in both respects and better in one.
    pub fn dominates(&self, other: &Self) -> bool {
        self.makespan <= other.makespan && self.money <= other.money && self != other
    }
}

/// What a planner makes small.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Objective {
    /// The end of the last task.
    Makespan,
    /// What all machines cost.
    Money,
    /// `weight · makespan / time_scale + (1 − weight) · money / money_scale`: Stockinger 2020, (4.1). The scales only
    /// normalise; they are no limits.
    Weighted {
        /// The weight of time, φ in the paper.
        weight: f64,
        /// Divides the makespan, T_M in the paper.
        time_scale: f64,
        /// Divides the money, C_M in the paper. The tables of the paper use its whole part.
        money_scale: f64,
    },
    /// The makespan of schedules that cost at most this much.
    MakespanWithinBudget {
        /// The budget.
        budget: f64,
    },
    /// The money of schedules that end within this time.
    MoneyWithinDeadline {
        /// The deadline, in seconds.
        deadline: f64,
    },
}

/// How good a schedule is under an objective; smaller is better. A schedule that breaks the limit is worse than every
/// schedule that keeps it.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Score {
    /// How far the limit is exceeded, relative to the limit.
    pub excess: f64,
    /// What the objective counts.
    pub value: f64,
}

impl Score {
    /// Worse than every schedule.
    pub const WORST: Self = Self { excess: f64::INFINITY, value: f64::INFINITY };

    /// Whether this score is better by more than rounding.
    pub fn beats(&self, other: &Self) -> bool {
        let less = |a: f64, b: f64| a < b - 1e-9 * b.abs().min(f64::MAX);
        less(self.excess, other.excess) || (self.excess <= other.excess && less(self.value, other.value))
    }

    /// One number for methods that need differences: an excess counts a thousand times.
    pub fn scalar(&self) -> f64 {
        self.value * (1.0 + 1000.0 * self.excess)
    }
}

impl Objective {
    /// The objective of the tables of Stockinger 2020: equal weights, the whole part of the money's scale.
    pub fn balanced(time_scale: f64, money_scale: f64) -> Self {
        Self::Weighted { weight: 0.5, time_scale, money_scale: money_scale.floor() }
    }

    /// How good these values are.
    pub fn score(&self, value: PlanValue) -> Score {
        let excess = |found: f64, limit: f64| if found <= limit { 0.0 } else { (found - limit) / limit.max(1e-9) };
        match *self {
            Self::Makespan => Score { excess: 0.0, value: value.makespan },
            Self::Money => Score { excess: 0.0, value: value.money },
            Self::Weighted { weight, time_scale, money_scale } => Score {
                excess: 0.0,
                value: weight * value.makespan / time_scale + (1.0 - weight) * value.money / money_scale,
            },
            Self::MakespanWithinBudget { budget } => {
                Score { excess: excess(value.money, budget), value: value.makespan }
            }
            Self::MoneyWithinDeadline { deadline } => {
                Score { excess: excess(value.makespan, deadline), value: value.money }
            }
        }
    }

    /// How good a schedule is.
    pub fn of(&self, problem: &Problem, schedule: &Schedule) -> Score {
        self.score(PlanValue::of(problem, schedule))
    }

    /// Whether money matters, so that planners for time alone can skip its computation.
    pub fn needs_money(&self) -> bool {
        !matches!(self, Self::Makespan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weighted_objective_gives_the_printed_value_of_a_toy() {
        // 3_toy_10_A of Stockinger 2020, Table 5.12.
        let score = Objective::balanced(46.0, 168.9).score(PlanValue { makespan: 25.0, money: 65.0 });
        assert!((score.value - 0.465192).abs() < 1e-6, "{score:?}");
    }

    #[test]
    fn a_schedule_within_the_limit_beats_every_other() {
        let objective = Objective::MakespanWithinBudget { budget: 10.0 };
        let slow = objective.score(PlanValue { makespan: 100.0, money: 10.0 });
        let dear = objective.score(PlanValue { makespan: 1.0, money: 11.0 });
        assert!(slow.beats(&dear) && !dear.beats(&slow) && !slow.beats(&slow));
        assert!(dear.beats(&Score::WORST));
    }
}
