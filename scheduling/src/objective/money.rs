//! What a schedule costs, by the billing of each machine.

use crate::id::{FileId, MachineId, TaskId};
use crate::problem::{Billing, Problem, Transfers};
use crate::schedule::{Placement, Schedule};

/// What all machines cost.
pub fn money(problem: &Problem, schedule: &Schedule) -> f64 {
    machine_bills(problem, schedule).iter().sum()
}

/// What each machine costs.
pub fn machine_bills(problem: &Problem, schedule: &Schedule) -> Vec<f64> {
    let rented = problem.platform().machines.iter().any(|machine| machine.billing != Billing::Busy);
    let mut uses = vec![BilledUse::default(); problem.machine_count()];
    for (task, placement) in schedule.runs() {
        let cores = problem.machine(placement.machine).cores;
        let share = f64::from(problem.workflow().cores(task)) / f64::from(cores);
        let machine = &mut uses[placement.machine.index()];
        machine.busy += (placement.finish - placement.start) * share;
        machine.extend(placement.start, placement.finish);
    }
    if rented && matches!(problem.model().transfers, Transfers::Inline { .. }) {
        for (task, placement) in schedule.runs() {
            passive_uses(problem, schedule, task, placement, &mut uses);
        }
    }
    let bills = problem.machines().zip(uses).map(|(machine, used)| used.bill(problem, machine));
    bills.collect()
}

/// The use of one machine.
#[derive(Debug, Clone, Copy)]
struct BilledUse {
    busy: f64,
    first: f64,
    last: f64,
}

impl Default for BilledUse {
    fn default() -> Self {
        Self { busy: 0.0, first: f64::INFINITY, last: 0.0 }
    }
}

impl BilledUse {
    fn extend(&mut self, from: f64, to: f64) {
        self.first = self.first.min(from);
        self.last = self.last.max(to);
    }

    fn bill(&self, problem: &Problem, machine: MachineId) -> f64 {
        let node = problem.machine(machine);
        if self.first == f64::INFINITY {
            return 0.0;
        }
        let rental = self.last - self.first + node.start_up;
        let seconds = match node.billing {
            Billing::Busy => self.busy,
            Billing::Rental => rental,
            Billing::RentalFromStart => self.last,
            // Rounding must not turn a full period into two.
            Billing::Period { seconds } => (rental / seconds - 1e-9).ceil().max(1.0) * seconds,
        };
        seconds * node.price
    }
}

/// While a task reads from or writes to another machine, that machine is in use, too.
fn passive_uses(problem: &Problem, schedule: &Schedule, task: TaskId, placement: Placement, uses: &mut [BilledUse]) {
    let workflow = problem.workflow();
    let local = problem.model().local_seconds();
    let transfer = |file: FileId| {
        let place = schedule.stored_on(file).or_else(|| nearest_copy(problem, file, placement.machine));
        (place, place.map_or(local, |place| problem.access_seconds(file, placement.machine, place)))
    };
    let writes: f64 = workflow.outputs(task).iter().map(|file| transfer(*file).1).sum();
    // Reads are at the beginning, writes at the end.
    for (files, from) in [(workflow.inputs(task), placement.start), (workflow.outputs(task), placement.finish - writes)]
    {
        let mut now = from;
        for file in files {
            let (place, seconds) = transfer(*file);
            if let Some(place) = place.filter(|place| *place != placement.machine) {
                uses[place.index()].extend(now, now + seconds);
            }
            now += seconds;
        }
    }
}

fn nearest_copy(problem: &Problem, file: FileId, machine: MachineId) -> Option<MachineId> {
    let copies = problem.workflow().copies(file);
    if copies.contains(&machine) {
        return Some(machine);
    }
    let seconds = |copy: &MachineId| problem.access_seconds(file, machine, *copy);
    copies.iter().copied().min_by(|a, b| seconds(a).total_cmp(&seconds(b)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{CostModel, Machine, Network, Platform, Work, WorkflowBuilder};

    /// Two tasks on two machines; the second reads a file of the first one from the first machine.
    fn bill(billing: Billing) -> Vec<f64> {
        let mut builder = WorkflowBuilder::new();
        let (a, b) = (builder.task("a", Work::cpu(10.0)), builder.task("b", Work::cpu(20.0)));
        let file = builder.file("x", 50.0);
        builder.writes(a, file);
        builder.reads(b, file);
        builder.edges_from_files();
        let machine = |price| Machine { price, billing, start_up: 5.0, ..Machine::with_speed("m", 1.0) };
        let platform = Platform::new(vec![machine(1.0), machine(2.0)]).with_network(Network::uniform(10.0));
        let problem = Problem::new(builder.build().unwrap(), platform, CostModel::inline_cpu()).unwrap();
        let schedule = Schedule {
            tasks: vec![
                Placement { machine: MachineId(0), start: 5.0, finish: 15.0 },
                Placement { machine: MachineId(1), start: 30.0, finish: 55.0 },
            ],
            files: vec![Some(MachineId(0))],
            duplicates: Vec::new(),
        };
        crate::validate::validate(&problem, &schedule).unwrap();
        machine_bills(&problem, &schedule)
    }

    #[test]
    fn every_billing_counts_its_own_seconds() {
        assert_eq!(bill(Billing::Busy), [10.0, 50.0]);
        // The first machine is read until 35 s and was started 5 s before its first task.
        assert_eq!(bill(Billing::Rental), [35.0, 60.0]);
        assert_eq!(bill(Billing::RentalFromStart), [35.0, 110.0]);
        assert_eq!(bill(Billing::started_hour()), [3600.0, 7200.0]);
        assert_eq!(bill(Billing::Period { seconds: 30.0 }), [60.0, 60.0]);
    }
}
