//! Layered workflows of any size and platforms of any kind, for tests and benchmarks.

use crate::id::{FileId, MachineId, TaskId};
use crate::problem::{
    Billing, CostModel, Machine, Network, Platform, Problem, ProblemError, Work, Workflow, WorkflowBuilder,
};
use crate::seeded_random::SeededRandom;

/// What to generate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// How many tasks.
    pub tasks: usize,
    /// Tasks of a layer, on average.
    pub width: usize,
    /// Parents of a task, at most; they are in the layer before it.
    pub parents: usize,
    /// Seconds of a transfer between two machines per second of work, on average.
    pub communication: f64,
    /// How many machines.
    pub machines: usize,
    /// Whether machines have several cores, GPUs, start-up times and different billing, and tasks several cores and GPU
    /// work.
    pub varied: bool,
    /// The cost model.
    pub model: CostModel,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tasks: 50,
            width: 8,
            parents: 4,
            communication: 0.5,
            machines: 4,
            varied: false,
            model: CostModel::overlapped(),
        }
    }
}

const MEAN_WORK: f64 = 50.0;
const BYTES_PER_SECOND: f64 = 1e6;

/// Generates a problem.
pub fn problem(options: &Options, seed: u64) -> Result<Problem, ProblemError> {
    let mut random = SeededRandom::new(seed);
    let workflow = workflow(options, &mut random)?;
    let platform = platform(options, &mut random);
    Problem::new(workflow, platform, options.model)
}

fn workflow(options: &Options, random: &mut SeededRandom) -> Result<Workflow, ProblemError> {
    let mut builder = WorkflowBuilder::new();
    let given = builder.file("given", random.between(0.0, 2.0) * options.communication * MEAN_WORK * BYTES_PER_SECOND);
    builder.place(given, MachineId(0));
    let (mut before, mut layer): (Vec<TaskId>, Vec<TaskId>) = (Vec::new(), Vec::new());
    let mut size = 1 + random.below(2 * options.width);
    for number in 0..options.tasks {
        if layer.len() >= size {
            before = std::mem::take(&mut layer);
            size = 1 + random.below(2 * options.width);
        }
        let cpu = random.between(1.0, 2.0 * MEAN_WORK);
        let gpu = (options.varied && random.chance(0.5)).then(|| cpu * random.between(0.3, 0.7));
        let task = builder.task(format!("t{number}"), Work { cpu: Some(cpu), gpu });
        if options.varied && random.chance(0.2) {
            builder.cores(task, 2);
        }
        let bytes = random.between(0.0, 2.0) * options.communication * MEAN_WORK * BYTES_PER_SECOND;
        let output = builder.file(format!("f{number}"), bytes);
        builder.writes(task, output);
        if before.is_empty() {
            builder.reads(task, given);
        }
        for _ in 0..(1 + random.below(options.parents.max(1))).min(before.len()) {
            let parent = before[random.below(before.len())];
            builder.edge(parent, task);
            // Files have the number of their task, after the given one. Some edges carry no data.
            if random.chance(0.9) {
                builder.reads(task, FileId(parent.0 + 1));
            }
        }
        layer.push(task);
    }
    builder.build()
}

fn platform(options: &Options, random: &mut SeededRandom) -> Platform {
    let billings = [Billing::Busy, Billing::Rental, Billing::RentalFromStart, Billing::Period { seconds: 100.0 }];
    let machine = |number: usize| {
        let slowdown = random.between(0.3, 2.0);
        let mut machine = Machine {
            price: random.between(0.5, 1.5) / slowdown,
            ..Machine::with_slowdown(format!("m{number}"), slowdown)
        };
        if options.varied {
            // The first machine can run everything.
            machine.cores = if number == 0 { 2 } else { 1 + random.below(4) as u32 };
            machine.gpus = random.below(3) as u32;
            machine.gpu_slowdown = slowdown * random.between(0.3, 0.7);
            machine.start_up = if random.chance(0.3) { random.between(1.0, 60.0) } else { 0.0 };
            machine.billing = billings[random.below(billings.len())];
        }
        machine
    };
    let machines: Vec<_> = (0..options.machines).map(machine).collect();
    let rates = (0..options.machines * options.machines).map(|_| BYTES_PER_SECOND * random.between(0.5, 2.0));
    let network = Network::matrix(options.machines, rates.collect());
    Platform::new(machines).with_network(if options.varied { network.with_latency(0.1) } else { network })
}
