//! Our planner of rentals: few machines, on which a workflow ends within a deadline for little money.
//!
//! Two plans are made for each number of cores, and the cheapest one that keeps the deadline wins. The first has cores
//! of one kind; tasks by upward rank go to the core that waited least for them, so that few cores are rented and none
//! for long without work. The second adds two machines of each other kind; each task goes to the core that adds least
//! to the bill among those on which it ends early enough for everything after it.
//! As for the blind planner (see [`crate::blind`]) there are no transfers and no start-up times.

use crate::blind::{Rental, RentedMachine};
use crate::id::{MachineId, TaskId};
use crate::objective::money;
use crate::ordered::Ordered;
use crate::problem::{Billing, CostModel, Machine, Platform, Problem, ProblemError, Workflow};
use crate::rank::Ranks;
use crate::schedule::{Placement, Schedule};

/// What a rental costs. Aguilar 2016 says both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RentalCost {
    /// Each core is paid with the price of its machine, from time 0 to its last use: the code of the thesis.
    PerCore,
    /// Each machine is paid from its first to its last use: the text of the thesis.
    PerMachine,
}

impl RentalCost {
    /// What a schedule on rented cores costs.
    pub fn of(self, rental: &Rental, schedule: &Schedule) -> f64 {
        match self {
            Self::PerCore => money(&rental.problem, schedule),
            Self::PerMachine => rental.machine_money(schedule),
        }
    }
}

/// Rounding must not break a deadline that another plan has set.
const SLACK: f64 = 1.0 + 1e-9;

/// Machines of each other kind beside those of the main kind.
const OTHERS: usize = 2;

/// A cheap rental that ends within the deadline, in seconds; nothing if none was found. There must be a kind.
pub fn rent_within(
    workflow: &Workflow,
    kinds: &[Machine],
    deadline: f64,
    cost: RentalCost,
) -> Result<Option<Rental>, ProblemError> {
    if kinds.is_empty() {
        return Err(ProblemError::NoMachines);
    }
    let mut best: Option<(f64, Rental)> = None;
    for kind in 0..kinds.len() {
        let path = workflow.critical_path(|task| workflow.cpu_seconds(task)) * kinds[kind].slowdown;
        if path > deadline * SLACK {
            continue;
        }
        for cores in 1..=workflow.task_count().max(1) {
            let pool = CorePool::new(workflow, kinds, kind, cores, 0)?;
            let dense = pool.plan(|state, task| state.least_idle(task));
            let shortest = dense.makespan() <= path * SLACK;
            let mixed = CorePool::new(workflow, kinds, kind, cores, OTHERS)?;
            let thrifty = mixed.plan(|state, task| state.cheapest(task, deadline, cost));
            for (pool, schedule) in [(pool, dense), (mixed, thrifty)] {
                let in_time = schedule.makespan() <= deadline * SLACK;
                let rental = pool.rental(schedule);
                let own = cost.of(&rental, &rental.schedule);
                if in_time && best.as_ref().is_none_or(|(least, _)| own < *least) {
                    best = Some((own, rental));
                }
            }
            // More cores cannot shorten the critical path.
            if shortest {
                break;
            }
        }
    }
    Ok(best.map(|(_, rental)| rental))
}

/// Cores to choose from.
struct CorePool {
    problem: Problem,
    machines: Vec<RentedMachine>,
    /// The machine of each core.
    owners: Vec<usize>,
    prices: Vec<f64>,
    /// Seconds from the start of each task to the end of the workflow, all on the main kind.
    tails: Vec<f64>,
}

