//! Runs a small grid for minutes under honest work and hostile peers, and fails if memory, open files, threads or tasks of a
//! node grow: `cargo test --release -p xavantes-hostile --test soak -- --minutes 60`. Without `--minutes` it does nothing.
//!
//! The honest work forgets its processes, as retention would. So nothing in the grid has a reason to grow.

mod measure;
mod peers;
mod work;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use measure::{Measurements, sample};
use xavantes_hostile::block_on;
use xavantes_tests::{Grid, until};

/// Time between two measurements. A run is judged by some hundreds of them at most.
fn measure_interval(length: Duration) -> Duration {
    (length / 400).max(Duration::from_secs(2))
}

const NODES: [&str; 5] = ["a/main", "a/w1", "a/w2", "b/main", "b/w1"];

fn main() {
    measure::check_judgement();
    let arguments: Vec<String> = std::env::args().collect();
    let minutes = arguments.iter().skip_while(|argument| *argument != "--minutes").nth(1);
    let Some(minutes) = minutes.and_then(|minutes| minutes.parse::<f64>().ok()) else {
        eprintln!("SKIPPED: say --minutes N to run the soak");
        return;
    };
    let length = Duration::from_secs_f64(60.0 * minutes);
    let mut grid = Grid::new();
    let a = grid.group("a", &[2, 2], &["--max-connections", "200"]);
    let b = grid.group("b", &[1], &["--adjacent", &a, "--max-connections", "200"]);
    let documents = work::Documents::write(&mut grid);
    let (grid, stop, began) = (&grid, &AtomicBool::new(false), Instant::now());
    let mut measurements = Measurements::default();
    std::thread::scope(|scope| {
        for address in [&a, &b] {
            scope.spawn(|| work::submit_until(grid, address, &documents, stop));
        }
        for seed in 1..=2 {
            let addresses = [a.clone(), b.clone()];
            scope.spawn(move || block_on(peers::attack_until(addresses, seed, stop)));
        }
        while began.elapsed() < length {
            std::thread::sleep(measure_interval(length));
            for node in NODES {
                measurements.add(node, sample(grid.pid(node), tasks(grid, node)));
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
    measurements.print();
    let growing = measurements.growing();
    assert!(growing.is_empty(), "not flat: {growing:?}");
}

/// The number of tasks that a node reports when it is asked.
fn tasks(grid: &Grid, node: &str) -> f64 {
    let reports = || {
        let log = grid.log(node);
        let counts =
            log.lines().filter_map(|line| line.split_once("tasks=")?.1.split_whitespace().next()?.parse().ok());
        counts.collect::<Vec<f64>>()
    };
    let before = reports().len();
    grid.signal(node, "USR1");
    until("the node reports its tasks", 60, || reports().get(before).copied())
}
