//! Tables beside printed values: HEFT and Min-Min, GRASP-ILS and HEA on CPUs, GRASP-ILS on GPUs.

use xavantes_scheduling::catalogue::{Effort, SharedPlanner, find};
use xavantes_scheduling::formats::gpu;
use xavantes_scheduling::just_in_time::MinMin;
use xavantes_scheduling::list::Heft;
use xavantes_scheduling::planner::plan;
use xavantes_scheduling::timeline::Fill;
use xavantes_scheduling::{LowerBounds, Objective, Planner, Problem};

use crate::Scale;
use crate::common::{corpus, cpu_instance, expected, gpu_instance};
use crate::measure::{CPU, best_and_mean, mann_whitney, values};
use crate::page::Page;

fn endless(name: &str) -> SharedPlanner {
    let entry = find(name).unwrap_or_else(|| panic!("the catalogue has no planner {name}"));
    (entry.build)(Effort { threads: 1, until_stopped: true })
}

fn short(file: &str) -> &str {
    file.split(".xml").next().unwrap_or(file).trim_end_matches(".dag").trim_end_matches(".dax")
}

/// Runs of HEA are printed as a best and a mean only.
const HEA_RUNS: usize = 10;

pub fn heft(page: &Page, _: Scale) {
    let Some(corpus) = corpus("HEFT and Min-Min") else {
        return;
    };
    let mut table = String::from(
        "| instance | HEFT, printed | ours | % | Min-Min, printed | ours | % |\n|---|---:|---:|---:|---:|---:|---:|\n",
    );
    for row in expected(&corpus, "teylo2016_table6.4_6.5.csv") {
        let problem = cpu_instance(&corpus, &row[0]);
        let minutes = |planner: &dyn Planner| {
            plan(planner, &problem, Objective::Makespan).map_or(f64::NAN, |schedule| schedule.makespan() / 60.0)
        };
        let (heft, min_min) = (minutes(&Heft { fill: Fill::Append }), minutes(&MinMin));
        let printed = |column: usize| row[column].parse::<f64>().unwrap_or(f64::NAN);
        let above = |ours: f64, printed: f64| (ours / printed - 1.0) * 100.0;
        table += &format!(
            "| {} | {:.2} | {heft:.2} | {:+.1} | {:.2} | {min_min:.2} | {:+.1} |\n",
            short(&row[0]),
            printed(2),
            above(heft, printed(2)),
            printed(1),
            above(min_min, printed(1)),
        );
    }
    page.replace("heft", &table);
}

pub fn cpu(page: &Page, scale: Scale) {
    let Some(corpus) = corpus("searches on CPUs") else {
        return;
    };
    let (grasp_ils, auto) = (endless("grasp-ils"), endless("auto"));
    let mut table = format!(
        "{} seeds; CPU seconds of each run: {:.0} % of a tenth of the printed time.\n\n| instance | s | printed HEA \
         | printed GRASP-ILS | `grasp-ils` | `auto` | p | bound |\n|---|---:|---:|---:|---:|---:|---:|---:|\n",
        scale.seeds,
        scale.time * 100.0
    );
    let mut groups = Vec::new();
    for row in &CPU {
        let problem = cpu_instance(&corpus, row.file);
        let seconds = row.seconds * scale.time;
        let minutes = |planner: &SharedPlanner| -> Vec<f64> {
            let found = values(planner.as_ref(), &problem, Objective::Makespan, scale.seeds, seconds);
            found.iter().map(|seconds| seconds / 60.0).collect()
        };
        let (ours, best) = (minutes(&grasp_ils), minutes(&auto));
        let p = mann_whitney(&ours, &[row.hea.0; HEA_RUNS]);
        let pair = |(best, mean): (f64, f64)| format!("{best:.2} / {mean:.2}");
        table += &format!(
            "| {} | {seconds:.2} | {} | {} | {} | {} | {p:.3} | {:.2} |\n",
            short(row.file),
            pair(row.hea),
            pair(row.grasp_ils),
            pair(best_and_mean(&ours)),
            pair(best_and_mean(&best)),
            LowerBounds::of(&problem).makespan / 60.0,
        );
        let relative = |mean: f64| mean / row.hea.1;
        let means = [row.grasp_ils.1, best_and_mean(&ours).1, best_and_mean(&best).1];
        groups.push((short(row.file).to_owned(), means.map(relative).to_vec()));
    }
    page.replace("cpu", &table);
    let series = ["printed GRASP-ILS", "grasp-ils", "auto"];
    page.bars("scheduling-cpu.svg", "Mean makespan, relative to the printed mean of HEA", &series, &groups);
}

/// Instances whose published runs lost edges: several tasks write one file, and only the first one was waited for.
fn lost_edges(instance: &str) -> bool {
    instance.starts_with("Montage") || instance.starts_with("Sipht_60") || instance.starts_with("Sipht_100")
}

fn problem(corpus: &std::path::Path, instance: &str) -> Problem {
    if !lost_edges(instance) {
        return gpu_instance(corpus, instance);
    }
    let text = std::fs::read_to_string(corpus.join("teylo/gpu").join(instance)).unwrap_or_default();
    gpu::read_with_lost_edges(&text).unwrap_or_else(|error| panic!("{instance}: {error}"))
}

pub fn toys(page: &Page, scale: Scale) {
    gpu_table(page, "toys", scale, true);
}

pub fn gpu(page: &Page, scale: Scale) {
    gpu_table(page, "gpu", scale, false);
}

fn gpu_table(page: &Page, name: &str, scale: Scale, toys: bool) {
    let Some(corpus) = corpus("searches on GPUs") else {
        return;
    };
    let auto = endless("auto");
    let mut table = format!(
        "{} seeds.\n\n| instance | s | printed best / mean | `auto` best / mean |{}\n|---|---:|---:|---:|{}\n",
        scale.seeds,
        if toys { " optimum |" } else { " graph |" },
        if toys { "---:|" } else { "---|" },
    );
    for row in expected(&corpus, "stockinger2020_gpu_grasp_ils.csv") {
        if row[9].is_empty() == toys {
            continue;
        }
        let number = |column: usize| row[column].parse::<f64>().unwrap_or(f64::NAN);
        let objective = Objective::balanced(number(1), number(2));
        // A tenth of a toy's time is less than what the cheap planners need.
        let seconds = (number(8) / 10.0 * scale.time).max(0.1);
        let found = values(auto.as_ref(), &problem(&corpus, &row[0]), objective, scale.seeds, seconds);
        let (best, mean) = best_and_mean(&found);
        let last = match (toys, lost_edges(&row[0])) {
            (true, _) => format!("{:.6}", number(9)),
            (false, true) => "lost edges, as printed".to_owned(),
            (false, false) => "whole".to_owned(),
        };
        let instance = short(&row[0]);
        table += &format!(
            "| {instance} | {seconds:.1} | {:.6} / {:.6} | {best:.6} / {mean:.6} | {last} |\n",
            number(4),
            number(7)
        );
    }
    page.replace(name, &table);
}
