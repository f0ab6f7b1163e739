//! The simulator of schedules agrees with the planners when nothing disturbs it, and only then.

use proptest::prelude::*;
use xavantes_scheduling::generate::{examples, layered};
use xavantes_scheduling::just_in_time::{MinMin, Myopic};
use xavantes_scheduling::list::{Heft, Peft, Tanh};
use xavantes_scheduling::planner::plan;
use xavantes_scheduling::problem::CostModel;
use xavantes_scheduling::schedule_simulator::{OnlineRule, Options, simulate, simulate_online};
use xavantes_scheduling::timeline::Fill;
use xavantes_scheduling::validate::validate;
use xavantes_scheduling::{Objective, Planner};

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn an_undisturbed_run_is_valid_and_never_later_than_planned(
        seed in any::<u64>(),
        tasks in 1usize..40,
        machines in 1usize..6,
        varied in any::<bool>(),
        model in 0usize..3,
    ) {
        let model = [CostModel::overlapped(), CostModel::inline_cpu(), CostModel::inline_gpu()][model];
        let options = layered::Options { tasks, machines, varied, model, ..layered::Options::default() };
        let problem = layered::problem(&options, seed).unwrap();
        let planners: [&dyn Planner; 5] =
            [&Heft { fill: Fill::Insert }, &Heft { fill: Fill::Append }, &MinMin, &Peft, &Tanh];
        for planner in planners {
            let schedule = plan(planner, &problem, Objective::Makespan).unwrap();
            let outcome = simulate(&problem, &schedule, &Options::default());
            validate(&problem, &outcome.schedule).unwrap_or_else(|faults| panic!("{}: {faults:?}", planner.name()));
            for (task, placement) in schedule.runs() {
                let mut real = outcome.schedule.runs();
                let same = |other, machine| other == task && machine == placement.machine;
                let (_, real) = real.find(|(other, real)| same(*other, real.machine)).unwrap();
                prop_assert!(real.finish <= placement.finish * (1.0 + 1e-9), "{} {task:?}", planner.name());
            }
        }
    }
}

#[test]
fn a_schedule_without_needless_gaps_takes_exactly_its_time() {
    let problem = examples::heft_paper().unwrap();
    let schedule = plan(&Heft::default(), &problem, Objective::Makespan).unwrap();
    let outcome = simulate(&problem, &schedule, &Options::default());
    assert_eq!(outcome.schedule, schedule);
    assert_eq!(outcome.makespan, 80.0);
}

#[test]
fn disturbances_repeat_with_their_seed_and_make_runs_longer() {
    for model in [CostModel::overlapped(), CostModel::inline_cpu()] {
        let problem = layered::problem(&layered::Options { model, ..layered::Options::default() }, 5).unwrap();
        let schedule = plan(&Heft { fill: Fill::Append }, &problem, Objective::Makespan).unwrap();
        let calm = simulate(&problem, &schedule, &Options::default());
        let contended = simulate(&problem, &schedule, &Options { contention: true, ..Options::default() });
        assert!(contended.makespan > calm.makespan, "{model:?}");
        let failing = Options { failures_per_second: 0.005, repair_seconds: 10.0, ..Options::default() };
        let failed = simulate(&problem, &schedule, &failing);
        assert!(failed.failures > 0 && failed.makespan > calm.makespan, "{model:?}");
        let noisy = |seed| Options { seed, compute_noise: 0.3, transfer_noise: 0.3, ..Options::default() };
        assert_eq!(simulate(&problem, &schedule, &noisy(1)), simulate(&problem, &schedule, &noisy(1)));
        assert_ne!(simulate(&problem, &schedule, &noisy(1)), simulate(&problem, &schedule, &noisy(2)));
        let mean = (0..200).map(|seed| simulate(&problem, &schedule, &noisy(seed)).makespan).sum::<f64>() / 200.0;
        assert!((0.95..1.4).contains(&(mean / calm.makespan)), "{mean} {}", calm.makespan);
    }
}

#[test]
fn a_hundred_thousand_tasks_are_simulated() {
    let options = layered::Options { tasks: 100_000, width: 200, machines: 50, ..layered::Options::default() };
    let problem = layered::problem(&options, 1).unwrap();
    let schedule = plan(&Myopic::default(), &problem, Objective::Makespan).unwrap();
    let outcome = simulate(&problem, &schedule, &Options::default());
    assert!(outcome.makespan <= schedule.makespan() * (1.0 + 1e-9));
    assert!(outcome.events > 300_000);
}

#[test]
fn online_planners_make_valid_schedules_when_nothing_disturbs_them() {
    for seed in 0..40 {
        for model in [CostModel::overlapped(), CostModel::inline_cpu(), CostModel::inline_gpu()] {
            let options = layered::Options { tasks: 40, width: 8, varied: true, model, ..layered::Options::default() };
            let problem = layered::problem(&options, seed).unwrap();
            for name in [
                "myopic",
                "myopic-fastest",
                "myopic-fastest-idle",
                "myopic-first-free",
                "min-min",
                "max-min",
                "sufferage",
            ] {
                let rule = OnlineRule::of(name).unwrap();
                let outcome = simulate_online(&problem, rule, &Options::default()).unwrap();
                validate(&problem, &outcome.schedule).unwrap_or_else(|faults| panic!("{name} {seed}: {faults:?}"));
                assert_eq!(simulate_online(&problem, rule, &Options::default()).as_ref(), Ok(&outcome), "{name}");
            }
        }
    }
}

#[test]
fn online_planners_react_to_noise_and_failures() {
    let options = layered::Options { tasks: 200, width: 20, ..layered::Options::default() };
    let problem = layered::problem(&options, 3).unwrap();
    let run = |options: Options| simulate_online(&problem, OnlineRule::MinMin, &options).unwrap();
    let calm = run(Options::default());
    let noisy = run(Options { compute_noise: 0.3, transfer_noise: 0.3, ..Options::default() });
    assert_ne!(calm.makespan, noisy.makespan);
    let mean = calm.makespan / 200.0;
    let failing = run(Options { failures_per_second: 0.1 / mean, repair_seconds: mean, ..Options::default() });
    assert!(failing.failures > 0 && failing.makespan > calm.makespan, "{}", failing.failures);
    let crowded = run(Options { contention: true, ..Options::default() });
    assert!(crowded.makespan >= calm.makespan * 0.8, "{}", crowded.makespan);
}
