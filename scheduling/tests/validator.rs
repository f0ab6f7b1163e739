//! The validator finds every kind of fault that a planner could make.

use xavantes_scheduling::problem::{CostModel, GpuRule, Limits, Network, Rounding, Transfers, Work, WorkflowBuilder};
use xavantes_scheduling::schedule::Duplicate;
use xavantes_scheduling::validate::{Violation, validate, validate_limits};
use xavantes_scheduling::{Machine, MachineId, Placement, Platform, Problem, Schedule, TaskId};

fn at(machine: u32, start: f64, finish: f64) -> Placement {
    Placement { machine: MachineId(machine), start, finish }
}

/// `a` makes 30 bytes for `b`; `c` needs two cores. Machine 0 has two cores and a GPU, machine 1 one core.
fn problem(transfers: Transfers) -> Problem {
    let mut builder = WorkflowBuilder::new();
    let a = builder.task("a", Work::cpu(10.0));
    let b = builder.task("b", Work { cpu: Some(20.0), gpu: Some(4.0) });
    let c = builder.task("c", Work::cpu(5.0));
    builder.cores(c, 2);
    let made = builder.file("made", 30.0);
    let given = builder.file("given", 20.0);
    builder.place(given, MachineId(1));
    builder.writes(a, made);
    builder.reads(b, made);
    builder.reads(c, given);
    builder.edges_from_files();
    let machines = vec![
        Machine { cores: 2, gpus: 1, storage: 60.0, ..Machine::with_speed("m0", 1.0) },
        Machine { storage: 60.0, start_up: 1.0, ..Machine::with_speed("m1", 2.0) },
    ];
    let platform = Platform::new(machines).with_network(Network::uniform(10.0));
    let model = CostModel { transfers, rounding: Rounding::Exact, gpu: GpuRule::Faster };
    Problem::new(builder.build().unwrap(), platform, model).unwrap()
}

fn good(problem: &Problem) -> Schedule {
    // `a` on machine 1 takes 5 s from its start-up; its data need 3 s; `given` reaches machine 0 after 2 s.
    Schedule::of_tasks(problem, vec![at(1, 1.0, 6.0), at(0, 9.0, 13.0), at(0, 2.0, 7.0)])
}

fn first_fault(schedule: &Schedule, problem: &Problem) -> Violation {
    validate(problem, schedule).unwrap_err().remove(0)
}

#[test]
fn a_right_schedule_passes() {
    let problem = problem(Transfers::Overlapped);
    validate(&problem, &good(&problem)).unwrap();
}

#[test]
fn every_planted_fault_is_found() {
    let problem = problem(Transfers::Overlapped);
    let with = |task: usize, placement: Placement| {
        let mut schedule = good(&problem);
        schedule.tasks[task] = placement;
        first_fault(&schedule, &problem)
    };
    // Two cores are not there; the third machine does not exist.
    assert!(matches!(with(2, at(1, 2.0, 4.5)), Violation::WrongMachine { .. }));
    assert!(matches!(with(2, at(2, 2.0, 7.0)), Violation::WrongMachine { .. }));
    assert!(matches!(with(0, at(1, 1.0, 5.9)), Violation::WrongDuration { .. }));
    assert!(matches!(with(0, at(1, 0.0, 5.0)), Violation::TooEarly { cause: "its machine", .. }));
    assert!(matches!(with(1, at(0, 8.9, 12.9)), Violation::TooEarly { cause: "a parent", .. }));
    assert!(matches!(with(2, at(0, 1.9, 6.9)), Violation::TooEarly { cause: "a file", .. }));
    assert!(matches!(with(2, at(0, 9.0, 14.0)), Violation::Overloaded { what: "cores", .. }));
    let mut short = good(&problem);
    short.tasks.pop();
    assert!(matches!(first_fault(&short, &problem), Violation::WrongSize { .. }));
    let mut placed = good(&problem);
    placed.files[0] = Some(MachineId(0));
    assert!(matches!(first_fault(&placed, &problem), Violation::WrongFilePlace { expected: false, .. }));
}

#[test]
fn a_duplicate_saves_a_transfer_and_must_be_right_itself() {
    let problem = problem(Transfers::Overlapped);
    let mut schedule = good(&problem);
    schedule.tasks[2] = at(0, 14.0, 19.0);
    schedule.tasks[1] = at(0, 10.0, 14.0);
    schedule.tasks[0] = at(1, 5.0, 10.0);
    assert!(matches!(first_fault(&schedule, &problem), Violation::TooEarly { .. }));
    schedule.duplicates.push(Duplicate { task: TaskId(0), placement: at(0, 0.0, 10.0) });
    validate(&problem, &schedule).unwrap();
    schedule.duplicates[0].placement.finish = 9.0;
    assert!(matches!(first_fault(&schedule, &problem), Violation::WrongDuration { .. }));
}

#[test]
fn inline_transfers_occupy_the_machine_and_the_stored_files_must_fit() {
    let problem = problem(Transfers::Inline { local_seconds: 1.0 });
    // `a`: no reads 1, compute 5, write to machine 0 in 3. `b`: read 1, compute 4, no writes 1. `c`: read 2, compute 5,
    // 1.
    let mut schedule = Schedule::of_tasks(&problem, vec![at(1, 1.0, 10.0), at(0, 10.0, 16.0), at(0, 0.0, 8.0)]);
    assert!(matches!(first_fault(&schedule, &problem), Violation::WrongFilePlace { expected: true, .. }));
    schedule.files[0] = Some(MachineId(0));
    validate(&problem, &schedule).unwrap();
    schedule.files[0] = Some(MachineId(1));
    assert!(matches!(first_fault(&schedule, &problem), Violation::WrongDuration { .. }));
}

#[test]
fn files_beyond_the_storage_and_more_gpu_tasks_than_gpus_are_faults() {
    let mut builder = WorkflowBuilder::new();
    let tasks = ["a", "b"].map(|name| builder.task(name, Work { cpu: Some(9.0), gpu: Some(1.0) }));
    let file = builder.file("x", 100.0);
    builder.reads(tasks[0], file);
    let machine = Machine { cores: 2, gpus: 1, storage: 50.0, ..Machine::with_speed("m", 1.0) };
    let platform = Platform::new(vec![machine]);
    let problem = Problem::new(builder.build().unwrap(), platform, CostModel::overlapped()).unwrap();
    let schedule = Schedule::of_tasks(&problem, vec![at(0, 0.0, 1.0), at(0, 0.5, 1.5)]);
    let faults = validate(&problem, &schedule).unwrap_err();
    assert!(matches!(faults[0], Violation::Overloaded { what: "GPUs", .. }), "{faults:?}");
    assert!(matches!(faults[1], Violation::StorageExceeded { .. }), "{faults:?}");
}

#[test]
fn limits_are_checked_on_their_own() {
    let problem = problem(Transfers::Overlapped);
    let limits = Limits {
        deadline: Some(12.0),
        budget: Some(5.0),
        task_deadlines: [(TaskId(0), 5.0), (TaskId(2), 7.0)].into(),
        allowed: [(TaskId(0), vec![MachineId(0)])].into(),
    };
    let problem = problem.with_limits(limits).unwrap();
    let faults = validate_limits(&problem, &good(&problem), 6.0).unwrap_err();
    assert_eq!(faults.len(), 3, "{faults:?}");
    assert!(matches!(first_fault(&good(&problem), &problem), Violation::WrongMachine { .. }));
}
