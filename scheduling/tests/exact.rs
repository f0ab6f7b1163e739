//! Branch and bound: optimal where it says so, and never worse than where it started.

mod common;

use xavantes_scheduling::exact::Ppsa;
use xavantes_scheduling::generate::{dense, examples, layered};
use xavantes_scheduling::just_in_time::MinMin;
use xavantes_scheduling::list::Heft;
use xavantes_scheduling::planner::{Run, Silence, plan};
use xavantes_scheduling::problem::CostModel;
use xavantes_scheduling::search::GraspIls;
use xavantes_scheduling::validate::validate;
use xavantes_scheduling::{LowerBounds, Objective, Planner, Problem};

fn makespan(planner: &dyn Planner, problem: &Problem) -> f64 {
    let schedule = plan(planner, problem, Objective::Makespan).unwrap();
    validate(problem, &schedule).unwrap();
    schedule.makespan()
}

#[test]
fn the_best_schedule_of_the_heft_paper_takes_73() {
    let problem = examples::heft_paper().unwrap();
    let mut silence = Silence::default();
    let solved = Ppsa::exact().solve(&problem, &mut Run::new(Objective::Makespan, &mut silence)).unwrap();
    validate(&problem, &solved.schedule).unwrap();
    assert_eq!((solved.schedule.makespan(), solved.optimal), (73.0, true));
    // With pre-assignment or in the order of ranks alone the result is between the optimum and HEFT.
    for planner in [Ppsa::default(), Ppsa { preassign: false, ..Ppsa::default() }] {
        assert!((73.0..=80.0).contains(&makespan(&planner, &problem)), "{planner:?}");
    }
}

#[test]
fn ppsa_is_never_worse_than_heft_and_min_min() {
    for (seed, density) in [(1, 0.4), (2, 0.6), (3, 0.8)] {
        for run_times in [dense::RunTimes::Related, dense::RunTimes::Unrelated] {
            let problem = dense::problem(30, density, run_times, seed).unwrap();
            let found = makespan(&Ppsa { max_nodes: 2000, part: 6, ..Ppsa::default() }, &problem);
            assert!(found <= makespan(&Heft::default(), &problem) * (1.0 + 1e-9));
            assert!(found <= makespan(&MinMin, &problem) * (1.0 + 1e-9));
        }
    }
}

#[test]
fn no_planner_beats_the_exact_search_on_small_problems() {
    for seed in 0..30 {
        for model in [CostModel::overlapped(), CostModel::inline_gpu()] {
            let (tasks, machines) = if model == CostModel::overlapped() { (7, 3) } else { (4, 2) };
            let options = layered::Options {
                tasks,
                machines,
                width: 2,
                model,
                varied: seed % 2 == 0,
                ..layered::Options::default()
            };
            let problem = layered::problem(&options, seed).unwrap();
            let best = makespan(&Ppsa::exact(), &problem);
            let search = makespan(&GraspIls { constructions: 5, rounds: 10, ..GraspIls::default() }, &problem);
            assert!(best <= search * (1.0 + 1e-9), "seed {seed}: {best} {search}");
            assert!(best >= LowerBounds::of(&problem).makespan * (1.0 - 1e-9), "seed {seed}");
        }
    }
}

#[test]
fn the_exact_search_proves_the_optimum_of_stored_toys() {
    let Some(corpus) = common::corpus("exact search") else {
        return;
    };
    for name in ["3_toy_5_A.dag", "3_toy_5_C.dag", "3_toy_10_A.dag", "3_toy_10_C.dag", "5_toy_5_A.dag", "gpu.dag"] {
        let rows = common::expected(&corpus, "stockinger2020_gpu_grasp_ils.csv");
        let row = rows.iter().find(|row| row[0] == name).unwrap();
        let problem = common::gpu_instance(&corpus, name);
        let objective = Objective::balanced(row[1].parse().unwrap(), row[2].parse().unwrap());
        let mut silence = Silence::default();
        let solved = Ppsa::exact().solve(&problem, &mut Run::new(objective, &mut silence)).unwrap();
        let value = objective.of(&problem, &solved.schedule).value;
        assert!(solved.optimal && (value - row[9].parse::<f64>().unwrap()).abs() < 1e-6, "{name}: {value}");
    }
}
