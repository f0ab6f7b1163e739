//! Machines: what they compute, store and cost.

use super::{MAX_MACHINES, Network, ProblemError};
use crate::formats::text::shorten;

/// Seconds of an hour.
pub(crate) const HOUR: f64 = 3600.0;

/// How a machine is paid for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Billing {
    /// The seconds in which tasks occupy it, each task with its share of the cores.
    Busy,
    /// From the start-up before its first use to the end of its last use, gaps included. Reads and writes by other
    /// machines are uses.
    Rental,
    /// From time 0 to the end of its last use: the rental of Stockinger 2020, (4.19) to (4.22).
    RentalFromStart,
    /// As rental, rounded up to whole periods of this many seconds.
    Period {
        /// Seconds of a period; 3600 bills every started hour.
        seconds: f64,
    },
}

impl Billing {
    /// Every started hour is paid.
    pub fn started_hour() -> Self {
        Self::Period { seconds: HOUR }
    }
}

/// A machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Seconds per second of work on a CPU of speed 1. A machine of speed 2 has the slowdown 0.5.
    pub slowdown: f64,
    /// Its cores, each with the full speed.
    pub cores: u32,
    /// Its GPUs.
    pub gpus: u32,
    /// Seconds per second of work on a GPU of speed 1.
    pub gpu_slowdown: f64,
    /// Bytes that it stores; infinity if that does not matter.
    pub storage: f64,
    /// Its price for a second.
    pub price: f64,
    /// What is paid for.
    pub billing: Billing,
    /// Seconds from the decision to use it until it can do something.
    pub start_up: f64,
}

impl Machine {
    /// A machine with one core, without a GPU, price and limits.
    pub fn with_speed(name: impl Into<String>, speed: f64) -> Self {
        Self::with_slowdown(name, 1.0 / speed)
    }

    /// A machine with one core, without a GPU, price and limits.
    pub fn with_slowdown(name: impl Into<String>, slowdown: f64) -> Self {
        Self {
            name: name.into(),
            slowdown,
            cores: 1,
            gpus: 0,
            gpu_slowdown: 1.0,
            storage: f64::INFINITY,
            price: 0.0,
            billing: Billing::Busy,
            start_up: 0.0,
        }
    }

    fn check(&self) -> Result<(), ProblemError> {
        let bad = |what: &str, value: f64| {
            Err(ProblemError::BadNumber { what: format!("{what} of machine {}", shorten(&self.name)), value })
        };
        for (what, value) in [("slowdown", self.slowdown), ("GPU slowdown", self.gpu_slowdown)] {
            if !value.is_finite() || value <= 0.0 {
                return bad(what, value);
            }
        }
        for (what, value) in [("price", self.price), ("start-up time", self.start_up)] {
            if !value.is_finite() || value < 0.0 {
                return bad(what, value);
            }
        }
        if self.storage.is_nan() || self.storage < 0.0 {
            return bad("storage", self.storage);
        }
        if self.cores == 0 {
            return bad("number of cores", 0.0);
        }
        match self.billing {
            Billing::Period { seconds } if !seconds.is_finite() || seconds <= 0.0 => bad("billing period", seconds),
            _ => Ok(()),
        }
    }
}

/// Machines and the network between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Platform {
    /// The machines.
    pub machines: Vec<Machine>,
    /// The network.
    pub network: Network,
}

impl Platform {
    /// Machines with a network in which transfers take no time.
    pub fn new(machines: Vec<Machine>) -> Self {
        Self { machines, network: Network::unlimited() }
    }

    /// The same machines with another network.
    pub fn with_network(self, network: Network) -> Self {
        Self { network, ..self }
    }

    pub(super) fn check(&self) -> Result<(), ProblemError> {
        match self.machines.len() {
            0 => return Err(ProblemError::NoMachines),
            found if found > MAX_MACHINES => {
                return Err(ProblemError::TooManyMachines { found, limit: MAX_MACHINES });
            }
            _ => {}
        }
        self.machines.iter().try_for_each(Machine::check)?;
        self.network.check(self.machines.len())
    }
}
