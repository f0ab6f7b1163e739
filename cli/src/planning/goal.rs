//! What a plan is to achieve: the objective, and the limits that it must keep.

use xavantes_scheduling::{LowerBounds, Objective, PlanValue, Problem};

use crate::output::text::units;

/// What the user wants to be small.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wish {
    Makespan,
    Money,
    Weighted { weight: f64, scales: Option<(f64, f64)> },
}

/// Parses `--objective`.
pub(crate) fn parse(text: &str) -> Result<Wish, String> {
    let wrong = || format!("an objective is makespan, money, or weighted=PHI[,TIME,MONEY], not {text:?}");
    match text {
        "makespan" => return Ok(Wish::Makespan),
        "money" => return Ok(Wish::Money),
        _ => {}
    }
    let numbers = text.strip_prefix("weighted=").ok_or_else(wrong)?;
    let numbers: Vec<f64> =
        numbers.split(',').map(|number| number.trim().parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
    let positive = |number: f64| number.is_finite() && number > 0.0;
    match numbers[..] {
        [weight] if (0.0..=1.0).contains(&weight) => Ok(Wish::Weighted { weight, scales: None }),
        [weight, time, money] if (0.0..=1.0).contains(&weight) && positive(time) && positive(money) => {
            Ok(Wish::Weighted { weight, scales: Some((time, money)) })
        }
        [weight] | [weight, ..] if !(0.0..=1.0).contains(&weight) => Err(format!("PHI is from 0 to 1, not {weight}")),
        _ => Err(wrong()),
    }
}

/// The objective of a plan and its limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal {
    pub objective: Objective,
    pub deadline: Option<f64>,
    pub budget: Option<f64>,
}

impl Goal {
    /// The goal of what the user wants. Without scales, a weighted objective is relative to the lower bounds.
    pub(crate) fn new(wish: Option<Wish>, deadline: Option<f64>, budget: Option<f64>, bounds: &LowerBounds) -> Self {
        let wish = wish.unwrap_or(match (deadline, budget) {
            (Some(_), None) => Wish::Money,
            _ => Wish::Makespan,
        });
        let scale = |bound: f64| if bound > 0.0 && bound.is_finite() { bound } else { 1.0 };
        let objective = match (wish, deadline, budget) {
            (Wish::Makespan, _, Some(budget)) => Objective::MakespanWithinBudget { budget },
            (Wish::Makespan, _, None) => Objective::Makespan,
            (Wish::Money, Some(deadline), _) => Objective::MoneyWithinDeadline { deadline },
            (Wish::Money, None, _) => Objective::Money,
            (Wish::Weighted { weight, scales }, ..) => {
                let (time_scale, money_scale) = scales.unwrap_or((scale(bounds.makespan), scale(bounds.money)));
                Objective::Weighted { weight, time_scale, money_scale }
            }
        };
        Self { objective, deadline, budget }
    }

    /// The limit with this value.
    pub(crate) fn limit(&self, limit: f64) -> Broken {
        match self.budget == Some(limit) {
            true => Broken::Budget { limit },
            false => Broken::Deadline { limit },
        }
    }

    /// What is wrong with values that break a limit.
    pub(crate) fn broken(&self, value: PlanValue) -> Option<Broken> {
        let over = |found: f64, limit: Option<f64>| limit.filter(|limit| found > limit * (1.0 + 1e-9));
        if let Some(limit) = over(value.makespan, self.deadline) {
            return Some(Broken::Deadline { limit });
        }
        over(value.money, self.budget).map(|limit| Broken::Budget { limit })
    }
}

/// A limit that cannot be kept.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Broken {
    Deadline { limit: f64 },
    Budget { limit: f64 },
}

impl Broken {
    /// The objective that comes as near to the limit as possible.
    pub(crate) fn nearest(self) -> Objective {
        match self {
            Self::Deadline { .. } => Objective::Makespan,
            Self::Budget { .. } => Objective::Money,
        }
    }

    /// Why the limit cannot be kept: what no schedule can do, or what the best schedule does that was found.
    pub(crate) fn explain(self, bounds: &LowerBounds, found: Option<PlanValue>) -> String {
        let shown = |seconds: f64| units::precise(seconds);
        match self {
            Self::Deadline { limit } if bounds.makespan > limit => {
                format!("no schedule can end within {}: the least possible is {}", shown(limit), shown(bounds.makespan))
            }
            Self::Budget { limit } if bounds.money > limit => {
                format!("no schedule can cost {limit} or less: the least possible is {}", units::money(bounds.money))
            }
            Self::Deadline { limit } => {
                let found = found.map(|value| format!("; the shortest schedule found takes {}", shown(value.makespan)));
                let (found, least) = (found.unwrap_or_default(), shown(bounds.makespan));
                format!(
                    "no schedule was found that ends within {}{found}, and none can take less than {least}",
                    shown(limit)
                )
            }
            Self::Budget { limit } => {
                let found =
                    found.map(|value| format!("; the cheapest schedule found costs {}", units::money(value.money)));
                let (found, least) = (found.unwrap_or_default(), units::money(bounds.money));
                format!("no schedule was found that costs {limit} or less{found}, and none can cost less than {least}")
            }
        }
    }
}

/// How far a value is above the least that is possible; nothing if that is 0.
pub(crate) fn gap(problem: &Problem, objective: Objective, value: PlanValue, bounds: &LowerBounds) -> Option<f64> {
    let (found, least) = (objective.score(value).value, bounds.value(objective));
    (problem.task_count() > 0 && least > 0.0).then(|| (found / least - 1.0).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objectives_are_read() {
        assert_eq!(parse("makespan"), Ok(Wish::Makespan));
        assert_eq!(parse("money"), Ok(Wish::Money));
        assert_eq!(parse("weighted=0.3"), Ok(Wish::Weighted { weight: 0.3, scales: None }));
        let scales = Some((46.0, 168.0));
        assert_eq!(parse("weighted=0.5,46,168"), Ok(Wish::Weighted { weight: 0.5, scales }));
        for wrong in ["", "time", "weighted", "weighted=", "weighted=a", "weighted=0.5,1", "weighted=0.5,0,1"] {
            assert!(parse(wrong).unwrap_err().starts_with("an objective is"), "{wrong}");
        }
        assert_eq!(parse("weighted=1.5").unwrap_err(), "PHI is from 0 to 1, not 1.5");
    }

    #[test]
    fn a_deadline_alone_asks_for_the_cheapest_schedule_within_it() {
        let bounds = LowerBounds { critical_path: 10.0, area: 5.0, makespan: 10.0, money: 2.0 };
        let goal = |wish, deadline, budget| Goal::new(wish, deadline, budget, &bounds).objective;
        assert_eq!(goal(None, None, None), Objective::Makespan);
        assert_eq!(goal(None, Some(9.0), None), Objective::MoneyWithinDeadline { deadline: 9.0 });
        assert_eq!(goal(None, Some(9.0), Some(3.0)), Objective::MakespanWithinBudget { budget: 3.0 });
        assert_eq!(goal(Some(Wish::Makespan), Some(9.0), None), Objective::Makespan);
        let weighted = Objective::Weighted { weight: 0.5, time_scale: 10.0, money_scale: 2.0 };
        assert_eq!(goal(Some(Wish::Weighted { weight: 0.5, scales: None }), None, None), weighted);
    }
}
