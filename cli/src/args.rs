//! What can be typed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use xavantes_node::{Cgroups, Role, check_address};

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
    /// Say more; twice: everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Text,
    Json,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant)] // There is one of it.
pub(crate) enum Command {
    /// Run a process to its end on a grid inside this program and print its results
    #[command(mut_arg("files", |files| files.required(false).required_unless_present("resume")))]
    Run(RunArgs),
    /// Find everything that is wrong with definitions before they run
    Validate(ValidateArgs),
    /// Run one node of a grid, with any combination of roles
    Node(NodeArgs),
    /// End what a node has left running, when that is no more; nodes start this themselves
    #[command(hide = true)]
    Guard {
        /// Where attempts have their directories
        root: PathBuf,
        /// What is removed
        temporary: Option<PathBuf>,
    },
    /// Start a process on a grid and print its id
    Submit(SubmitArgs),
    /// What runs and ran
    List(ListArgs),
    /// A process, or a part of it, with everything that is alive in it
    Tree(ShowArgs),
    /// One element
    Show(ShowArgs),
    /// What an activity writes to its standard output and error
    Logs(LogsArgs),
    /// The results of a process
    Results(ResultsArgs),
    /// Wait until processes end; ends with the exit code of the first that did not complete
    Wait(ProcessesArgs),
    /// Remove ended processes and their results for good
    Forget(ForgetArgs),
    /// Why the result of an activity was used again, or not; and how it is, if it is alive
    Explain(PathArgs),
    /// End an element now; asked twice, without waiting for its FINALLY
    Cancel(PathArgs),
    /// Start nothing new in an element
    Pause(PathArgs),
    /// Go on with a paused element
    Resume(PathArgs),
    /// Try an element again: one that waits, is held, or runs
    Retry(RetryArgs),
    /// Change a bound of a running controller, or a parameter of an element that has not begun
    Set(SetArgs),
    /// The nodes of a group
    Nodes(GridArgs),
    /// The groups that are known, adjacent and beyond
    Groups(GridArgs),
    /// The process and activity types that a coordinator has
    Types(GridArgs),
    /// External data that administrators registered under a name; without a command: lists them
    Sources(SourcesArgs),
    /// Let a node finish what it has, take nothing new, and end
    Drain(DrainArgs),
    /// Tell whether a node serves: ends with 0 if it does, with 3 if not
    Health(GridArgs),
    /// The database that coordinators of a group share
    #[command(subcommand)]
    Repository(RepositoryCommand),
    /// Print the XML schema of definitions, for editors
    Schema,
    /// Print a completion script for a shell
    Completions { shell: clap_complete::Shell },
}

/// Which grid.
#[derive(Args)]
pub(crate) struct GridArgs {
    /// The coordinator to talk to: host:port
    #[arg(long, env = "XAVANTES_COORDINATOR", default_value = "127.0.0.1:7433", value_name = "ADDRESS")]
    #[arg(value_parser = address)]
    pub coordinator: String,
}

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Show it again whenever it changed, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// The path of an element, e.g. FindPrimes-7f3a/search/[3]
    pub path: String,
    /// Show it again whenever it changed, until it ends or Ctrl-C
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Args)]
pub(crate) struct LogsArgs {
    /// The path of an activity, e.g. FindPrimes-7f3a/search/[3]/part
    pub path: String,
    /// Go on with what it writes until it ends
    #[arg(short, long)]
    pub follow: bool,
    /// Which attempt [default: the last]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempt: Option<u32>,
    /// Only its standard output
    #[arg(long, conflicts_with = "stderr")]
    pub stdout: bool,
    /// Only its standard error
    #[arg(long)]
    pub stderr: bool,
    /// Only so many of the last lines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub tail: Option<u32>,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Args)]
pub(crate) struct PathArgs {
    /// The path of an element, e.g. FindPrimes-7f3a/search/[3]
    pub path: String,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Args)]
