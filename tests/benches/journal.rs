//! What it costs that a node keeps its processes: 50,000 activities that do nothing, on a node with a data directory and on
//! one that keeps everything in memory, in turn. Fails if the median of the ratios is above 1.15. The data directory is
//! in the build folder, which is on a disk where a temporary folder may not be.
//! Run with `cargo bench -p xavantes-tests --bench journal`.

mod pairs;

use std::path::Path;
use std::process::ExitCode;

use xavantes_tests::{Grid, free_address};

const ACTIVITIES: u64 = 50_000;
const MOST: f64 = 1.15;

fn main() -> ExitCode {
    let mut grid = Grid::within(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let file = pairs::document(&mut grid, pairs::NOTHING);
    let (memory, disk) = (free_address(), free_address());
    grid.start("memory/node", &memory, &["--in-memory"]);
    grid.start("disk/node", &disk, &[]);
    let verdict = pairs::compare(
        ("in memory", &mut || pairs::run(&grid, &memory, &file, ACTIVITIES)),
        ("kept", &mut || pairs::run(&grid, &disk, &file, ACTIVITIES)),
        MOST,
    );
    println!("peaks: {} MiB in memory, {} MiB kept", grid.peak_mib("memory/node"), grid.peak_mib("disk/node"));
    verdict
}
