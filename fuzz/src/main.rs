//! Runs a target with random inputs: `xavantes-fuzz TARGET [SECONDS [SEED]]`. `xavantes-fuzz seed FOLDER` writes the valid
//! inputs of every target to a folder of its name, for libFuzzer.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use xavantes_fuzz::{TARGETS, mutate};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    if name == "seed" {
        let folder = arguments.next().unwrap_or_else(|| "corpus".into());
        return match write_samples(Path::new(&folder)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("cannot write to {folder}: {error}");
                ExitCode::FAILURE
            }
        };
    }
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

fn write_samples(folder: &Path) -> std::io::Result<()> {
    for target in TARGETS {
        let folder = folder.join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (number, sample) in (target.samples)().into_iter().enumerate() {
            std::fs::write(folder.join(format!("sample-{number}")), sample)?;
        }
    }
    Ok(())
}
