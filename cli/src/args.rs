//! Arguments that several commands have. Those of one command stand beside it in `commands`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use xavantes_node::check_address;
use xavantes_proto::v1;

/// How a command answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

/// The grid to talk to.
#[derive(Args)]
pub(crate) struct GridArgs {
    /// Address of the node to talk to, HOST:PORT; without it that of the environment variable XAVANTES_COORDINATOR
    // Read here and not by `env`: the usage would show the option as one that must be given.
    #[arg(long, default_value_t = default_coordinator(), value_name = "ADDRESS", value_parser = address)]
    pub coordinator: String,
}

/// The grid to talk to, and whether the answer is kept up to date.
#[derive(Args)]
pub(crate) struct WatchedGridArgs {
    /// Print the list again whenever it changed, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub grid: GridArgs,
}

fn default_coordinator() -> String {
    std::env::var("XAVANTES_COORDINATOR").unwrap_or_else(|_| "127.0.0.1:7433".to_owned())
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
    /// Name of the process for people: lists show it
    #[arg(long, value_name = "TEXT")]
    pub name: Option<String>,
    /// Label of the process, by which `list --label` finds it; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = key_value)]
    pub labels: Vec<(String, String)>,
    /// Run all activities, also those whose results are in the cache (CACHE="true")
    #[arg(long)]
    pub no_reuse: bool,
}

pub(crate) fn address(text: &str) -> Result<String, String> {
    check_address(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

/// Labels on the wire.
pub(crate) fn labels(labels: &[(String, String)]) -> Vec<v1::Label> {
    labels.iter().map(|(key, value)| v1::Label { key: key.clone(), value: value.clone() }).collect()
}

pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}