pub(crate) struct ResultsArgs {
    /// The id of a process
    pub process: String,
    /// Fetch the files among the results into this directory, and print their paths
    #[arg(long, value_name = "DIR")]
    pub download: Option<PathBuf>,
    /// While the process runs, print what activities, subprocesses and iterations give as they complete, one line each
    #[arg(long)]
    pub stream: bool,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Args)]
pub(crate) struct RetryArgs {
    /// The path of an element, e.g. FindPrimes-7f3a/search/[3]
    pub path: String,
    /// Give up the attempt that is out, without waiting for an answer, and try anew; for one whose node is lost
    #[arg(long)]
    pub elsewhere: bool,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SourcesArgs {
    #[command(subcommand)]
    pub command: Option<SourcesCommand>,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Subcommand)]
pub(crate) enum SourcesCommand {
    /// Register data under a name, instead of what was registered under it before
    Add(AddSourceArgs),
    /// Remove a name; the data stays where it is
    Remove(RemoveSourceArgs),
}

#[derive(Args)]
pub(crate) struct AddSourceArgs {
    /// The name: small letters, digits, - and _
    pub name: String,
    /// Where the data is
    pub uri: String,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Args)]
pub(crate) struct RemoveSourceArgs {
    /// The name
    pub name: String,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Subcommand)]
pub(crate) enum RepositoryCommand {
    /// Make the tables of a shared repository, or bring them up to date; tells each step
    Migrate(MigrateArgs),
}

#[derive(Args)]
pub(crate) struct MigrateArgs {
    /// The database
    #[arg(long, env = "XAVANTES_REPOSITORY", hide_env_values = true, value_name = "URL")]
    pub repository: String,
}

#[derive(Args)]
pub(crate) struct ProcessesArgs {
    /// The ids of processes
    #[arg(required = true)]
    pub processes: Vec<String>,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Args)]
pub(crate) struct ForgetArgs {
    /// The ids of processes
    #[arg(required_unless_present = "reusable")]
    pub processes: Vec<String>,
    /// All results that activities could use again (CACHE="true")
    #[arg(long)]
    pub reusable: bool,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Args)]
pub(crate) struct SetArgs {
    /// The path of an element
    pub path: String,
    /// TO, MAX_PARALLEL, JOIN, EXIT_CONDITION or a parameter
    #[arg(value_name = "KEY=VALUE", value_parser = key_value)]
    pub setting: (String, String),
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Args)]
pub(crate) struct DrainArgs {
    /// The name of a node
    pub node: String,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Args)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    pub what: WhatArgs,
    /// Wait for the end of the process and print its results
    #[arg(long)]
    pub wait: bool,
    /// With --wait: fetch the files among the results into this directory, and print their paths
    #[arg(long, value_name = "DIR", requires = "wait")]
    pub download: Option<PathBuf>,
    /// With --wait: print what activities, subprocesses and iterations give as they complete, one line each
    #[arg(long, requires = "wait")]
    pub stream: bool,
    #[command(flatten)]
    pub grid: GridArgs,
}

