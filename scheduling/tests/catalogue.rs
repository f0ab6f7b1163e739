//! Every planner of the catalogue is what its entry says, and `auto` is no worse than any of them.

use xavantes_scheduling::catalogue::{ALL, Effort, PlannerKind, find};
use xavantes_scheduling::generate::layered;
use xavantes_scheduling::planner::{Run, Silence, plan};
use xavantes_scheduling::problem::{CostModel, Limits};
use xavantes_scheduling::search::{GraspIls, Relay};
use xavantes_scheduling::validate::{validate, validate_limits};
use xavantes_scheduling::{Auto, LowerBounds, Objective, PlanError, PlanValue, Problem};

fn problem(tasks: usize, model: CostModel, seed: u64) -> Problem {
    layered::problem(&layered::Options { tasks, model, ..layered::Options::default() }, seed).unwrap()
}

#[test]
fn names_are_unique_and_those_of_the_planners() {
    for (place, entry) in ALL.iter().enumerate() {
        assert_eq!((entry.build)(Effort::default()).name(), entry.name);
        assert_eq!((entry.build)(Effort { threads: 2, until_stopped: true }).name(), entry.name);
        assert!(ALL.iter().skip(place + 1).all(|other| other.name != entry.name), "{}", entry.name);
        assert!(PlannerKind::ALL.contains(&entry.kind));
        assert!(!entry.description.is_empty() && !entry.source.is_empty());
    }
    assert!(find("auto").is_some() && find("nothing").is_none());
}

/// An `auto` whose search is short, and ends without a clock.
fn short() -> Auto {
    let grasp_ils = GraspIls { constructions: 4, rounds: 5, ..GraspIls::default() };
    let relay = Relay { constructions: 3, grasp_ils, steps: 2000, doublings: 1, ..Relay::default() };
    Auto { max_nodes: 50_000, relay, ..Auto::default() }
}

#[test]
fn auto_is_no_worse_than_any_planner_that_ends_soon_by_itself() {
    for (seed, model) in [CostModel::overlapped(), CostModel::inline_cpu(), CostModel::inline_gpu()].iter().enumerate()
    {
        let problem = problem(25, *model, seed as u64);
        for objective in [
            Objective::Makespan,
            Objective::Money,
            Objective::Weighted { weight: 0.5, time_scale: 300.0, money_scale: 300.0 },
        ] {
            let auto = plan(&short(), &problem, objective).unwrap();
            validate(&problem, &auto).unwrap();
            let ours = objective.of(&problem, &auto);
            for entry in ALL.iter().filter(|entry| entry.is_cheap() || entry.name.starts_with("ppsa")) {
                let theirs = plan((entry.build)(Effort::default()).as_ref(), &problem, objective).unwrap();
                let theirs = objective.of(&problem, &theirs);
                assert!(!theirs.beats(&ours), "{}, {objective:?}: {theirs:?} {ours:?}", entry.name);
            }
        }
    }
}

#[test]
fn auto_is_no_worse_than_any_search_on_problems_that_it_can_prove() {
    let problem = problem(6, CostModel::overlapped(), 1);
    for objective in [Objective::Makespan, Objective::Weighted { weight: 0.5, time_scale: 300.0, money_scale: 300.0 }] {
        let ours = objective.of(&problem, &plan(&short(), &problem, objective).unwrap());
        for entry in ALL.iter().filter(|entry| !entry.is_cheap()) {
            let asked = std::sync::atomic::AtomicU64::new(0);
            let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 2000;
            let mut silence = Silence::default();
            let mut run = Run::new(objective, &mut silence).with_stop(&stop);
            let theirs = objective.of(&problem, &(entry.build)(Effort::default()).plan(&problem, &mut run).unwrap());
            assert!(!theirs.beats(&ours), "{}, {objective:?}: {theirs:?} {ours:?}", entry.name);
        }
    }
}

#[test]
fn auto_keeps_all_limits_or_says_which_one_it_missed() {
    let free = problem(20, CostModel::overlapped(), 3);
    let bounds = LowerBounds::of(&free);
    let heft = plan((find("heft").unwrap().build)(Effort::default()).as_ref(), &free, Objective::Makespan).unwrap();
    let heft = PlanValue::of(&free, &heft);
    let limits = Limits {
        budget: Some((heft.money + bounds.money) / 2.0),
        deadline: Some(heft.makespan * 2.0),
        ..Limits::default()
    };
    let limited = free.clone().with_limits(limits).unwrap();
    for objective in [
        Objective::Makespan,
        Objective::Money,
        Objective::Weighted { weight: 0.9, time_scale: 10.0, money_scale: 100.0 },
    ] {
        let schedule = plan(&short(), &limited, objective).unwrap();
        validate(&limited, &schedule).unwrap();
        validate_limits(&limited, &schedule, PlanValue::of(&limited, &schedule).money).unwrap();
    }
    let poor = Objective::MakespanWithinBudget { budget: bounds.money * 0.9 };
    let failed = plan(&short(), &free, poor);
    assert!(matches!(failed, Err(PlanError::LimitMissed { what: "budget", .. })), "{failed:?}");
    let hurry = Objective::MoneyWithinDeadline { deadline: bounds.makespan * 0.9 };
    let failed = plan(&short(), &free, hurry);
    assert!(matches!(failed, Err(PlanError::LimitMissed { what: "deadline", .. })), "{failed:?}");
}

#[test]
fn auto_repeats_itself_on_several_threads_and_ends_when_it_is_stopped() {
    let problem = problem(30, CostModel::inline_cpu(), 5);
    let planner = Auto { threads: 2, ..short() };
    let once = plan(&planner, &problem, Objective::Makespan).unwrap();
    assert_eq!(plan(&planner, &problem, Objective::Makespan).unwrap(), once);
    let endless = (find("auto").unwrap().build)(Effort { threads: 2, until_stopped: true });
    let asked = std::sync::atomic::AtomicU64::new(0);
    let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) > 1000;
    let mut silence = Silence::default();
    let mut run = Run::new(Objective::Makespan, &mut silence).with_stop(&stop);
    let stopped = endless.plan(&problem, &mut run).unwrap();
    validate(&problem, &stopped).unwrap();
}
