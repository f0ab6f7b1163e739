//! Runs a target with random inputs: `xavantes-fuzz TARGET [SECONDS [SEED]]`.

use std::process::ExitCode;
use std::time::Duration;

use xavantes_fuzz::{TARGETS, mutate};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        eprintln!("targets are: {}", TARGETS.map(|target| target.name).join(", "));
        return ExitCode::from(2);
    };
    let mut number = |otherwise| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(otherwise);
    let (seconds, seed) = (number(10), number(0));
    let count = mutate::run(*target, seed, Duration::from_secs(seconds));
    println!("{name}: {count} inputs");
    ExitCode::SUCCESS
}
