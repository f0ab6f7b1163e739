//! Searches: valid, repeatable, never worse than HEFT and Min-Min, and optimal on the published toys.

mod common;

use proptest::prelude::*;
use xavantes_scheduling::generate::{examples, layered};
use xavantes_scheduling::just_in_time::MinMin;
use xavantes_scheduling::list::Heft;
use xavantes_scheduling::planner::{Run, plan};
use xavantes_scheduling::problem::CostModel;
use xavantes_scheduling::search::{Annealing, Genetic, Grasp, GraspIls, Hea, ParallelSearch, ParticleSwarm, Relay};
use xavantes_scheduling::validate::validate;
use xavantes_scheduling::{LowerBounds, Objective, PlanValue, Planner, Problem, Schedule};

/// Short searches, whose ends do not depend on the clock.
fn searches() -> Vec<Box<dyn Planner>> {
    vec![
        Box::new(GraspIls { constructions: 4, rounds: 3, ..GraspIls::default() }),
        Box::new(Grasp { rounds: 2, ..Grasp::default() }),
        Box::new(Annealing { steps: 500, ..Annealing::default() }),
        Box::new(Genetic { population: 10, generations: 5, ..Genetic::default() }),
        Box::new(ParticleSwarm { particles: 8, steps: 5, ..ParticleSwarm::default() }),
        Box::new(Hea { population: 10, patience: 2, ..Hea::default() }),
        Box::new(Relay {
            constructions: 3,
            grasp_ils: GraspIls { constructions: 5, rounds: 3, ..GraspIls::default() },
            steps: 200,
            doublings: 2,
            ..Relay::default()
        }),
        Box::new(ParallelSearch { planner: Annealing { steps: 200, ..Annealing::default() }, threads: 2 }),
    ]
}

fn seeded(planner: &dyn Planner, problem: &Problem, objective: Objective, seed: u64) -> Schedule {
    let mut silence = |_| ();
    let mut run = Run { objective, seed, stop: &|| false, progress: &mut silence };
    planner.plan(problem, &mut run).unwrap_or_else(|error| panic!("{}: {error}", planner.name()))
}

fn check(problem: &Problem, objective: Objective, seed: u64) {
    let bounds = LowerBounds::of(problem);
    let list: [&dyn Planner; 2] = [&Heft::default(), &MinMin];
    let starts = list.map(|planner| objective.of(problem, &plan(planner, problem, objective).unwrap()));
    for planner in searches() {
        let name = planner.name();
        let schedule = seeded(planner.as_ref(), problem, objective, seed);
        validate(problem, &schedule).unwrap_or_else(|faults| panic!("{name}: {faults:?}"));
        let value = PlanValue::of(problem, &schedule);
        assert!(value.makespan >= bounds.makespan * (1.0 - 1e-9), "{name}: {value:?} {bounds:?}");
        assert!(value.money >= bounds.money * (1.0 - 1e-9), "{name}: {value:?} {bounds:?}");
        if objective == Objective::Makespan {
            let score = objective.score(value);
            assert!(
                starts.iter().all(|start| score.value <= start.value * (1.0 + 1e-9)),
                "{name}: {score:?} {starts:?}"
            );
        }
        assert_eq!(seeded(planner.as_ref(), problem, objective, seed), schedule, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn every_search_is_valid_repeatable_and_no_worse_than_its_start(
        seed in any::<u64>(),
        tasks in 1usize..16,
        machines in 1usize..6,
        varied in any::<bool>(),
        model in 0usize..3,
        objective in 0usize..4,
    ) {
        let model = [CostModel::overlapped(), CostModel::inline_cpu(), CostModel::inline_gpu()][model];
        let options = layered::Options { tasks, machines, varied, model, ..layered::Options::default() };
        let problem = layered::problem(&options, seed).unwrap();
        let objective = [
            Objective::Makespan,
            Objective::Weighted { weight: 0.5, time_scale: 100.0, money_scale: 100.0 },
            Objective::MakespanWithinBudget { budget: 500.0 },
            Objective::MoneyWithinDeadline { deadline: 500.0 },
        ][objective];
        check(&problem, objective, seed);
    }
}

#[test]
fn a_search_keeps_a_budget_that_heft_breaks() {
    let problem = layered::problem(&layered::Options::default(), 2).unwrap();
    let heft = PlanValue::of(&problem, &plan(&Heft::default(), &problem, Objective::Makespan).unwrap());
    let bounds = LowerBounds::of(&problem);
    let budget = (heft.money + bounds.money) / 2.0;
    let objective = Objective::MakespanWithinBudget { budget };
    for planner in [&Genetic::default() as &dyn Planner, &Annealing { steps: 20_000, ..Annealing::default() }] {
        let value = PlanValue::of(&problem, &seeded(planner, &problem, objective, 1));
        assert!(value.money <= budget, "{}: {value:?}, budget {budget}, HEFT {heft:?}", planner.name());
    }
}

#[test]
fn searches_find_the_best_schedule_of_the_heft_paper() {
    let problem = examples::heft_paper().unwrap();
    let planners: [&dyn Planner; 2] = [&GraspIls { constructions: 5, ..GraspIls::default() }, &Annealing::default()];
    for planner in planners {
        assert_eq!(seeded(planner, &problem, Objective::Makespan, 1).makespan(), 73.0, "{}", planner.name());
    }
}

#[test]
fn grasp_ils_is_optimal_on_all_stored_toys_with_gpus() {
    let Some(corpus) = common::corpus("toys with GPUs") else {
        return;
    };
    let mut count = 0;
    for row in common::expected(&corpus, "stockinger2020_gpu_grasp_ils.csv") {
        let Ok(optimum) = row[9].parse::<f64>() else {
            continue;
        };
        let problem = common::gpu_instance(&corpus, &row[0]);
        let objective = Objective::balanced(row[1].parse().unwrap(), row[2].parse().unwrap());
        let planner = GraspIls { constructions: 12, rounds: 12, ..GraspIls::default() };
        for seed in 1..=3 {
            let schedule = seeded(&planner, &problem, objective, seed);
            validate(&problem, &schedule).unwrap();
            let value = objective.of(&problem, &schedule).value;
            assert!((value - optimum).abs() < 1e-6, "{}: {value}, {optimum}", row[0]);
        }
        count += 1;
    }
    assert!(count >= 13, "{count}");
}

#[test]
fn grasp_ils_reaches_the_optimum_of_all_stored_toys_without_gpus() {
    let Some(corpus) = common::corpus("toys without GPUs") else {
        return;
    };
    for row in common::expected(&corpus, "teylo2016_table6.2_toys.csv") {
        let text = std::fs::read_to_string(corpus.join("teylo/toy-wds").join(&row[0])).unwrap();
        let problem = xavantes_scheduling::formats::wds::read(&text).unwrap();
        let planner = GraspIls { constructions: 12, rounds: 12, ..GraspIls::default() };
        let found = seeded(&planner, &problem, Objective::Makespan, 1).makespan();
        assert_eq!(found, row[3].parse::<f64>().unwrap(), "{}", row[0]);
    }
}
