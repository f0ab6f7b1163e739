//! What can be typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Runs long, structured, parallel computations described as XML processes.
#[derive(Parser)]
#[command(name = "xavantes", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub command: Command,
    /// Text for people, or JSON for scripts: one document on standard output
    #[arg(long, global = true, value_enum, default_value_t = Format::Text)]
    pub output: Format,
    /// Say only what was asked for
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a process to its end in this program and print its results
    Run(RunArgs),
    /// Find everything that is wrong with definitions before they run
    Validate(ValidateArgs),
    /// Print the XML schema of definitions, for editors
    Schema,
    /// Print a completion script for a shell
    Completions { shell: clap_complete::Shell },
}

#[derive(Args)]
pub(crate) struct ValidateArgs {
    /// Definitions; they may use each other's types. "-" is standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}

#[derive(Args)]
pub(crate) struct RunArgs {
    /// The definition
    pub file: PathBuf,
    /// Which process type to run; needed if there are several that no other calls
    #[arg(long, value_name = "NAME")]
    pub process: Option<String>,
    /// A parameter of the process; lists and maps in JSON notation
    #[arg(short = 'p', long = "parameter", value_name = "KEY=VALUE", value_parser = key_value)]
    pub parameters: Vec<(String, String)>,
    /// Parameters from a JSON file: one object, a member for each
    #[arg(long, value_name = "FILE")]
    pub params: Option<PathBuf>,
    /// How many activities run at once [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Cancel the process after so long, e.g. 90s or 1h30m
    #[arg(long, value_name = "DURATION", value_parser = xavantes_model::load::duration)]
    pub timeout: Option<Duration>,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}
