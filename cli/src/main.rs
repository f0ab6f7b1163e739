//! The `xavantes` command.

mod args;
mod client;
mod definition;
mod explain;
mod files;
mod grid;
mod node;
mod progress;
mod report;
mod run;
mod show;
mod stream;
mod validate;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Cli, Command, RepositoryCommand};

/// How a command ends, as scripts see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Success = 0,
    Failed = 1,
    Usage = 2,
    Unreachable = 3,
    Cancelled = 4,
    TimedOut = 124,
}

fn main() -> ExitCode {
    // clap ends with 2 on bad usage, which is our code for it too.
    let cli = Cli::parse();
    let is_node = matches!(cli.command, Command::Node(_));
    report::start_log(is_node, cli.quiet, cli.verbose);
    let exit = match cli.command {
        Command::Validate(arguments) => validate::validate(&arguments, cli.output),
        Command::Schema => report::print(xavantes_model::SCHEMA),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "xavantes", &mut script);
            report::print(&String::from_utf8_lossy(&script))
        }
        Command::Guard { root, temporary } => {
            xavantes_node::run_watchdog(&root, temporary.as_deref());
            Exit::Success
        }
        Command::Run(arguments) => block_on(run::run(arguments, cli.output, cli.quiet)),
        Command::Node(arguments) => block_on(node::node(arguments)),
        Command::Repository(RepositoryCommand::Migrate(it)) => block_on(node::migrate(it, cli.output)),
        command => block_on(client::command(command, cli.output, cli.quiet)),
    };
    ExitCode::from(exit as u8)
}

fn block_on(command: impl Future<Output = Exit>) -> Exit {
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => {
            let exit = runtime.block_on(command);
            // Activities that still run, in threads of their own, do not hold up the end.
            runtime.shutdown_background();
            exit
        }
        Err(error) => {
            report::complain(&format!("cannot start threads: {error}"));
            Exit::Failed
        }
    }
}
