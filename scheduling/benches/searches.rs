//! Searches beside the published values of Stockinger 2020: `cargo bench -p xavantes-scheduling --bench searches -- cpu
//! grasp-ils 3` runs a planner with 3 seeds on each stored CPU instance within a tenth of the published time; `gpu`
//! likewise. A fourth argument scales the time. `XAVANTES_WORKFLOWS` names the folder of stored workflows.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use xavantes_scheduling::planner::Run;
use xavantes_scheduling::search::{Annealing, Genetic, Grasp, GraspIls, Hea, ParticleSwarm, Relay};
use xavantes_scheduling::validate::validate;
use xavantes_scheduling::{LowerBounds, Objective, Planner, Problem};

/// Instance, best and mean minutes of the published GRASP-ILS (130 rounds) and of the reproduced HEA, seconds.
const CPU: [(&str, [f64; 4], f64); 9] = [
    ("CyberShake_30.xml.dag", [8.27, 9.54, 10.15, 10.29], 7.0),
    ("CyberShake_100.xml.dag", [12.38, 13.90, 14.88, 22.08], 80.0),
    ("GENOME.d.351024866.0.dax.dag", [440.57, 440.91, 441.38, 443.65], 41.0),
    ("Epigenomics_24.xml.dag", [55.80, 55.80, 55.80, 55.80], 2.0),
    ("Epigenomics_100.xml.dag", [885.08, 888.83, 889.25, 889.47], 37.0),
    ("Montage_25.xml.dag", [0.88, 0.91, 0.90, 0.92], 2.0),
    ("Montage_100.xml.dag", [4.03, 5.48, 3.93, 4.06], 60.0),
    ("Inspiral_30.xml.dag", [13.67, 13.68, 13.70, 13.71], 4.0),
    ("Inspiral_100.xml.dag", [40.05, 40.26, 40.23, 40.50], 53.0),
];

fn planner(name: &str) -> Option<Box<dyn Planner>> {
    Some(match name {
        "grasp-ils" => Box::new(GraspIls { constructions: u64::MAX, ..GraspIls::default() }),
        "relay" => Box::new(Relay { doublings: u32::MAX, ..Relay::default() }),
        "hea" => Box::new(Hea { patience: u64::MAX, ..Hea::default() }),
        "grasp" => Box::new(Grasp { rounds: u64::MAX, ..Grasp::default() }),
        "annealing" => Box::new(Annealing { steps: 2_000_000, descents: u64::MAX, ..Annealing::default() }),
        "genetic" => Box::new(Genetic { generations: u64::MAX, ..Genetic::default() }),
        "particle-swarm" => Box::new(ParticleSwarm { steps: u64::MAX, ..ParticleSwarm::default() }),
        _ => return None,
    })
}

fn scores(planner: &dyn Planner, problem: &Problem, objective: Objective, seeds: u64, seconds: f64) -> (f64, f64) {
    let mut values = Vec::new();
    for seed in 1..=seeds {
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        let stop = || Instant::now() >= end;
        let mut silence = |_| ();
        let mut run = Run { objective, seed, stop: &stop, progress: &mut silence };
        match planner.plan(problem, &mut run) {
            Ok(schedule) => {
                if let Err(faults) = validate(problem, &schedule) {
                    println!("invalid: {faults:?}");
                }
                values.push(objective.of(problem, &schedule).value);
            }
            Err(error) => println!("{error}"),
        }
    }
    let best = values.iter().copied().fold(f64::INFINITY, f64::min);
    (best, values.iter().sum::<f64>() / values.len() as f64)
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let Some(corpus) = common::corpus("searches") else {
        return;
    };
    let [kind, name, rest @ ..] = arguments.as_slice() else {
        println!("usage: cpu|gpu PLANNER [SEEDS [SCALE [INSTANCE]]]");
        return;
    };
    let Some(planner) = planner(name) else {
        println!("there is no planner {name}");
        return;
    };
    let seeds = rest.first().and_then(|text| text.parse().ok()).unwrap_or(1);
    let scale: f64 = rest.get(1).and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let wanted = |instance: &str| rest.get(2).is_none_or(|part| instance.contains(part.as_str()));
    if kind == "cpu" {
        println!("{:28} GRASP-ILS best mean   HEA best mean   {name} best mean", "instance");
        for (instance, [best, mean, hea_best, hea_mean], seconds) in CPU.iter().filter(|row| wanted(row.0)) {
            let problem = common::cpu_instance(&corpus, instance);
            let ours = scores(planner.as_ref(), &problem, Objective::Makespan, seeds, seconds * scale);
            let (ours_best, ours_mean) = (ours.0 / 60.0, ours.1 / 60.0);
            let bound = LowerBounds::of(&problem).makespan / 60.0;
            print!("{instance:28} {best:7.2} {mean:7.2}   {hea_best:7.2} {hea_mean:7.2}   ");
            println!("{ours_best:7.2} {ours_mean:7.2}   bound {bound:7.2}");
        }
        return;
    }
    println!("{:28} GRASP-ILS best mean   {name} best mean", "instance");
    for row in common::expected(&corpus, "stockinger2020_gpu_grasp_ils.csv").iter().filter(|row| wanted(&row[0])) {
        let number = |column: usize| row[column].parse::<f64>().unwrap_or(f64::NAN);
        let problem = common::gpu_instance(&corpus, &row[0]);
        let objective = Objective::balanced(number(1), number(2));
        let seconds = (number(8) / 10.0).max(0.05) * scale;
        let (best, mean) = scores(planner.as_ref(), &problem, objective, seeds, seconds);
        println!("{:28} {:.6} {:.6}   {best:.6} {mean:.6}", row[0], number(4), number(7));
    }
}
