//! The `xavantes` command.
//!
//! | module | has |
//! |---|---|
//! | `args` | the command line |
//! | `commands` | one file for each command, or for a few that belong together |
//! | `report` | what commands answer, typed |
//! | `output` | reports as text or JSON, progress, messages |
//! | `definition` | documents and parameters of a process to start |
//! | `transfer` | uploads and downloads of files |
//! | `connection` | connections to a grid |
//! | `exit` | exit codes |

mod args;
mod commands;
mod connection;
mod definition;
mod exit;
mod output;
mod report;
mod transfer;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use output::{Output, logging};

fn main() -> ExitCode {
    // On wrong usage clap ends the program with 2, which is Exit::Usage.
    let cli = Cli::parse();
    let is_node = matches!(cli.command, Command::Node(_));
    logging::start(is_node, cli.quiet, cli.verbose);
    let exit = commands::execute(cli.command, Output::new(cli.output, cli.quiet));
    ExitCode::from(exit as u8)
}
