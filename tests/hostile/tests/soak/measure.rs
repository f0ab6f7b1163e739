//! Memory, open files and threads of nodes over time.

use std::collections::BTreeMap;

/// What is measured, with the growth between two thirds of the run that is noise.
const FIGURES: [(&str, u64); 3] = [("resident MiB", 48), ("open files", 40), ("threads", 24)];
/// Growth in percent that is noise.
const NOISE_PERCENT: u64 = 20;

/// One sample: a value for each figure.
type Sample = [u64; 3];

#[derive(Default)]
pub struct Measurements {
    by_node: BTreeMap<&'static str, Vec<Sample>>,
}

impl Measurements {
    /// Measures a node.
    pub fn add(&mut self, node: &'static str, pid: u32) {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the node runs");
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel tells it");
            line.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()).expect("it is a number")
        };
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |files| files.count() as u64);
        self.by_node.entry(node).or_default().push([field("VmRSS:") / 1024, files, field("Threads:")]);
    }

    /// Prints the medians of the three thirds.
    pub fn print(&self) {
        for (node, samples) in &self.by_node {
            for (position, (figure, _)) in FIGURES.iter().enumerate() {
                let thirds: Vec<u64> = (0..3).map(|third| median(samples, third, position)).collect();
                let most = samples.iter().map(|sample| sample[position]).max().unwrap_or_default();
                println!("{node}: {figure}: medians of the thirds {thirds:?}, most {most}");
            }
        }
    }

    /// Figures whose median in the last third is above that in the middle third.
    pub fn growing(&self) -> Vec<String> {
        let mut growing = Vec::new();
        for (node, samples) in &self.by_node {
            for (position, (figure, noise)) in FIGURES.iter().enumerate() {
                let (middle, last) = (median(samples, 1, position), median(samples, 2, position));
                if last > middle + middle * NOISE_PERCENT / 100 + noise {
                    growing.push(format!("{node}: {figure} from {middle} to {last}"));
                }
            }
        }
        growing
    }
}

/// The median of a figure in a third of the samples.
fn median(samples: &[Sample], third: usize, figure: usize) -> u64 {
    let size = samples.len() / 3;
    let mut values: Vec<u64> = samples[third * size..(third + 1) * size].iter().map(|sample| sample[figure]).collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}
