//! The command line: all commands, and the functions that execute them.

use clap::{CommandFactory, Parser, Subcommand};

use crate::args::{Format, GridArgs, WatchedGridArgs};
use crate::commands::node::NodeEnd;
use crate::commands::{
    draw, explain, forget, grid, import, list, logs, node, plan, predict, repository, rerun, results, run, schema,
    shared, show, simulate, sources, steer, submit, types, validate, wait,
};
use crate::exit::Exit;
use crate::output::printer::Output;
use crate::output::terminal;

/// Runs long, structured, parallel computations described as XML processes.
#[derive(Parser)]
#[command(name = "xavantes", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: CliCommand,
    /// Text for people, or JSON for scripts: one document on standard output
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    pub output: Format,
    /// Print only results and errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Print more log messages; twice: all of them
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Print everything unchanged, also characters that control the terminal
    #[arg(long, global = true)]
    pub raw: bool,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // The program has one value of it.
pub(crate) enum CliCommand {
    /// Run a process to its end on a grid inside this program and print its results
    #[command(mut_arg("files", |files| files.required(false).required_unless_present("resume")))]
    Run(run::RunArgs),
    /// Find all problems in definitions before they run
    Validate(validate::ValidateArgs),
    /// Plan where and when the tasks of a workflow run
    Plan(plan::PlanArgs),
    /// Simulate what happens to a plan when durations vary, attempts fail and transfers wait for each other
    Simulate(simulate::SimulateArgs),
    /// Predict durations and output sizes of activities from past runs
    #[command(subcommand)]
    Predict(predict::PredictCommand),
    /// Turn a workflow of another system into a process
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// Draw a picture of a definition
    Draw(draw::DrawArgs),
    /// Run one node of a grid, with any combination of roles
    Node(node::NodeArgs),
    /// End the programs of a node that was killed; nodes start this command themselves
    #[command(hide = true)]
    Guard(node::GuardArgs),
    /// Start a process on a grid and print its id
    Submit(submit::SubmitArgs),
    /// Start a process again, with a corrected definition or parameters: what did not change is taken over
    Rerun(rerun::RerunArgs),
    /// List the processes that run and ran
    List(list::ListArgs),
    /// Show a process, or an element of it, with everything in it
    Tree(show::ShowArgs),
    /// Show one element
    Show(show::ShowElementArgs),
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
    Nodes(WatchedGridArgs),
    /// List the groups that the group manager knows, adjacent and beyond
    Groups(WatchedGridArgs),
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
    /// Call a shared object, within a program that runs as an activity
    Shared(shared::SharedArgs),
    /// Print the XML schema of definitions, for editors
    Schema,
    /// Print a completion script for a shell
    Completions(schema::CompletionsArgs),
}

/// Executes a command. An `Err` is an exit code, too: that of a command whose error message is already printed.
pub(crate) fn execute(command: CliCommand, output: Output) -> Exit {
    let done = match command {
        CliCommand::Run(arguments) => block_on(run::run(arguments, output)),
        CliCommand::Validate(arguments) => block_on(validate::validate(&arguments, output)),
        CliCommand::Plan(arguments) => block_on(plan::plan(arguments, output)),
        CliCommand::Simulate(arguments) => block_on(simulate::simulate(arguments, output)),
        CliCommand::Predict(command) => predict::execute(command, output),
        CliCommand::Import(command) => import::import(&command, output),
        CliCommand::Draw(arguments) => draw::draw(&arguments, output),
        CliCommand::Node(arguments) => block_on(node::node(arguments, output)).and_then(|end| match end {
            NodeEnd::Exit(exit) => Ok(exit),
            NodeEnd::Waits => block_on(node::wait_for_signal()),
        }),
        CliCommand::Guard(arguments) => Ok(node::guard(&arguments)),
        CliCommand::Submit(arguments) => block_on(submit::submit(arguments, output)),
        CliCommand::Rerun(arguments) => block_on(rerun::rerun(arguments, output)),
        CliCommand::List(arguments) => block_on(list::list(&arguments, output)),
        CliCommand::Tree(arguments) => block_on(show::tree(&arguments, output)),
        CliCommand::Show(arguments) => block_on(show::show(&arguments, output)),
        CliCommand::Logs(arguments) => block_on(logs::logs(&arguments, output)),
        CliCommand::Results(arguments) => block_on(results::results(&arguments, output)),
        CliCommand::Wait(arguments) => block_on(wait::wait(arguments, output)),
        CliCommand::Forget(arguments) => block_on(forget::forget(arguments, output)),
        CliCommand::Explain(arguments) => block_on(explain::explain(&arguments, output)),
        CliCommand::Cancel(arguments) => block_on(steer::cancel(arguments, output)),
        CliCommand::Pause(arguments) => block_on(steer::pause(arguments, output)),
        CliCommand::Resume(arguments) => block_on(steer::resume(arguments, output)),
        CliCommand::Retry(arguments) => block_on(steer::retry(arguments, output)),
        CliCommand::Set(arguments) => block_on(steer::set(arguments, output)),
        CliCommand::Nodes(arguments) => block_on(grid::nodes(&arguments, output)),
        CliCommand::Groups(arguments) => block_on(grid::groups(&arguments, output)),
        CliCommand::Types(grid) => block_on(types::types(&grid, output)),
        CliCommand::Sources(arguments) => block_on(sources::sources(arguments, output)),
        CliCommand::Drain(arguments) => block_on(grid::drain(arguments, output)),
        CliCommand::Health(grid) => block_on(grid::health(&grid, output)),
        CliCommand::Repository(command) => block_on(repository::execute(command, output)),
        CliCommand::Shared(arguments) => shared::shared(arguments, output),
        CliCommand::Schema => Ok(schema::schema()),
        CliCommand::Completions(arguments) => Ok(schema::completions(&arguments, &mut Cli::command())),
    };
    done.unwrap_or_else(|exit| exit)
}

fn block_on<T>(command: impl Future<Output = Result<T, Exit>>) -> Result<T, Exit> {
    let runtime = tokio::runtime::Runtime::new().map_err(|error| {
        terminal::error(&format!("cannot start threads: {error}"));
        Exit::Failed
    })?;
    let done = runtime.block_on(command);
    // Activities that still run, in threads of their own, do not delay the end.
    runtime.shutdown_background();
    done
}
