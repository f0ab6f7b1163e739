//! Runs the worlds of some seeds, and prints the command that repeats a world that went wrong.

use std::process::ExitCode;
use std::time::Instant;

use xavantes_simulation::{Mutation, Tools, run};

const USAGE: &str = "usage: xavantes-simulation [--seed N] [--runs K] [--trace] [--mutation M]";

struct Arguments {
    seed: u64,
    runs: u64,
    trace: bool,
    mutation: Option<Mutation>,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments { seed: 1, runs: 1, trace: false, mutation: None };
    let mut given = std::env::args().skip(1);
    while let Some(name) = given.next() {
        if name == "--trace" {
            parsed.trace = true;
            continue;
        }
        let value = given.next().ok_or(USAGE)?;
        let number = || value.parse().map_err(|_| format!("{value:?} is not a number"));
        match &*name {
            "--seed" => parsed.seed = number()?,
            "--runs" => parsed.runs = number()?,
            "--mutation" => {
                let names = || Mutation::ALL.map(|(name, _)| name).join(", ");
                parsed.mutation = Some(Mutation::named(&value).ok_or_else(|| format!("mutations are: {}", names()))?);
            }
            _ => return Err(USAGE.into()),
        }
    }
    Ok(parsed)
}

fn main() -> ExitCode {
    let parsed = arguments().and_then(|arguments| Ok((arguments, Tools::new()?)));
    let (arguments, mut tools) = match parsed {
        Ok(parsed) => parsed,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    let began = Instant::now();
    let (mut failed, mut steps) = (0, 0);
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.runs) {
        match run(seed, arguments.mutation, arguments.trace, &mut tools) {
            Ok(more) => steps += more,
            Err(problem) => {
                failed += 1;
                let mutation = arguments.mutation.map_or(String::new(), |it| format!(" --mutation {}", it.name()));
                println!("seed {seed}: {problem}");
                println!("  cargo run --release -p xavantes-simulation -- --seed {seed} --trace{mutation}");
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{} worlds, {failed} went wrong, {steps} steps, {seconds:.1} s", arguments.runs);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