impl CorePool {
    /// This many cores of a kind, and some machines of each other kind.
    fn new(
        workflow: &Workflow,
        kinds: &[Machine],
        main: usize,
        cores: usize,
        others: usize,
    ) -> Result<Self, ProblemError> {
        let (mut nodes, mut machines, mut owners) = (Vec::new(), Vec::new(), Vec::new());
        for (kind, node) in kinds.iter().enumerate() {
            let size = node.cores as usize;
            let mut left = if kind == main { cores } else { others * size };
            while left > 0 {
                let own = left.min(size);
                let first = nodes.len();
                for core in 0..own {
                    owners.push(machines.len());
                    let name = format!("{}-{}-{core}", node.name, machines.len());
                    nodes.push(Machine {
                        name,
                        cores: 1,
                        billing: Billing::RentalFromStart,
                        start_up: 0.0,
                        ..node.clone()
                    });
                }
                machines.push(RentedMachine { kind, cores: (first..first + own).map(MachineId::new).collect() });
                left -= own;
            }
        }
        let mut tails = vec![0.0; workflow.task_count()];
        for task in workflow.order().iter().rev() {
            let after = workflow.children(*task).iter().map(|edge| tails[edge.task.index()]).fold(0.0, f64::max);
            tails[task.index()] = workflow.cpu_seconds(*task) * kinds[main].slowdown + after;
        }
        let problem = Problem::new(workflow.clone(), Platform::new(nodes), CostModel::overlapped())?;
        Ok(Self { problem, machines, owners, prices: kinds.iter().map(|kind| kind.price).collect(), tails })
    }

    fn plan(&self, choose: impl Fn(&State<'_>, TaskId) -> Placement) -> Schedule {
        let none = Placement { machine: MachineId(0), start: 0.0, finish: 0.0 };
        let mut state = State {
            pool: self,
            free: vec![0.0; self.problem.machine_count()],
            uses: vec![(f64::INFINITY, 0.0); self.machines.len()],
            tasks: vec![none; self.problem.task_count()],
        };
        for task in Ranks::of(&self.problem).order(&self.problem) {
            let chosen = choose(&state, task);
            let (first, last) = &mut state.uses[self.owners[chosen.machine.index()]];
            (*first, *last) = (first.min(chosen.start), last.max(chosen.finish));
            state.free[chosen.machine.index()] = chosen.finish;
            state.tasks[task.index()] = chosen;
        }
        Schedule::of_tasks(&self.problem, state.tasks)
    }

    fn rental(self, schedule: Schedule) -> Rental {
        Rental { problem: self.problem, schedule, machines: self.machines, prices: self.prices }
    }
}

/// A plan under construction.
struct State<'p> {
    pool: &'p CorePool,
    free: Vec<f64>,
    /// The first and the last use of each machine.
    uses: Vec<(f64, f64)>,
    tasks: Vec<Placement>,
}

impl State<'_> {
    fn candidates(&self, task: TaskId) -> impl Iterator<Item = Placement> + '_ {
        let parents = self.pool.problem.workflow().parents(task).iter();
        let ready = parents.map(|edge| self.tasks[edge.task.index()].finish).fold(0.0, f64::max);
        self.pool.problem.machines().map(move |machine| {
            let start = self.free[machine.index()].max(ready);
            Placement { machine, start, finish: start + self.pool.problem.compute_seconds(task, machine) }
        })
    }

    /// The first end; among equals the core that became free last.
    fn least_idle(&self, task: TaskId) -> Placement {
        let key = |place: &Placement| (Ordered(place.finish), Ordered(place.start - self.free[place.machine.index()]));
        self.candidates(task).min_by_key(key).unwrap_or(self.tasks[task.index()])
    }

    /// The least addition to the bill among the ends that leave enough time for what follows; if there is none, the
    /// first end.
    fn cheapest(&self, task: TaskId, deadline: f64, cost: RentalCost) -> Placement {
        let workflow = self.pool.problem.workflow();
        let children = workflow.children(task).iter().map(|edge| self.pool.tails[edge.task.index()]);
        let latest = deadline - children.fold(0.0, f64::max);
        let in_time = self.candidates(task).filter(|place| place.finish <= latest * SLACK);
        let key = |place: &Placement| (Ordered(self.added(place, cost)), Ordered(place.finish));
        in_time.min_by_key(key).unwrap_or_else(|| self.least_idle(task))
    }

    fn added(&self, place: &Placement, cost: RentalCost) -> f64 {
        let owner = self.pool.owners[place.machine.index()];
        let price = self.pool.prices[self.pool.machines[owner].kind];
        let (first, last) = self.uses[owner];
        let seconds = match cost {
            RentalCost::PerCore => place.finish - self.free[place.machine.index()],
            RentalCost::PerMachine if first.is_finite() => {
                place.finish.max(last) - place.start.min(first) - (last - first)
            }
            RentalCost::PerMachine => place.finish - place.start,
        };
        seconds * price
    }
}
