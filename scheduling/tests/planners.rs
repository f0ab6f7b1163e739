//! Planners on random problems: every schedule passes the validator, none is below the lower bounds, and equal runs are
//! equal.

use proptest::prelude::*;
use xavantes_scheduling::generate::{examples, layered};
use xavantes_scheduling::just_in_time::{MaxMin, MinMin, Myopic, MyopicRule, Sufferage};
use xavantes_scheduling::list::{Cpop, Heft, Hybrid, Moheft, Peft, Tanh};
use xavantes_scheduling::planner::plan;
use xavantes_scheduling::problem::CostModel;
use xavantes_scheduling::timeline::Fill;
use xavantes_scheduling::validate::validate;
use xavantes_scheduling::{LowerBounds, Objective, PlanValue, Planner, Problem};

fn planners() -> Vec<Box<dyn Planner>> {
    vec![
        Box::new(Myopic { rule: MyopicRule::EarliestFinish }),
        Box::new(Myopic { rule: MyopicRule::Fastest }),
        Box::new(Myopic { rule: MyopicRule::FastestIdle }),
        Box::new(Myopic { rule: MyopicRule::FirstFree }),
        Box::new(MinMin),
        Box::new(MaxMin),
        Box::new(Sufferage),
        Box::new(Heft { fill: Fill::Insert }),
        Box::new(Heft { fill: Fill::Append }),
        Box::new(Cpop),
        Box::new(Peft),
        Box::new(Hybrid),
        Box::new(Tanh),
        Box::new(Moheft::default()),
    ]
}

fn check(problem: &Problem, objective: Objective) {
    let bounds = LowerBounds::of(problem);
    for planner in planners() {
        let schedule =
            plan(planner.as_ref(), problem, objective).unwrap_or_else(|error| panic!("{}: {error}", planner.name()));
        validate(problem, &schedule).unwrap_or_else(|faults| panic!("{}: {faults:?}", planner.name()));
        let value = PlanValue::of(problem, &schedule);
        assert!(value.makespan >= bounds.makespan * (1.0 - 1e-9), "{}: {value:?} {bounds:?}", planner.name());
        assert!(value.money >= bounds.money * (1.0 - 1e-9), "{}: {value:?} {bounds:?}", planner.name());
        assert_eq!(plan(planner.as_ref(), problem, objective).as_ref(), Ok(&schedule), "{}", planner.name());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn every_schedule_is_valid_and_not_below_the_bounds(
        seed in any::<u64>(),
        tasks in 1usize..40,
        width in 1usize..10,
        machines in 1usize..7,
        varied in any::<bool>(),
        model in 0usize..3,
        communication in 0.0f64..3.0,
    ) {
        let model = [CostModel::overlapped(), CostModel::inline_cpu(), CostModel::inline_gpu()][model];
        let options = layered::Options { tasks, width, parents: 4, communication, machines, varied, model };
        let problem = layered::problem(&options, seed).unwrap();
        check(&problem, Objective::Weighted { weight: 0.5, time_scale: 100.0, money_scale: 100.0 });
    }
}

#[test]
fn tight_storage_is_kept_or_the_planner_says_that_there_is_no_room() {
    let mut planned = 0;
    for seed in 0..60 {
        for model in [CostModel::overlapped(), CostModel::inline_cpu()] {
            let options = layered::Options { tasks: 20, model, ..layered::Options::default() };
            let problem = layered::problem(&options, seed).unwrap();
            let workflow = problem.workflow().clone();
            let total: f64 = workflow.files().map(|file| workflow.file_bytes(file)).sum();
            let mut platform = problem.platform().clone();
            platform.machines.iter_mut().for_each(|machine| machine.storage = total * 0.5);
            let problem = Problem::new(workflow, platform, model).unwrap();
            for planner in planners() {
                if let Ok(schedule) = plan(planner.as_ref(), &problem, Objective::Makespan) {
                    validate(&problem, &schedule).unwrap_or_else(|faults| panic!("{}: {faults:?}", planner.name()));
                    planned += 1;
                }
            }
        }
    }
    assert!(planned > 1000, "{planned}");
}

#[test]
fn the_example_of_the_heft_paper_has_its_published_makespans() {
    let problem = examples::heft_paper().unwrap();
    check(&problem, Objective::Makespan);
    let makespan = |planner: &dyn Planner| plan(planner, &problem, Objective::Makespan).unwrap().makespan();
    assert_eq!(makespan(&Heft { fill: Fill::Insert }), 80.0);
    assert_eq!(makespan(&Heft { fill: Fill::Append }), 80.0);
    assert_eq!(makespan(&Cpop), 86.0);
}

#[test]
fn insertion_uses_a_gap_that_appending_wastes() {
    let problem = examples::insertion().unwrap();
    let makespan = |fill: Fill| plan(&Heft { fill }, &problem, Objective::Makespan).unwrap().makespan();
    assert_eq!((makespan(Fill::Insert), makespan(Fill::Append)), (30.0, 35.0));
}
