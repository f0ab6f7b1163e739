//! Small problems with known results.

use crate::problem::{CostModel, Machine, Network, Platform, Problem, ProblemError, Work, WorkflowBuilder};

/// The ten tasks and three processors of Topcuoglu, Hariri and Wu 2002, Fig. 2 and Table 1. HEFT gives 80, CPOP 86; the
/// best schedule takes 73.
pub fn heft_paper() -> Result<Problem, ProblemError> {
    const SECONDS: [[f64; 3]; 10] = [
        [14.0, 16.0, 9.0],
        [13.0, 19.0, 18.0],
        [11.0, 13.0, 19.0],
        [13.0, 8.0, 17.0],
        [12.0, 13.0, 10.0],
        [13.0, 16.0, 9.0],
        [7.0, 15.0, 11.0],
        [5.0, 11.0, 14.0],
        [18.0, 12.0, 20.0],
        [21.0, 7.0, 16.0],
    ];
    const EDGES: [(usize, usize, f64); 15] = [
        (1, 2, 18.0),
        (1, 3, 12.0),
        (1, 4, 9.0),
        (1, 5, 11.0),
        (1, 6, 14.0),
        (2, 8, 19.0),
        (2, 9, 16.0),
        (3, 7, 23.0),
        (4, 8, 27.0),
        (4, 9, 23.0),
        (5, 9, 13.0),
        (6, 8, 15.0),
        (7, 10, 17.0),
        (8, 10, 11.0),
        (9, 10, 13.0),
    ];
    table_problem(&SECONDS, &EDGES)
}

/// Three tasks on two machines: the third one fits into the gap that the second machine has before the data of the
/// first one arrive. HEFT gives 30 with insertion and 35 without.
pub fn insertion() -> Result<Problem, ProblemError> {
    const NEVER: f64 = f64::INFINITY;
    table_problem(&[[10.0, NEVER], [NEVER, 10.0], [NEVER, 5.0]], &[(1, 2, 10.0)])
}

/// Tasks by their seconds on each machine, and edges between tasks (from 1) with their transfer seconds.
fn table_problem<const M: usize>(seconds: &[[f64; M]], edges: &[(usize, usize, f64)]) -> Result<Problem, ProblemError> {
    let mut builder = WorkflowBuilder::new();
    let tasks: Vec<_> = (1..=seconds.len()).map(|task| builder.task(format!("{task}"), Work::cpu(1.0))).collect();
    for (earlier, later, bytes) in edges {
        builder.edge_with_data(tasks[earlier - 1], tasks[later - 1], *bytes);
    }
    let machines = (1..=M).map(|machine| Machine::with_speed(format!("P{machine}"), 1.0)).collect();
    let platform = Platform::new(machines).with_network(Network::uniform(1.0));
    Problem::new(builder.build()?, platform, CostModel::overlapped())?
        .with_durations(seconds.iter().flatten().copied().collect())
}
