//! Simulated runs of a plan.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use super::plan::AssumptionReport;

/// What many simulated runs of a plan took.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[cfg_attr(test, schemars(rename = "Simulation"))]
pub(crate) struct SimulationReport {
    /// Planner that made the plan
    pub algorithm: &'static str,
    /// Whether the planner decided in each run when tasks became ready, instead of before
    pub online: bool,
    /// Makespan of the plan
    pub planned_makespan_seconds: f64,
    /// Money of the plan
    pub planned_money: f64,
    /// Simulated runs
    pub runs: u64,
    /// Whether Ctrl-C ended the simulation
    pub interrupted: bool,
    /// Seed of the first run; further runs have the seeds that follow
    pub seed: u64,
    /// Makespans in seconds
    pub makespan_seconds: Distribution,
    /// Money
    pub money: Distribution,
    /// Failed attempts
    pub failures: Distribution,
    /// How often the deadline was met
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<LimitMet>,
    /// How often the budget was kept
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<LimitMet>,
    /// What the plan assumes about the process
    pub assumptions: Vec<AssumptionReport>,
}

/// A quantity of many runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Distribution {
    /// Least value
    pub min: f64,
    /// Half of the runs have at most this
    pub median: f64,
    /// Mean
    pub mean: f64,
    /// 95 of 100 runs have at most this
    pub p95: f64,
    /// Largest value
    pub max: f64,
}

/// How often a limit was kept.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct LimitMet {
    /// The limit, in seconds or money
    pub limit: f64,
    /// Part of the runs that kept it
    pub met: f64,
}

impl Distribution {
    /// The distribution of these values.
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        // The least value that at least this part of all values does not exceed.
        let part = |part: f64| {
            let place = (part * sorted.len() as f64).ceil() as usize;
            sorted.get(place.saturating_sub(1)).copied().unwrap_or(0.0)
        };
        let mean = sorted.iter().sum::<f64>() / sorted.len().max(1) as f64;
        Self { min: part(0.0), median: part(0.5), mean, p95: part(0.95), max: part(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_their_quantiles() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let expected = Distribution { min: 1.0, median: 50.0, mean: 50.5, p95: 95.0, max: 100.0 };
        assert_eq!(Distribution::of(&values), expected);
        assert_eq!(Distribution::of(&[]).max, 0.0);
    }
}
