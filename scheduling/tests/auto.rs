//! `auto` is no worse than any other planner of the catalogue on every small stored instance. Both sides have fixed rounds,
//! so the machine does not matter: `auto` contains GRASP-ILS with the same rounds, and anneals for as many steps in each
//! turn as annealing does alone.

mod common;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use xavantes_scheduling::catalogue::{self, Effort};
use xavantes_scheduling::formats::{ReadError, dax, gpu, teylo, vcl, wds, wfformat};
use xavantes_scheduling::planner::{Run, Silence};
use xavantes_scheduling::problem::CostModel;
use xavantes_scheduling::search::{Annealing, Genetic, Grasp, GraspIls, Hea, ParticleSwarm, Relay};
use xavantes_scheduling::validate::validate;
use xavantes_scheduling::{Auto, Objective, Planner, Problem, Workflow};

/// Larger instances would take minutes.
const MAX_TASKS: usize = 35;
const GRASP_ILS: GraspIls = GraspIls {
    alpha: 0.2,
    constructions: 5,
    rounds: 10,
    perturbation: 0.05,
    acceptance: xavantes_scheduling::search::Acceptance::Cooling(0.01),
    families: true,
};
const STEPS: u64 = 5_000;
/// Branch and bound looks up this often before it is stopped.
const MAX_LOOKS: u64 = 2_000;

/// The problem of a stored file; workflows without machines run on the cluster of the published values.
fn problem(corpus: &Path, file: &str, format: &str) -> Option<Problem> {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let text = read(&corpus.join(file));
    let cluster = vcl::read(&read(&corpus.join("teylo/clusters/cluster.vcl"))).unwrap();
    let on_cluster = |workflow: Result<Workflow, ReadError>, model| {
        Problem::new(workflow.unwrap(), cluster, model).unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    Some(match format {
        "dax" => on_cluster(dax::read(&text), CostModel::overlapped()),
        "wfformat" => on_cluster(wfformat::read(&text), CostModel::overlapped()),
        "teylo" => on_cluster(teylo::read(&text), CostModel::inline_cpu()),
        "gpu" => gpu::read(&text).unwrap(),
        "wds" => wds::read(&text).unwrap(),
        _ => return None,
    })
}

/// Every planner except `auto` and `exact`, which is for smaller problems; searches with few rounds.
fn others() -> Vec<Box<dyn Planner>> {
    let mut all: Vec<Box<dyn Planner>> = vec![
        Box::new(GRASP_ILS),
        Box::new(Hea { population: 10, patience: 3, ..Hea::default() }),
        Box::new(Grasp { rounds: 5, ..Grasp::default() }),
        Box::new(Annealing { steps: STEPS, ..Annealing::default() }),
        Box::new(Genetic { population: 10, generations: 10, ..Genetic::default() }),
        Box::new(ParticleSwarm { particles: 10, steps: 10, ..ParticleSwarm::default() }),
    ];
    let rest = catalogue::ALL.iter().filter(|entry| entry.is_cheap() || entry.name.starts_with("ppsa"));
    all.extend(rest.map(|entry| (entry.build)(Effort::default()) as Box<dyn Planner>));
    all
}

fn value(planner: &dyn Planner, problem: &Problem, objective: Objective) -> Option<f64> {
    let looks = AtomicU64::new(0);
    let counted = planner.name().starts_with("ppsa");
    let stop = || counted && looks.fetch_add(1, Ordering::Relaxed) > MAX_LOOKS;
    let mut silence = Silence::default();
    let mut run = Run { seed: 1, ..Run::new(objective, &mut silence).with_stop(&stop) };
    let schedule = planner.plan(problem, &mut run).ok()?;
    validate(problem, &schedule).ok().map(|()| objective.of(problem, &schedule).value)
}

#[test]
fn auto_is_no_worse_than_any_planner_on_every_small_stored_instance() {
    let Some(corpus) = common::corpus("comparisons of auto with all planners") else {
        return;
    };
    let relay = Relay { steps: STEPS, doublings: 1, grasp_ils: GRASP_ILS, ..Relay::default() };
    let auto = Auto { max_nodes: 20_000, relay, ..Auto::default() };
    let scales: Vec<_> = common::expected(&corpus, "stockinger2020_gpu_grasp_ils.csv");
    let index = std::fs::read_to_string(corpus.join("INDEX.csv")).unwrap();
    let (mut count, mut beaten) = (0, Vec::new());
    for fields in index.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>()) {
        if fields[2].parse::<usize>().is_ok_and(|tasks| tasks > MAX_TASKS) {
            continue;
        }
        let Some(problem) = problem(&corpus, fields[0], fields[1]) else {
            continue;
        };
        let printed = scales.iter().find(|row| fields[1] == "gpu" && fields[0].ends_with(&format!("/{}", row[0])));
        let objective = printed
            .map_or(Objective::Makespan, |row| Objective::balanced(row[1].parse().unwrap(), row[2].parse().unwrap()));
        // Without a plan, `auto` is worse than any planner that has one.
        let ours = value(&auto, &problem, objective).unwrap_or(f64::INFINITY);
        for planner in others() {
            let theirs = value(planner.as_ref(), &problem, objective);
            if theirs.is_some_and(|theirs| theirs < ours * (1.0 - 1e-9)) {
                beaten.push(format!("{}: {} {theirs:?}, auto {ours}", fields[0], planner.name()));
            }
        }
        count += 1;
    }
    assert!(count >= 50, "{count} instances");
    assert!(beaten.is_empty(), "{}", beaten.join("\n"));
}
