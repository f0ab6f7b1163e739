//! What benchmarks share: the CPU time of a thread, runs of planners within it, and a test of two samples.
#![allow(dead_code)] // Each benchmark uses a part.

use std::cell::Cell;
use std::time::Instant;

use xavantes_scheduling::planner::Run;
use xavantes_scheduling::validate::validate;
use xavantes_scheduling::{Objective, Planner, Problem, Schedule};

/// Seconds that the current thread has computed: other work on the machine does not count. Without `/proc` (not on
/// Linux) it is the wall clock.
pub fn cpu_seconds(begin: Instant) -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = text.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    nanoseconds.map_or_else(|| begin.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}

/// Looks at the clock once in this many questions of a search.
const CLOCK_INTERVAL: u32 = 32;

thread_local! {
    static ASKED: Cell<u32> = const { Cell::new(0) };
    static ENDED: Cell<bool> = const { Cell::new(false) };
}

/// Plans on this thread, stopped after these seconds of its CPU time. Returns the schedule and the CPU seconds.
pub fn within(
    planner: &dyn Planner,
    problem: &Problem,
    objective: Objective,
    seed: u64,
    seconds: f64,
) -> (Schedule, f64) {
    let begin = Instant::now();
    let first = cpu_seconds(begin);
    ENDED.set(false);
    let stop = move || {
        let asked = ASKED.get().wrapping_add(1);
        ASKED.set(asked);
        if asked.is_multiple_of(CLOCK_INTERVAL) && cpu_seconds(begin) - first >= seconds {
            ENDED.set(true);
        }
        ENDED.get()
    };
    let mut silence = |_| ();
    let mut run = Run { objective, seed, stop: &stop, progress: &mut silence };
    let schedule = planner.plan(problem, &mut run).unwrap_or_else(|error| panic!("{}: {error}", planner.name()));
    let used = cpu_seconds(begin) - first;
    validate(problem, &schedule).unwrap_or_else(|faults| panic!("{}: {faults:?}", planner.name()));
    (schedule, used)
}

/// The values of an objective with seeds 1, 2, …, each within these CPU seconds.
pub fn values(planner: &dyn Planner, problem: &Problem, objective: Objective, seeds: u64, seconds: f64) -> Vec<f64> {
    let value = |seed| objective.of(problem, &within(planner, problem, objective, seed, seconds).0).value;
    (1..=seeds).map(value).collect()
}

/// The least value and the mean.
pub fn best_and_mean(values: &[f64]) -> (f64, f64) {
    (values.iter().copied().fold(f64::INFINITY, f64::min), values.iter().sum::<f64>() / values.len() as f64)
}

/// Mann–Whitney U: the one-sided probability that the first sample is this small by chance. Exact, with ties: it counts
/// the ways to choose the first sample from both whose ranks have no larger sum.
pub fn mann_whitney(one: &[f64], other: &[f64]) -> f64 {
    let all: Vec<f64> = one.iter().chain(other).copied().collect();
    // Twice the mean rank among equals, so that it is a whole number.
    let rank = |value: &f64| -> usize {
        let below = all.iter().filter(|other| *other < value).count();
        let equal = all.iter().filter(|other| *other == value).count();
        2 * below + equal + 1
    };
    let found: usize = one.iter().map(rank).sum();
    let most: usize = all.iter().map(rank).sum();
    // For each size of a choice and each sum of its ranks: the number of choices.
    let mut ways = vec![vec![0.0; most + 1]; one.len() + 1];
    ways[0][0] = 1.0;
    for rank in all.iter().map(rank) {
        for size in (1..=one.len()).rev() {
            for sum in (rank..=most).rev() {
                ways[size][sum] += ways[size - 1][sum - rank];
            }
        }
    }
    let chosen = &ways[one.len()];
    chosen[..=found].iter().sum::<f64>() / chosen.iter().sum::<f64>()
}

/// A CPU instance of Stockinger 2020 with its printed minutes.
pub struct CpuInstance {
    /// Its file.
    pub file: &'static str,
    /// Best and mean of the printed GRASP-ILS with 130 rounds.
    pub grasp_ils: (f64, f64),
    /// Best and mean of the printed HEA.
    pub hea: (f64, f64),
    /// Least best and least mean over all printed settings of all searches.
    pub least: (f64, f64),
    /// A tenth of the seconds of HEA: the printed column grows from row to row, so its increments count.
    pub seconds: f64,
}

const fn row(
    file: &'static str,
    grasp_ils: (f64, f64),
    hea: (f64, f64),
    least: (f64, f64),
    seconds: f64,
) -> CpuInstance {
    CpuInstance { file, grasp_ils, hea, least, seconds }
}

/// The instances that are stored with the workflows.
pub const CPU: [CpuInstance; 9] = [
    row("CyberShake_30.xml.dag", (8.27, 9.54), (10.15, 10.29), (8.22, 9.26), 7.0),
    row("CyberShake_100.xml.dag", (12.38, 13.90), (14.88, 22.08), (11.85, 13.38), 80.0),
    row("GENOME.d.351024866.0.dax.dag", (440.57, 440.91), (441.38, 443.65), (440.45, 440.74), 41.0),
    row("Epigenomics_24.xml.dag", (55.80, 55.80), (55.80, 55.80), (55.80, 55.80), 2.0),
    row("Epigenomics_100.xml.dag", (885.08, 888.83), (889.25, 889.47), (883.83, 888.82), 37.0),
    row("Montage_25.xml.dag", (0.88, 0.91), (0.90, 0.92), (0.88, 0.90), 2.0),
    row("Montage_100.xml.dag", (4.03, 5.48), (3.93, 4.06), (3.92, 3.92), 60.0),
    row("Inspiral_30.xml.dag", (13.67, 13.68), (13.70, 13.71), (13.67, 13.67), 4.0),
    row("Inspiral_100.xml.dag", (40.05, 40.26), (40.23, 40.50), (40.05, 40.20), 53.0),
];
