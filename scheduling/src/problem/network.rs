//! The network: bytes per second between each pair of machines.

use super::ProblemError;
use crate::id::MachineId;

/// Bytes per second between machines, and a latency.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    latency: f64,
    rates: Rates,
}

#[derive(Debug, Clone, PartialEq)]
enum Rates {
    Unlimited,
    Uniform(f64),
    /// The slower end of a transfer decides.
    PerMachine(Vec<f64>),
    /// Row by row. The diagonal is not used.
    Matrix(usize, Vec<f64>),
}

impl Network {
    /// Transfers take no time.
    pub fn unlimited() -> Self {
        Self { latency: 0.0, rates: Rates::Unlimited }
    }

    /// All pairs of machines have the same rate.
    pub fn uniform(bytes_per_second: f64) -> Self {
        Self { latency: 0.0, rates: Rates::Uniform(bytes_per_second) }
    }

    /// Each machine has a rate; the slower end of a transfer decides.
    pub fn per_machine(bytes_per_second: Vec<f64>) -> Self {
        Self { latency: 0.0, rates: Rates::PerMachine(bytes_per_second) }
    }

    /// Each pair of machines has a rate: a square table, row by row. A rate of 0 says that there is no link.
    pub fn matrix(machines: usize, bytes_per_second: Vec<f64>) -> Self {
        Self { latency: 0.0, rates: Rates::Matrix(machines, bytes_per_second) }
    }

    /// Adds these seconds to every transfer.
    pub fn with_latency(self, seconds: f64) -> Self {
        Self { latency: seconds, ..self }
    }

    /// Bytes per second between two different machines.
    pub fn rate(&self, from: MachineId, to: MachineId) -> f64 {
        match &self.rates {
            Rates::Unlimited => f64::INFINITY,
            Rates::Uniform(rate) => *rate,
            Rates::PerMachine(rates) => rates[from.index()].min(rates[to.index()]),
            Rates::Matrix(machines, rates) => rates[from.index() * machines + to.index()],
        }
    }

    /// Seconds for this many bytes between two different machines. Nothing to transfer takes no time.
    pub fn seconds(&self, bytes: f64, from: MachineId, to: MachineId) -> f64 {
        if bytes <= 0.0 { 0.0 } else { self.latency + bytes / self.rate(from, to) }
    }

    /// The seconds that every transfer takes beside its bytes.
    pub fn latency(&self) -> f64 {
        self.latency
    }

    /// The mean rate over all pairs of different machines; infinity if there is no pair.
    pub fn mean_rate(&self, machines: usize) -> f64 {
        match &self.rates {
            Rates::Unlimited => f64::INFINITY,
            Rates::Uniform(rate) => *rate,
            _ if machines < 2 => f64::INFINITY,
            Rates::PerMachine(rates) => {
                // The rate at place i decides the pairs with all machines before it.
                let sum: f64 = descending(rates).iter().enumerate().map(|(before, rate)| rate * before as f64).sum();
                sum / (machines * (machines - 1) / 2) as f64
            }
            Rates::Matrix(_, rates) => {
                let all: f64 = rates.iter().sum();
                let diagonal: f64 = rates.iter().step_by(machines + 1).sum();
                (all - diagonal) / (machines * (machines - 1)) as f64
            }
        }
    }

    /// The highest rate of any pair; infinity if there is no pair.
    pub fn best_rate(&self, machines: usize) -> f64 {
        match &self.rates {
            Rates::Unlimited => f64::INFINITY,
            Rates::Uniform(rate) => *rate,
            _ if machines < 2 => f64::INFINITY,
            // The best pair are the two fastest machines, and the slower one of them decides.
            Rates::PerMachine(rates) => descending(rates)[1],
            Rates::Matrix(_, rates) => {
                let links = rates.iter().enumerate().filter(|(place, _)| place / machines != place % machines);
                links.map(|(_, rate)| *rate).fold(0.0, f64::max)
            }
        }
    }

    pub(super) fn check(&self, machines: usize) -> Result<(), ProblemError> {
        if !self.latency.is_finite() || self.latency < 0.0 {
            return Err(ProblemError::BadNumber { what: "latency".into(), value: self.latency });
        }
        let (rates, expected): (&[f64], usize) = match &self.rates {
            Rates::Unlimited => return Ok(()),
            Rates::Uniform(rate) => (std::slice::from_ref(rate), 1),
            Rates::PerMachine(rates) => (rates, machines),
            Rates::Matrix(_, rates) => (rates, machines * machines),
        };
        if rates.len() != expected {
            return Err(ProblemError::WrongTable { expected, found: rates.len() });
        }
        match rates.iter().find(|rate| rate.is_nan() || **rate < 0.0) {
            Some(rate) => Err(ProblemError::BadNumber { what: "bandwidth".into(), value: *rate }),
            None => Ok(()),
        }
    }
}

fn descending(rates: &[f64]) -> Vec<f64> {
    let mut rates = rates.to_vec();
    rates.sort_by(|a, b| b.total_cmp(a));
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_and_the_best_rate_agree_with_all_pairs() {
        let rates = vec![4.0, 9.0, 10.0, 10.0];
        let mut table = Vec::new();
        for from in &rates {
            table.extend(rates.iter().map(|to: &f64| from.min(*to)));
        }
        let (ends, pairs) = (Network::per_machine(rates), Network::matrix(4, table));
        assert!((ends.mean_rate(4) - (3.0 * 4.0 + 2.0 * 9.0 + 10.0) / 6.0).abs() < 1e-12);
        assert!((pairs.mean_rate(4) - ends.mean_rate(4)).abs() < 1e-12);
        assert_eq!(ends.best_rate(4), 10.0);
        assert_eq!(pairs.best_rate(4), 10.0);
        assert_eq!(ends.seconds(36.0, MachineId(0), MachineId(1)), 9.0);
    }
}
