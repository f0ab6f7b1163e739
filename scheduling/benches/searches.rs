//! A search beside the published values of Stockinger 2020: `cargo bench -p xavantes-scheduling --bench searches -- cpu
//! grasp-ils 3` runs a planner of the catalogue with 3 seeds on each stored CPU instance within a tenth of the published
//! time (CPU seconds of the thread); `gpu` likewise. A fourth argument scales the time, a fifth names a part of the
//! instance. `XAVANTES_WORKFLOWS` names the folder of stored workflows.

#[path = "../tests/common/mod.rs"]
mod common;
mod measure;

use measure::{CPU, best_and_mean, values};
use xavantes_scheduling::catalogue::{self, Effort};
use xavantes_scheduling::{LowerBounds, Objective};

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let Some(corpus) = common::corpus("searches") else {
        return;
    };
    let [kind, name, rest @ ..] = arguments.as_slice() else {
        println!("usage: cpu|gpu PLANNER [SEEDS [SCALE [INSTANCE]]]");
        return;
    };
    let Some(entry) = catalogue::find(name) else {
        println!("there is no planner {name}");
        return;
    };
    let planner = (entry.build)(Effort { threads: 1, until_stopped: true });
    let seeds = rest.first().and_then(|text| text.parse().ok()).unwrap_or(1);
    let scale: f64 = rest.get(1).and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let wanted = |instance: &str| rest.get(2).is_none_or(|part| instance.contains(part.as_str()));
    if kind == "cpu" {
        println!("{:28} GRASP-ILS best mean   HEA best mean   {name} best mean", "instance");
        for row in CPU.iter().filter(|row| wanted(row.file)) {
            let problem = common::cpu_instance(&corpus, row.file);
            let found = values(planner.as_ref(), &problem, Objective::Makespan, seeds, row.seconds * scale);
            let (best, mean) = best_and_mean(&found);
            let bound = LowerBounds::of(&problem).makespan / 60.0;
            print!("{:28} {:7.2} {:7.2}   ", row.file, row.grasp_ils.0, row.grasp_ils.1);
            print!("{:7.2} {:7.2}   {:7.2} {:7.2}", row.hea.0, row.hea.1, best / 60.0, mean / 60.0);
            println!("   bound {bound:7.2}   {found:?}");
        }
        return;
    }
    println!("{:28} GRASP-ILS best mean   {name} best mean", "instance");
    for row in common::expected(&corpus, "stockinger2020_gpu_grasp_ils.csv").iter().filter(|row| wanted(&row[0])) {
        let number = |column: usize| row[column].parse::<f64>().unwrap_or(f64::NAN);
        let problem = common::gpu_instance(&corpus, &row[0]);
        let objective = Objective::balanced(number(1), number(2));
        let seconds = (number(8) / 10.0).max(0.05) * scale;
        let (best, mean) = best_and_mean(&values(planner.as_ref(), &problem, objective, seeds, seconds));
        println!("{:28} {:.6} {:.6}   {best:.6} {mean:.6}", row[0], number(4), number(7));
    }
}
