//! The `xavantes` command.
//!
//! | module | has |
//! |---|---|
//! | `cli` | the command line, and which function executes a command |
//! | `commands` | one file for each command, or for a few that belong together |
//! | `args` | arguments that several commands have |
//! | `report` | what commands answer, typed |
//! | `output` | reports as text or JSON, progress, messages |
//! | `planning` | from files to schedules: machine files, formats, objectives, searches |
//! | `chart` | plans as pictures |
//! | `documents` | the files of definitions |
//! | `definition` | documents and parameters of a process to start |
//! | `transfer` | uploads and downloads of files |
//! | `given_path` | paths of elements as users type them |
//! | `grid_connection` | connections to a grid |
//! | `exit` | exit codes |

mod args;
mod chart;
mod cli;
mod commands;
mod definition;
mod documents;
mod exit;
mod given_path;
mod grid_connection;
mod output;
mod planning;
mod report;
mod transfer;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, CliCommand};
use exit::Exit;
use output::logging;
use output::printer::Output;
use output::terminal;

/// The allocator of the C library keeps an arena for each thread, and what threads that serve requests have freed stays there:
/// a node of 50 MiB grew to 300 MiB under load. jemalloc returns unused memory to the system within ten seconds.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(problem) => return ExitCode::from(report_usage(&problem) as u8),
    };
    if cli.raw {
        terminal::set_raw();
    }
    let is_node = matches!(cli.command, CliCommand::Node(_));
    logging::start(is_node, cli.quiet, cli.verbose);
    let exit = cli::execute(cli.command, Output::new(cli.output, cli.quiet));
    ExitCode::from(exit as u8)
}

/// Prints the help that the user asked for, or what is wrong with the command line: that message may quote file names.
fn report_usage(problem: &clap::Error) -> Exit {
    if !problem.use_stderr() {
        // Without a reader nobody misses the help.
        let _ = problem.print();
        return Exit::Success;
    }
    match std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        true => terminal::note_coloured(&problem.render().ansi().to_string()),
        false => terminal::note(&problem.render().to_string()),
    }
    Exit::Usage
}
