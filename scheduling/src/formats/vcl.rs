//! `.vcl` files: the machines of the CPU instances of Stockinger 2020.
//!
//! ```text
//! <providers>
//! <id> <name> <period in hours> <most machines> <machines>
//! <id> <type> <slowdown> <storage GB> <MB/s> <price for an hour>
//! ```

use super::text::Words;
use super::{MEGABYTE, ReadError, check_length};
use crate::problem::{Billing, MAX_MACHINES, Machine, Network, Platform};

const HOUR: f64 = 3600.0;

/// Reads a platform. Machines are billed by started periods of their provider; the slower end of a transfer decides its
/// rate.
pub fn read(document: &str) -> Result<Platform, ReadError> {
    check_length(document)?;
    let mut words = Words::new(document);
    let mut machines = Vec::new();
    let mut rates = Vec::new();
    for _ in 0..words.count("the number of providers")? {
        words.word("the id of a provider")?;
        words.word("the name of a provider")?;
        let period = words.number("the period of a provider")?;
        words.count("the most machines of a provider")?;
        for _ in 0..words.count("the number of machines")? {
            if machines.len() >= MAX_MACHINES {
                return Err(words.error(format!("there are more than {MAX_MACHINES} machines")));
            }
            let id = words.count("the id of a machine")?;
            if id != machines.len() {
                return Err(words.error(format!("machine {id} must have the id {}", machines.len())));
            }
            let name = words.word("the type of a machine")?;
            let slowdown = words.number("the slowdown of a machine")?;
            let storage = words.number("the storage of a machine")? * 1024.0 * MEGABYTE;
            rates.push(words.number("the bandwidth of a machine")? * MEGABYTE);
            let price = words.number("the price of a machine")? / HOUR;
            let billing = Billing::Period { seconds: period * HOUR };
            machines.push(Machine { storage, price, billing, ..Machine::with_slowdown(name, slowdown) });
        }
    }
    Ok(Platform::new(machines).with_network(Network::per_machine(rates)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MachineId;

    #[test]
    fn machines_and_rates_are_read() {
        let platform = read("1\n55 Cloud 1 30 2\n0 small 1.53 80 4.0 0.1\n1 large 0.77 120 9.0 0.2\n\n<text>").unwrap();
        assert_eq!(platform.machines.len(), 2);
        assert_eq!(platform.machines[1].slowdown, 0.77);
        assert_eq!(platform.network.rate(MachineId(0), MachineId(1)), 4.0 * MEGABYTE);
        let error = read("1\n55 Cloud 1 30 1\n1 small 1.53 80 4.0 0.1").unwrap_err();
        assert_eq!(error.to_string(), "line 3: machine 1 must have the id 0");
    }
}
