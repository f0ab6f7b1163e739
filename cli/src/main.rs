//! The `xavantes` command.

mod args;
mod local;
mod report;
mod run;
mod validate;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command};

/// How a command ends, as scripts see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Success = 0,
    Failed = 1,
    Usage = 2,
    Cancelled = 4,
    TimedOut = 124,
}

fn main() -> ExitCode {
    // clap ends with 2 on bad usage, which is our code for it too.
    let cli = Cli::parse();
    let exit = match cli.command {
        Command::Validate(arguments) => validate::validate(&arguments, cli.output),
        Command::Run(arguments) => run::run(arguments, cli.output, cli.quiet),
        Command::Schema => report::print(xavantes_model::SCHEMA),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "xavantes", &mut script);
            report::print(&String::from_utf8_lossy(&script))
        }
    };
    ExitCode::from(exit as u8)
}
