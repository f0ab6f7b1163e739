//! Memory, open files, threads and tasks of nodes over time, and the judgement whether they are flat.

use std::collections::BTreeMap;

/// The names of what is measured, each with the growth over the judged half of a run that is noise. A hostile peer has up to
/// 64 MiB and 150 connections open for some seconds; the trend over many samples sees a tenth of that. A leak of 1 KiB for
/// each attack adds about 30 MiB in half an hour, and a task or file for each adds thousands.
const FIGURES: [(&str, f64); 4] = [("resident MiB", 8.0), ("open files", 16.0), ("threads", 4.0), ("tasks", 48.0)];
/// Growth over the judged half, as a part of the median, that is noise.
const NOISE: f64 = 0.05;

/// One sample: a value for each figure.
pub type Sample = [f64; FIGURES.len()];

#[derive(Default)]
pub struct Measurements {
    by_node: BTreeMap<&'static str, Vec<Sample>>,
}

impl Measurements {
    pub fn add(&mut self, node: &'static str, sample: Sample) {
        self.by_node.entry(node).or_default().push(sample);
    }

    /// Prints, for each node and figure, the medians of the quarters of the run and the growth over its second half.
    pub fn print(&self) {
        for (node, samples) in &self.by_node {
            for (position, (figure, _)) in FIGURES.iter().enumerate() {
                let values: Vec<f64> = samples.iter().map(|sample| sample[position]).collect();
                let quarters: Vec<f64> = values.chunks(values.len().div_ceil(4)).map(median).collect();
                let most = values.iter().copied().fold(0.0, f64::max);
                let growth = growth(&values[values.len() / 2..]);
                println!("{node}: {figure}: medians of the quarters {quarters:?}, most {most}, growth {growth:.1}");
            }
        }
    }

    /// The figures that grow in the second half of the run. The first half is for caches and tables to fill.
    pub fn growing(&self) -> Vec<String> {
        let mut growing = Vec::new();
        for (node, samples) in &self.by_node {
            for (position, (figure, noise)) in FIGURES.iter().enumerate() {
                let values: Vec<f64> = samples[samples.len() / 2..].iter().map(|sample| sample[position]).collect();
                let (growth, bound) = (growth(&values), noise + NOISE * median(&values));
                if growth > bound {
                    growing.push(format!("{node}: {figure} by {growth:.1}, more than {bound:.1}"));
                }
            }
        }
        growing
    }
}

/// Resident memory, open files and threads of an operating-system process, and the tasks that it has reported.
pub fn sample(pid: u32, tasks: f64) -> Sample {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the node runs");
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel tells it");
        line.split_whitespace().next().and_then(|number| number.parse::<f64>().ok()).expect("it is a number")
    };
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |files| files.count());
    [field("VmRSS:") / 1024.0, files as f64, field("Threads:"), tasks]
}

/// What values grow by from the first to the last: the median of the slopes between all pairs, so that peaks do not count.
fn growth(values: &[f64]) -> f64 {
    let mut slopes = Vec::new();
    for (from, first) in values.iter().enumerate() {
        for (to, second) in values.iter().enumerate().skip(from + 1) {
            slopes.push((second - first) / (to - from) as f64);
        }
    }
    median(&slopes) * values.len().saturating_sub(1) as f64
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

/// Panics unless the judgement is right about values that are known to grow, and about values that are not.
pub fn check_judgement() {
    let judge = |value: &dyn Fn(u32) -> f64| {
        let mut measurements = Measurements::default();
        (0..60).for_each(|at| measurements.add("node", [value(at), 9.0, 9.0, 9.0]));
        measurements.growing().len()
    };
    let peaks = |at: u32| if at.is_multiple_of(4) { 64.0 } else { 0.0 };
    assert_eq!(judge(&|at| 100.0 + peaks(at)), 0, "peaks are no growth");
    assert_eq!(judge(&|at| 100.0 + f64::from(at.min(30))), 0, "what fills in the first half is no growth");
    assert_eq!(judge(&|at| 130.0 + f64::from(at) * 0.8 + peaks(at)), 1, "48 MiB in 60 samples are growth");
}
