//! The random workflows of Monge, Bělohradský, García Garino and Železný, section 5: `density · n(n−1)/2` edges, tasks
//! of three types, and the output of a task goes to all its successors.
//!
//! The paper does not publish run times and sizes. Here a task has 10 to 100 s of work on the mean machine and makes 1
//! to 50 MB. Run times do not follow the speed of machines alone: each type of task has its own factor on each type of
//! machine.

use crate::problem::{CostModel, Machine, Network, Platform, Problem, ProblemError, Work, WorkflowBuilder};
use crate::seeded_random::SeededRandom;

/// Name and Java MFlops of the three types of machine in Table 1 of the paper.
pub const MACHINE_TYPES: [(&str, f64); 3] = [("Tesla", 285.45), ("Sikus", 600.04), ("Anika", 379.70)];

/// How much longer each type of task (stage-in, clustering, classification) takes on each type of machine than its
/// MFlops say, if run times do not follow MFlops. Our assumption.
pub const TYPE_FACTORS: [[f64; 3]; 3] = [[0.8, 1.6, 1.0], [1.3, 0.9, 0.7], [0.6, 1.9, 1.1]];

/// 100 Mbit/s.
const BYTES_PER_SECOND: f64 = 12.5e6;

/// Whether run times follow the MFlops of machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunTimes {
    /// Work divided by MFlops.
    Related,
    /// Work divided by MFlops, times a factor of the types of task and machine.
    Unrelated,
}

/// A problem with `tasks` tasks on six machines, two of each type.
pub fn problem(tasks: usize, density: f64, run_times: RunTimes, seed: u64) -> Result<Problem, ProblemError> {
    let mut random = SeededRandom::new(seed);
    let mut builder = WorkflowBuilder::new();
    let mut types = Vec::with_capacity(tasks);
    for task in 0..tasks {
        types.push(random.below(3));
        let id = builder.task(format!("t{task}"), Work::cpu(random.between(10.0, 100.0)));
        let output = builder.file(format!("o{task}"), random.between(1e6, 50e6));
        builder.writes(id, output);
    }
    // Every pair in the order of tasks is a possible edge; a random part of them is taken.
    let mut pairs: Vec<_> = (0..tasks).flat_map(|to| (0..to).map(move |from| (from, to))).collect();
    random.shuffle(&mut pairs);
    pairs.truncate((density * pairs.len() as f64).round() as usize);
    for (from, to) in pairs {
        builder.reads(crate::TaskId::new(to), crate::FileId::new(from));
    }
    builder.edges_from_files();
    let mean = MACHINE_TYPES.iter().map(|(_, mflops)| mflops).sum::<f64>() / 3.0;
    let machine = |index: usize| {
        let (name, mflops) = MACHINE_TYPES[index % 3];
        Machine::with_slowdown(format!("{name}-{}", index / 3), mean / mflops)
    };
    let platform = Platform::new((0..6).map(machine).collect()).with_network(Network::uniform(BYTES_PER_SECOND));
    let problem = Problem::new(builder.build()?, platform, CostModel::overlapped())?;
    if run_times == RunTimes::Related {
        return Ok(problem);
    }
    let seconds = problem.tasks().flat_map(|task| {
        let row = TYPE_FACTORS[types[task.index()]];
        let problem = &problem;
        problem.machines().map(move |machine| problem.compute_seconds(task, machine) * row[machine.index() % 3])
    });
    let seconds = seconds.collect();
    problem.with_durations(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_density_gives_the_number_of_edges() {
        for (tasks, density, edges) in [(10, 0.4, 18), (10, 0.8, 36), (100, 0.4, 1980), (100, 0.8, 3960)] {
            let problem = problem(tasks, density, RunTimes::Related, 3).unwrap();
            assert_eq!(problem.workflow().edge_count(), edges);
        }
    }
}
