//! Writes the tables and figures of `docs/scheduling.md`: `cargo bench -p xavantes-scheduling --bench tables` takes
//! minutes, with `-- --full` hours. Names of tables after it (`-- cpu gpu`) write these alone; `--seeds=5 --time=0.1` sets
//! the seeds of each search and the part of a tenth of the published time.
//!
//! `XAVANTES_WORKFLOWS` names the folder of stored workflows; without it their tables stay as they are.
//! `XAVANTES_PEER_PYTHON` names a Python that has the package `anrg-saga`; without it the table of peers stays as it is.

#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "../measure/mod.rs"]
mod measure;

mod catalogue;
mod page;
mod peers;
mod published;
mod rental;
mod speed;
mod speedup;

use page::Page;

/// How long searches may take.
#[derive(Clone, Copy)]
pub struct Scale {
    /// Seeds of each search.
    pub seeds: u64,
    /// The part of a tenth of the published time.
    pub time: f64,
    /// Random workflows of the experiments.
    pub workflows: u64,
}

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let full = arguments.iter().any(|argument| argument == "--full");
    let names: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let number = |name: &str, default: f64| {
        let value = arguments.iter().find_map(|argument| argument.strip_prefix(name)?.strip_prefix('='));
        value.map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
    };
    let (seeds, time) = if full { (10.0, 1.0) } else { (3.0, 0.02) };
    let scale = Scale { seeds: number("--seeds", seeds) as u64, time: number("--time", time), workflows: 1000 };
    type Writer = fn(&Page, Scale);
    let tables: [(&str, Writer); 9] = [
        ("catalogue", catalogue::planners),
        ("heft", published::heft),
        ("cpu", published::cpu),
        ("toys", published::toys),
        ("gpu", published::gpu),
        ("rental", rental::experiment),
        ("speedup", speedup::experiment),
        ("speed", speed::large),
        ("peers", peers::saga),
    ];
    let page = Page::new();
    for (name, write) in tables {
        if names.is_empty() || names.iter().any(|wanted| *wanted == name) {
            println!("{name}");
            write(&page, scale);
        }
    }
}
