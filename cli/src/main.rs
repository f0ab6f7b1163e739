//! The `xavantes` command.
//!
//! | module | has |
//! |---|---|
//! | `cli` | the command line, and which function executes a command |
//! | `commands` | one file for each command, or for a few that belong together |
//! | `args` | arguments that several commands have |
//! | `report` | what commands answer, typed |
//! | `output` | reports as text or JSON, progress, messages |
//! | `documents` | the files of definitions |
//! | `definition` | documents and parameters of a process to start |
//! | `transfer` | uploads and downloads of files |
//! | `connection` | connections to a grid |
//! | `exit` | exit codes |

mod args;
mod cli;
mod commands;
mod connection;
mod definition;
mod documents;
mod exit;
mod output;
mod report;
mod transfer;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, CliCommand};
use output::logging;
use output::printer::Output;

fn main() -> ExitCode {
    // On wrong usage clap ends the program with 2, which is Exit::Usage.
    let cli = Cli::parse();
    let is_node = matches!(cli.command, CliCommand::Node(_));
    logging::start(is_node, cli.quiet, cli.verbose);
    let exit = cli::execute(cli.command, Output::new(cli.output, cli.quiet));
    ExitCode::from(exit as u8)
}
