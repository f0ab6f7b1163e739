//! What it costs that a program is an activity: 10,000 times `/bin/true` on two slots of a node with journal, working
//! directories and logs, against a bare loop that starts them two at a time, in turn. Fails if the median of the ratios
//! of the rates is below 0.7. On a machine that has other things to do the rates say little, for a node has more threads
//! than the loop and so gets more of the processors; what both took of them is told besides. The data directory is in the build folder, which is on a disk where a temporary folder may
//! not be.
//! Run with `cargo bench --workspace --bench programs`.

mod pairs;

use std::path::Path;
use std::process::{ExitCode, Stdio};
use std::time::Instant;

use tokio::process::Command;
use tokio::runtime::Runtime;
use xavantes_tests::{Grid, free_address};

const PROGRAMS: u64 = 10_000;
const AT_ONCE: u64 = 2;
/// How much longer it may take.
const MOST: f64 = 1.0 / 0.7;

const TRUE: &str = r#"<CODE LANGUAGE="command"><ARG>/bin/true</ARG></CODE>"#;

/// Starts all programs, some at once, and waits for each.
fn bare(runtime: &Runtime) -> f64 {
    let began = Instant::now();
    runtime.block_on(async {
        let loops = (0..AT_ONCE).map(|_| {
            tokio::spawn(async {
                for _ in 0..PROGRAMS / AT_ONCE {
                    let mut command = Command::new("/bin/true");
                    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                    assert!(command.status().await.expect("it is there").success());
                }
            })
        });
        for each in loops.collect::<Vec<_>>() {
            each.await.expect("it ends");
        }
    });
    began.elapsed().as_secs_f64()
}

/// Milliseconds on processors that a process took so far, with those that it waited for.
fn processors(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields = stat.rsplit(')').next().expect("there is a name").split_ascii_whitespace().skip(11).take(4);
    // In ticks of 10 milliseconds.
    fields.map(|ticks| ticks.parse::<f64>().expect("it is a number") * 10.0).sum()
}

fn main() -> ExitCode {
    let mut grid = Grid::within(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let file = pairs::document(&mut grid, TRUE);
    let address = free_address();
    grid.start("a/node", &address, &["--slots", &AT_ONCE.to_string(), "--containers", "none"]);
    let runtime = Runtime::new().expect("there are threads");
    let (mut one, mut other, mut count) = (0.0, 0.0, 0.0);
    let verdict = pairs::compare(
        ("bare", &mut || {
            let before = processors(std::process::id());
            let seconds = bare(&runtime);
            one += processors(std::process::id()) - before;
            count += PROGRAMS as f64;
            seconds
        }),
        ("activities", &mut || {
            let before = processors(grid.pid("a/node"));
            let seconds = pairs::run(&grid, &address, &file, PROGRAMS);
            other += processors(grid.pid("a/node")) - before;
            seconds
        }),
        MOST,
    );
    println!(
        "on processors: bare {:.3} ms, activities {:.3} ms each, ratio {:.3}",
        one / count,
        other / count,
        other / one
    );
    println!("peak: {} MiB", grid.peak_mib("a/node"));
    verdict
}
