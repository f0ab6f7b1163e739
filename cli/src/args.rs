//! The command line: all commands, and the arguments that several of them have. Arguments of one command stand beside
//! it in `commands`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use xavantes_node::check_address;

use crate::commands::{
    explain, forget, grid, list, logs, node, repository, results, run, schema, show, sources, steer, submit, validate,
    wait,
};

/// Runs long, structured, parallel computations described as XML processes.
#[derive(Parser)]
#[command(name = "xavantes", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Text for people, or JSON for scripts: one document on standard output
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    pub output: Format,
    /// Print only results and errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Print more log messages; twice: all of them
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // The program has one value of it.
pub(crate) enum Command {
    /// Run a process to its end on a grid inside this program and print its results
    #[command(mut_arg("files", |files| files.required(false).required_unless_present("resume")))]
    Run(run::RunArgs),
    /// Find all problems in definitions before they run
    Validate(validate::ValidateArgs),
    /// Run one node of a grid, with any combination of roles
    Node(node::NodeArgs),
    /// End the programs of a node that was killed; nodes start this command themselves
    #[command(hide = true)]
    Guard(node::GuardArgs),
    /// Start a process on a grid and print its id
    Submit(submit::SubmitArgs),
    /// List the processes that run and ran
    List(list::ListArgs),
    /// Show a process, or an element of it, with everything in it
    Tree(show::ShowArgs),
    /// Show one element
    Show(show::ShowArgs),
    /// Print the standard output and error of an activity
    Logs(logs::LogsArgs),
    /// Print the results of a process
    Results(results::ResultsArgs),
    /// Wait until processes end; the exit code is that of the first one that did not complete
    Wait(wait::WaitArgs),
    /// Remove ended processes and their results
    Forget(forget::ForgetArgs),
    /// Explain why an element waits or failed, and why the result of an activity was reused or not
    Explain(explain::ExplainArgs),
    /// Cancel an element; a second time: without waiting for its FINALLY
    Cancel(steer::PathArgs),
    /// Start nothing new in an element
    Pause(steer::PathArgs),
    /// Continue a paused element
    Resume(steer::PathArgs),
    /// Try an element again that waits, is held, or runs
    Retry(steer::RetryArgs),
    /// Change a bound of a running controller, or a parameter of an element that has not begun
    Set(steer::SetArgs),
    /// List the nodes of a group
    Nodes(GridArgs),
    /// List the groups that the group manager knows, adjacent and beyond
    Groups(GridArgs),
    /// List the process and activity types of a coordinator
    Types(GridArgs),
    /// List, add and remove external data that processes use by name
    Sources(sources::SourcesArgs),
    /// Let a node finish its work, accept no more, and end
    Drain(grid::DrainArgs),
    /// Check whether a node serves: the exit code is 0 if it does, 3 if not
    Health(GridArgs),
    /// Manage the database that the coordinators of a group share
    #[command(subcommand)]
    Repository(repository::RepositoryCommand),
    /// Print the XML schema of definitions, for editors
    Schema,
    /// Print a completion script for a shell
    Completions(schema::CompletionsArgs),
}

/// The grid to talk to.
#[derive(Args)]
pub(crate) struct GridArgs {
    /// Address of the node to talk to, HOST:PORT
    #[arg(long, env = "XAVANTES_COORDINATOR", default_value = "127.0.0.1:7433", value_name = "ADDRESS")]
    #[arg(value_parser = address)]
    pub coordinator: String,
}

/// The process to run.
#[derive(Args)]
pub(crate) struct DefinitionArgs {
    /// The definition; several files, if it uses types of others. "-" is standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Process type to run; needed if there are several that no other calls
    #[arg(long, value_name = "NAME")]
    pub process: Option<String>,
    /// Parameter of the process; lists and maps in JSON notation; @PATH uploads a local file or directory
    #[arg(short = 'p', long = "parameter", value_name = "KEY=VALUE", value_parser = key_value)]
    pub parameters: Vec<(String, String)>,
    /// JSON file with parameters: one object, a member for each
    #[arg(long, value_name = "FILE")]
    pub params: Option<PathBuf>,
    /// Run all activities, also those whose results are in the cache (CACHE="true")
    #[arg(long)]
    pub no_reuse: bool,
}

fn address(text: &str) -> Result<String, String> {
    check_address(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}