/// How a node is set up: the file first, then the environment, then flags.
#[derive(Args)]
pub(crate) struct NodeArgs {
    /// A TOML file with any of these settings
    #[arg(long, env = "XAVANTES_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The name of the node, unique in its group [default: the name of the host]
    #[arg(long, env = "XAVANTES_NAME")]
    pub name: Option<String>,
    /// The group it belongs to [default: default]
    #[arg(long, env = "XAVANTES_GROUP")]
    pub group: Option<String>,
    /// group-manager, process-coordinator, activity-manager [default: all]
    #[arg(long, env = "XAVANTES_ROLES", value_delimiter = ',', value_parser = role)]
    pub roles: Option<Vec<Role>>,
    /// Where it listens [default: 127.0.0.1:7433]
    #[arg(long, env = "XAVANTES_LISTEN", value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Where others reach it, if that is not where it listens
    #[arg(long, env = "XAVANTES_ADVERTISE", value_name = "ADDRESS", value_parser = address)]
    pub advertise: Option<String>,
    /// Addresses of the group's managers, in the order in which they lead
    #[arg(long, env = "XAVANTES_JOIN", value_delimiter = ',', value_name = "ADDRESS", value_parser = address)]
    pub join: Option<Vec<String>>,
    /// Of a group manager: addresses of the managers of adjacent groups
    #[arg(long, env = "XAVANTES_ADJACENT", value_delimiter = ',', value_name = "ADDRESS", value_parser = address)]
    pub adjacent: Option<Vec<String>>,
    /// Groups whose work is taken [default: all]
    #[arg(long, env = "XAVANTES_FOREIGN_GROUPS", value_delimiter = ',', value_name = "GROUP")]
    pub foreign_groups: Option<Vec<String>>,
    /// Slots that work of other groups may use at once [default: all]
    #[arg(long, env = "XAVANTES_FOREIGN_SLOTS", value_name = "N")]
    pub foreign_slots: Option<u32>,
    /// How many activities it runs at once [default: the number of processors]
    #[arg(long, env = "XAVANTES_SLOTS", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub slots: Option<u32>,
    /// How many activities may wait on it for a slot [default: 4096]
    #[arg(long, env = "XAVANTES_QUEUE", value_parser = clap::value_parser!(u32).range(0..=65536))]
    pub queue: Option<u32>,
    /// Words that activities may require of it
    #[arg(long, env = "XAVANTES_TAGS", value_delimiter = ',')]
    pub tags: Option<Vec<String>>,
    /// How many seconds running activities get to end when the node is told to stop [default: 30]
    #[arg(long, env = "XAVANTES_DRAIN_SECONDS")]
    pub drain_seconds: Option<u64>,
    /// Where it keeps what must outlive it [default: xavantes/GROUP/NAME in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, env = "XAVANTES_DATA_DIR", value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Keep nothing on this machine, whatever --data-dir says
    #[arg(long, env = "XAVANTES_IN_MEMORY", value_name = "BOOL")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub in_memory: Option<bool>,
    /// Of a process coordinator: a database that it shares with others of its group, postgres://…, instead of the data
    /// directory
    #[arg(long, env = "XAVANTES_REPOSITORY", hide_env_values = true, value_name = "URL")]
    pub repository: Option<String>,
    /// Of a process coordinator: for how many days ended processes are kept at most [default: 30]
    #[arg(long, env = "XAVANTES_RETENTION_DAYS", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub retention_days: Option<u32>,
    /// Of a process coordinator: how many MiB ended processes may take together [default: 10240]
    #[arg(long, env = "XAVANTES_RETENTION_MIB", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub retention_mib: Option<u64>,
    /// Of a process coordinator: how many MiB results may take together that activities use again [default: 256]
    #[arg(long, env = "XAVANTES_REUSE_MIB", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub reuse_mib: Option<u64>,
    /// Of a process coordinator or activity manager: how many MiB of files it keeps [default: 20480]
    #[arg(long, env = "XAVANTES_FILES_MIB", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub files_mib: Option<u64>,
    /// Of an activity manager: how many MiB of memory activities may ask for together [default: all that there is]
    #[arg(long, env = "XAVANTES_MEMORY_MIB", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub memory_mib: Option<u64>,
    /// Of an activity manager: how many graphics processors there are [default: 0]
    #[arg(long, env = "XAVANTES_GPUS", value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1024))]
    pub gpus: Option<u32>,
    /// Of an activity manager: how many seconds a program gets to end after it was asked to [default: 5]
    #[arg(long, env = "XAVANTES_GRACE_SECONDS", value_name = "N")]
    pub grace_seconds: Option<u64>,
    /// Of an activity manager: how many directories of failed attempts are kept [default: 0]
    #[arg(long, env = "XAVANTES_KEEP_FAILED", value_name = "N")]
    pub keep_failed: Option<usize>,
    /// Of an activity manager: variables of its own environment that programs get
    #[arg(long, env = "XAVANTES_PASS_ENVIRONMENT", value_delimiter = ',', value_name = "NAME")]
    pub pass_environment: Option<Vec<String>>,
    /// Of an activity manager: docker, podman or none [default: whichever is there]
    #[arg(long, env = "XAVANTES_CONTAINERS", value_name = "ENGINE")]
    pub containers: Option<String>,
    /// Of an activity manager: whether control groups limit what programs use: auto, off or required [default: auto]
    #[arg(long, env = "XAVANTES_CGROUPS", value_name = "WHETHER", value_parser = cgroups)]
    pub cgroups: Option<Cgroups>,
    /// Of an activity manager: how many MiB are kept of each of the two outputs of an attempt [default: 16]
    #[arg(long, env = "XAVANTES_LOG_MIB", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub log_mib: Option<u64>,
    /// Of an activity manager: how many MiB outputs may take together [default: 1024]
    #[arg(long, env = "XAVANTES_LOGS_MIB", value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub logs_mib: Option<u64>,
    /// Of an activity manager: for how many days outputs are kept at most [default: 30]
    #[arg(long, env = "XAVANTES_LOGS_DAYS", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub logs_days: Option<u32>,
    /// Print the settings that result, and stop
    #[arg(long)]
    pub print_config: bool,
}

