//! GPUs for workflows and platforms without, as in Stockinger 2020, section 5.3: half of the tasks can use a GPU and need 0.3
//! to 0.7 of their CPU time there; half of the machines have a GPU, whose slowdown is 0.3 to 0.7 of the CPU's, and cost 8 to 15
//! times as much.

use crate::problem::{Platform, Work, Workflow};
use crate::random::Random;

/// The work of each task, with a GPU for half of them.
pub fn works(workflow: &Workflow, random: &mut Random) -> Vec<Work> {
    let work = |task| {
        let cpu = workflow.cpu_seconds(task);
        Work { cpu: Some(cpu), gpu: random.chance(0.5).then(|| cpu * random.between(0.3, 0.7)) }
    };
    workflow.tasks().map(work).collect()
}

/// Gives GPUs to half of the machines.
pub fn equip(platform: &mut Platform, random: &mut Random) {
    for machine in &mut platform.machines {
        if random.chance(0.5) {
            machine.gpus = 1;
            machine.gpu_slowdown = machine.slowdown * random.between(0.3, 0.7);
            machine.price *= random.between(8.0, 15.0);
        }
    }
}
