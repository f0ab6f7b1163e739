//! The integer programme of Stockinger 2020, chapter 4, as an oracle for small problems, beside the exhaustive search.
//!
//! Corrections: sums stand where the print has single indices ((4.7) to (4.18)); a file can be read where it was
//! written, from the end of the write on ((4.25) to (4.27), (4.30)); the money is that of busy seconds, as in the
//! printed tables, so (4.21) and (4.22) are left out; storage does not bind here, so (4.28) is left out. A task computes
//! on the processor that the problem says. Periods begin with 1, so the makespan is one less than z_T.
//!
//! The programme has more freedom than a schedule: reads and writes of different tasks may alternate on a machine. So
//! its optimum is a lower bound of the exhaustive search, and on these problems both are equal.

mod common;

use good_lp::{Expression, Solution, SolverModel, Variable, constraint, microlp, variable, variables};
use xavantes_scheduling::exact::Ppsa;
use xavantes_scheduling::generate::layered;
use xavantes_scheduling::planner::{Run, Silence};
use xavantes_scheduling::problem::CostModel;
use xavantes_scheduling::validate::validate;
use xavantes_scheduling::{FileId, MachineId, Objective, PlanValue, Problem, TaskId};

/// A binary variable for an action that begins in a period and takes some seconds on a machine.
struct Action {
    begins: usize,
    seconds: usize,
    machine: MachineId,
    /// The machine at the other end of a read or write.
    peer: MachineId,
    variable: Variable,
}

impl Action {
    fn ends(&self) -> usize {
        self.begins + self.seconds
    }
}

fn sum<'a>(actions: impl Iterator<Item = &'a Action>) -> Expression {
    actions.map(|action| Expression::from(action.variable)).sum()
}

/// The least weighted objective of any schedule that ends within `horizon` seconds.
fn optimum(problem: &Problem, objective: Objective, horizon: usize) -> f64 {
    let Objective::Weighted { weight, time_scale, money_scale } = objective else {
        panic!("the programme has a weighted objective");
    };
    let workflow = problem.workflow();
    let mut variables = variables!();
    let last = variables.add(variable().min(1.0).max(horizon as f64 + 1.0));
    let mut all = |seconds: f64, machine: MachineId, peer: MachineId, into: &mut Vec<Action>| {
        for begins in 1..=(horizon + 1).saturating_sub(seconds as usize) {
            let variable = variables.add(variable().binary());
            into.push(Action { begins, seconds: seconds as usize, machine, peer, variable });
        }
    };
    // Executions of each task, reads of each input of each task, writes of each file.
    let mut executions: Vec<Vec<Action>> = Vec::new();
    let mut reads: Vec<(TaskId, FileId, Vec<Action>)> = Vec::new();
    let mut writes: Vec<(TaskId, FileId, Vec<Action>)> = Vec::new();
    for task in problem.tasks() {
        let mut own = Vec::new();
        for machine in problem.machines().filter(|machine| problem.can_run(task, *machine)) {
            all(problem.compute_seconds(task, machine), machine, machine, &mut own);
        }
        executions.push(own);
        for (files, into) in [(workflow.inputs(task), &mut reads), (workflow.outputs(task), &mut writes)] {
            for file in files {
                let mut own = Vec::new();
                let fixed = workflow.is_fixed(*file);
                for machine in problem.machines().filter(|machine| problem.can_run(task, *machine)) {
                    let peers = problem.machines().filter(|peer| !fixed || workflow.copies(*file).contains(peer));
                    for peer in peers {
                        all(problem.access_seconds(*file, machine, peer), machine, peer, &mut own);
                    }
                }
                into.push((task, *file, own));
            }
        }
    }
    let busy: Expression = executions
        .iter()
        .chain(reads.iter().map(|(_, _, own)| own))
        .chain(writes.iter().map(|(_, _, own)| own))
        .flatten()
        .map(|action| action.seconds as f64 * problem.machine(action.machine).price * action.variable)
        .sum();
    let goal = weight / time_scale * (last - 1.0) + (1.0 - weight) / money_scale * busy;
    let mut model = variables.minimise(&goal).using(microlp);
    for own in &executions {
        model = model.with(constraint!(sum(own.iter()) == 1.0)); // (4.2) to (4.4)
    }
    for (task, file, own) in &reads {
        model = model.with(constraint!(sum(own.iter()) == 1.0)); // (4.5)
        for machine in problem.machines() {
            for period in 1..=horizon {
                let read = own.iter().filter(|read| read.machine == machine && read.ends() <= period);
                let started = executions[task.index()].iter();
                let started = started.filter(|action| action.machine == machine && action.begins <= period);
                model = model.with(constraint!(sum(started) <= sum(read))); // (4.15) to (4.18)
            }
        }
        if workflow.is_fixed(*file) {
            continue;
        }
        let (_, _, written) = writes.iter().find(|(_, other, _)| other == file).expect("some task writes the file");
        for peer in problem.machines() {
            for period in 1..=horizon {
                let begun = own.iter().filter(|read| read.peer == peer && read.begins <= period);
                let stored = written.iter().filter(|write| write.peer == peer && write.ends() <= period);
                model = model.with(constraint!(sum(begun) <= sum(stored))); // (4.26), (4.27)
            }
        }
        // No read of the task begins before all its inputs are written.
        for (_, _, other) in reads.iter().filter(|(reader, ..)| reader == task) {
            for period in 1..=horizon {
                let begun = other.iter().filter(|read| read.begins <= period);
                let stored = written.iter().filter(|write| write.ends() <= period);
                model = model.with(constraint!(sum(begun) <= sum(stored))); // (4.30)
            }
        }
    }
    for (task, _, own) in &writes {
        model = model.with(constraint!(sum(own.iter()) == 1.0)); // (4.6)
        let end: Expression = own.iter().map(|write| write.ends() as f64 * write.variable).sum();
        model = model.with(constraint!(end <= last)); // (4.29)
        for machine in problem.machines() {
            for period in 1..=horizon {
                let done = executions[task.index()].iter();
                let done = done.filter(|action| action.machine == machine && action.ends() <= period);
                let begun = own.iter().filter(|write| write.machine == machine && write.begins <= period);
                model = model.with(constraint!(sum(begun) <= sum(done))); // (4.7) to (4.14)
            }
        }
    }
    for machine in problem.machines() {
        for period in 1..=horizon {
            let everything =
                executions.iter().chain(reads.iter().map(|row| &row.2)).chain(writes.iter().map(|row| &row.2));
            let active = everything
                .flatten()
                .filter(|action| action.machine == machine && action.begins <= period && period < action.ends());
            model = model.with(constraint!(sum(active) <= 1.0)); // (4.19), (4.20)
        }
    }
    let solution = model.solve().expect("a schedule within the horizon exists");
    solution.eval(&goal)
}

