//! GPUs for workflows and platforms without, as in Stockinger 2020, section 5.3: half of the tasks can use a GPU and
//! need 0.3 to 0.7 of their CPU time there; half of the machines have a GPU, whose slowdown is 0.3 to 0.7 of the CPU's,
//! and cost 8 to 15 times as much.

use crate::problem::{Platform, Work, Workflow};
use crate::seeded_random::SeededRandom;

/// The work of each task, with a GPU for half of them.
pub fn works(workflow: &Workflow, random: &mut SeededRandom) -> Vec<Work> {
    let work = |task| {
        let cpu = workflow.cpu_seconds(task);
        Work { cpu: Some(cpu), gpu: random.chance(0.5).then(|| cpu * random.between(0.3, 0.7)) }
    };
    workflow.tasks().map(work).collect()
}

/// Gives GPUs to half of the machines.
pub fn equip(platform: &mut Platform, random: &mut SeededRandom) {
    for machine in &mut platform.machines {
        if random.chance(0.5) {
            machine.gpus = 1;
            machine.gpu_slowdown = machine.slowdown * random.between(0.3, 0.7);
            machine.price *= random.between(8.0, 15.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::layered;

    #[test]
    fn about_half_of_tasks_and_machines_get_gpus_that_are_faster_and_dearer() {
        let problem =
            layered::problem(&layered::Options { tasks: 400, machines: 100, ..Default::default() }, 1).unwrap();
        let mut random = SeededRandom::new(1);
        let works = works(problem.workflow(), &mut random);
        let able = works.iter().filter(|work| work.gpu.is_some()).count();
        assert!((150..250).contains(&able), "{able}");
        let mut platform = problem.platform().clone();
        equip(&mut platform, &mut random);
        let equipped = platform.machines.iter().zip(&problem.platform().machines).filter(|(new, _)| new.gpus == 1);
        let dearer =
            equipped.filter(|(new, old)| new.price >= old.price * 8.0 && new.gpu_slowdown < old.slowdown * 0.7);
        assert!((35..65).contains(&dearer.count()));
    }
}