fn address(text: &str) -> Result<String, String> {
    check_address(text).map(|()| text.to_owned()).map_err(|error| error.to_string())
}

fn role(text: &str) -> Result<Role, String> {
    let known = Role::ALL.iter().find(|(name, _)| *name == text).map(|(_, role)| *role);
    known.ok_or_else(|| format!("the roles are {}", Role::ALL.map(|(name, _)| name).join(", ")))
}

fn cgroups(text: &str) -> Result<Cgroups, String> {
    let known = Cgroups::ALL.iter().find(|(name, _)| *name == text).map(|(_, choice)| *choice);
    known.ok_or_else(|| format!("expected {}", Cgroups::ALL.map(|(name, _)| name).join(", ")))
}

#[derive(Args)]
pub(crate) struct ValidateArgs {
    /// Definitions; they may use each other's types. "-" is standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
}

/// What to run.
#[derive(Args)]
pub(crate) struct WhatArgs {
    /// The definition; several, if it uses types of others
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Which process type to run; needed if there are several that no other calls
    #[arg(long, value_name = "NAME")]
    pub process: Option<String>,
    /// A parameter of the process; lists and maps in JSON notation; @PATH brings a local file or directory
    #[arg(short = 'p', long = "parameter", value_name = "KEY=VALUE", value_parser = key_value)]
    pub parameters: Vec<(String, String)>,
    /// Parameters from a JSON file: one object, a member for each
    #[arg(long, value_name = "FILE")]
    pub params: Option<PathBuf>,
    /// Run all activities, also those whose results were kept from an earlier time (CACHE="true")
    #[arg(long)]
    pub no_reuse: bool,
}

#[derive(Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub what: WhatArgs,
    /// How many activities run at once [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Keep the process in this directory as it goes, so that it can go on after this program was killed
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Go on with the process in --data-dir; if it has ended, print its results
    #[arg(long, requires = "data_dir", conflicts_with_all = ["files", "process", "parameters", "params", "no_reuse"])]
    pub resume: bool,
    /// Fetch the files among the results into this directory, and print their paths
    #[arg(long, value_name = "DIR")]
    pub download: Option<PathBuf>,
    /// Cancel the process after so long, e.g. 90s or 1h30m
    #[arg(long, value_name = "DURATION", value_parser = xavantes_model::load::duration)]
    pub timeout: Option<Duration>,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}