/// The exhaustive optimum, and the optimum of the programme within its makespan and some slack.
fn both(problem: &Problem, objective: Objective, slack: usize) -> (f64, f64) {
    let mut silence = Silence::default();
    let solved = Ppsa::exact().solve(problem, &mut Run::new(objective, &mut silence)).unwrap();
    validate(problem, &solved.schedule).unwrap();
    assert!(solved.optimal);
    let value = PlanValue::of(problem, &solved.schedule);
    (objective.score(value).value, optimum(problem, objective, value.makespan as usize + slack))
}

#[test]
fn the_integer_programme_and_the_exhaustive_search_agree_on_stored_toys() {
    let Some(corpus) = common::corpus("toys with an integer programme") else {
        return;
    };
    for name in ["3_toy_5_A.dag", "3_toy_5_C.dag", "5_toy_5_A.dag"] {
        let rows = common::expected(&corpus, "stockinger2020_gpu_grasp_ils.csv");
        let row = rows.iter().find(|row| row[0] == name).unwrap();
        let objective = Objective::balanced(row[1].parse().unwrap(), row[2].parse().unwrap());
        let (exact, programme) = both(&common::gpu_instance(&corpus, name), objective, 2);
        assert!((exact - programme).abs() < 1e-6, "{name}: {exact}, {programme}");
        assert!((exact - row[9].parse::<f64>().unwrap()).abs() < 1e-6, "{name}: {exact}");
    }
}

#[test]
fn the_integer_programme_and_the_exhaustive_search_agree_on_random_problems() {
    let mut compared = 0;
    for seed in 0..40 {
        let options = layered::Options {
            tasks: 2 + seed as usize % 2,
            machines: 2,
            width: 1,
            communication: 0.03,
            model: CostModel::inline_gpu(),
            ..layered::Options::default()
        };
        // Short tasks, so that the programme has few periods.
        let problem = layered::problem(&options, seed).unwrap();
        // The programme knows edges by their files alone, and every task of it reads.
        let workflow = problem.workflow();
        let mut edges = problem.tasks().flat_map(|task| workflow.children(task));
        if edges.any(|edge| edge.bytes == 0.0) || problem.tasks().any(|task| workflow.inputs(task).is_empty()) {
            continue;
        }
        let seconds = problem.tasks().flat_map(|task| {
            let problem = &problem;
            problem.machines().map(move |machine| (problem.compute_seconds(task, machine) / 25.0).ceil())
        });
        let seconds = seconds.collect();
        let problem = problem.clone().with_durations(seconds).unwrap();
        let objective = Objective::Weighted { weight: 0.5, time_scale: 10.0, money_scale: 10.0 };
        let (exact, programme) = both(&problem, objective, 1);
        assert!((exact - programme).abs() < 1e-6, "seed {seed}: {exact}, {programme}");
        compared += 1;
    }
    assert!(compared >= 10, "{compared}");
}
