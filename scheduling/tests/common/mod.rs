//! What several tests share: the corpus of stored workflows.
#![allow(dead_code)] // Each test uses a part.

use std::path::PathBuf;

/// The folder of stored workflows, or nothing after a loud message.
pub fn corpus(what: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("XAVANTES_WORKFLOWS").map(PathBuf::from);
    if folder.is_none() {
        eprintln!("SKIPPED: XAVANTES_WORKFLOWS is not set, so {what} are not tested with stored workflows");
    }
    folder
}

use xavantes_scheduling::Problem;
use xavantes_scheduling::formats::{gpu, teylo, vcl};
use xavantes_scheduling::problem::CostModel;

/// A CPU instance of Stockinger 2020 on the cluster of its published values.
pub fn cpu_instance(corpus: &std::path::Path, name: &str) -> Problem {
    let workflow = std::fs::read_to_string(corpus.join("teylo/cpu").join(name)).unwrap();
    let cluster = std::fs::read_to_string(corpus.join("teylo/clusters/cluster.vcl")).unwrap();
    Problem::new(teylo::read(&workflow).unwrap(), vcl::read(&cluster).unwrap(), CostModel::inline_cpu()).unwrap()
}

/// A CPU/GPU instance of Stockinger 2020.
pub fn gpu_instance(corpus: &std::path::Path, name: &str) -> Problem {
    gpu::read(&std::fs::read_to_string(corpus.join("teylo/gpu").join(name)).unwrap()).unwrap()
}

/// The rows of a table of expected values, without the head.
pub fn expected(corpus: &std::path::Path, table: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(corpus.join("teylo/expected").join(table)).unwrap();
    text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}
