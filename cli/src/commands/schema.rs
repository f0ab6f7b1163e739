//! `xavantes schema` and `xavantes completions`: files for editors and shells, printed as they are.

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::Exit;
use crate::output::terminal;

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

pub(crate) fn schema() -> Exit {
    terminal::print(xavantes_model::SCHEMA)
}

/// `command` is the command line to complete.
pub(crate) fn completions(arguments: &CompletionsArgs, command: &mut Command) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, command, "xavantes", &mut script);
    terminal::print(&String::from_utf8_lossy(&script))
}
