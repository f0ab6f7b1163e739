//! Printed values of Stockinger 2020 that no schedule of the stated model reaches, with a proof.
//!
//! In CyberShake both tasks that extract tensors read files of 18 GB from machine 0, so they run there one after the
//! other. Their children read the extracted files. For each order of both tasks and each place of their files a linear
//! programme spreads the children over the machines, in parts if that helps, and everything else is left out. The least
//! of its values is a lower bound of the makespan.

mod common;

use good_lp::{Expression, Solution, SolverModel, constraint, microlp, variable, variables};
use xavantes_scheduling::{FileId, MachineId, Problem, TaskId};

/// The first machine stores all files that the workflow finds in place.
const STORE: MachineId = MachineId(0);

/// One of both tasks, with the places of its outputs.
struct Extraction {
    task: TaskId,
    homes: [MachineId; 2],
}

impl Extraction {
    fn seconds(&self, problem: &Problem) -> f64 {
        let outputs = problem.workflow().outputs(self.task).iter().zip(self.homes);
        let writes: f64 = outputs.map(|(file, home)| problem.access_seconds(*file, STORE, home)).sum();
        problem.compute_seconds(self.task, STORE) + writes
    }

    /// Seconds of each child on each machine.
    fn children(&self, problem: &Problem) -> Vec<Vec<f64>> {
        let workflow = problem.workflow();
        let home = |file: &FileId| {
            let place = workflow.outputs(self.task).iter().position(|output| output == file);
            place.map(|place| self.homes[place])
        };
        let child = |task: TaskId| {
            let on = |machine: MachineId| {
                let read = |file: &FileId| match home(file) {
                    Some(home) => problem.access_seconds(*file, machine, home),
                    None if workflow.is_fixed(*file) => problem.placed_access_seconds(*file, machine),
                    None => 0.0,
                };
                problem.compute_seconds(task, machine) + workflow.inputs(task).iter().map(read).sum::<f64>()
            };
            problem.machines().map(on).collect()
        };
        workflow.children(self.task).iter().map(|edge| child(edge.task)).collect()
    }
}

/// The least makespan when the extractions run in this order.
fn bound(problem: &Problem, first: &Extraction, second: &Extraction) -> f64 {
    let (early, late) = (first.seconds(problem), first.seconds(problem) + second.seconds(problem));
    let mut variables = variables!();
    let end = variables.add(variable().min(0.0));
    let machines = problem.machine_count();
    let mut loads = vec![[Expression::default(), Expression::default()]; machines];
    let mut whole = Vec::new();
    for (set, extraction) in [first, second].into_iter().enumerate() {
        for seconds in extraction.children(problem) {
            let parts = variables.add_vector(variable().min(0.0).max(1.0), machines);
            whole.push(parts.iter().map(|part| Expression::from(*part)).sum::<Expression>());
            for (machine, part) in parts.into_iter().enumerate() {
                loads[machine][set] += seconds[machine] * part;
            }
        }
    }
    let mut model = variables.minimise(end).using(microlp);
    for parts in whole {
        model = model.with(constraint!(parts == 1.0));
    }
    for (machine, [of_first, of_second]) in loads.into_iter().enumerate() {
        // The store extracts until `late`; the other machines can begin when the first extraction ends.
        let begin = if machine == STORE.index() { late } else { early };
        model = model.with(constraint!(of_second.clone() + late <= end));
        model = model.with(constraint!(of_first + of_second + begin <= end));
    }
    model.solve().expect("every child can run somewhere").value(end)
}

fn least_makespan(problem: &Problem) -> f64 {
    let workflow = problem.workflow();
    let both: Vec<_> = problem.tasks().filter(|task| workflow.parents(*task).is_empty()).collect();
    assert_eq!(both.len(), 2);
    let mut least = f64::INFINITY;
    for (first, second) in [(both[0], both[1]), (both[1], both[0])] {
        for places in 0..problem.machine_count().pow(4) {
            let place =
                |digit: u32| MachineId::new(places / problem.machine_count().pow(digit) % problem.machine_count());
            // Both files of an extraction have the same size and the same readers, so their order does not matter.
            if place(0) > place(1) || place(2) > place(3) {
                continue;
            }
            let first = Extraction { task: first, homes: [place(0), place(1)] };
            let second = Extraction { task: second, homes: [place(2), place(3)] };
            if first.seconds(problem) + second.seconds(problem) < least {
                least = least.min(bound(problem, &first, &second));
            }
        }
    }
    // Away from the store each extraction would read for longer than all that.
    for task in both {
        for machine in problem.machines().filter(|machine| *machine != STORE) {
            let inputs = workflow.inputs(task).iter();
            let reads: f64 = inputs.map(|file| problem.placed_access_seconds(*file, machine)).sum();
            assert!(reads > least);
        }
    }
    least
}

#[test]
fn no_schedule_of_the_stated_model_is_as_short_as_the_printed_ones_of_cybershake() {
    let Some(corpus) = common::corpus("bounds of CyberShake") else {
        return;
    };
    // Printed best minutes of GRASP-ILS with 130 rounds.
    for (name, printed) in [("CyberShake_30.xml.dag", 8.27), ("CyberShake_100.xml.dag", 12.38)] {
        let least = least_makespan(&common::cpu_instance(&corpus, name)) / 60.0;
        println!("{name}: printed {printed} min, no schedule is shorter than {least:.2} min");
        assert!(least > printed, "{name}: {least}");
    }
}
