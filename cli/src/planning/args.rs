//! The options of `plan` and `simulate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::machine_file::quantity;
use crate::args::key_value;

/// Nobody waits for longer.
const LONGEST_SEARCH: Duration = Duration::from_secs(10 * 365 * 86_400);

/// The format of a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkflowFormat {
    /// A process definition
    Xml,
    /// Pegasus DAX
    Dax,
    /// WfCommons WfFormat, JSON
    Wfformat,
    /// CPU instances of Stockinger 2020; machines come from --cluster or --machines
    Teylo,
    /// CPU/GPU instances of Stockinger 2020, which have machines of their own
    Gpu,
    /// Toys of Stockinger 2020, which have machines of their own
    Wds,
}

/// When a search ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TimeLimit {
    /// After a fixed number of rounds.
    Rounds,
    /// After this time.
    Time(Duration),
}

/// What to plan, on which machines, and how.
#[derive(Args)]
pub(crate) struct PlanningArgs {
    /// Workflows to plan together: process definitions, DAX, WfFormat, or instances. "-" is standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Machines, network and places of files: a TOML file
    #[arg(long, value_name = "FILE", help_heading = "Machines")]
    pub machines: Option<PathBuf>,
    /// Machines of a teylo workflow, instead of --machines: a .vcl file
    #[arg(long, value_name = "FILE", conflicts_with = "machines", help_heading = "Machines")]
    pub cluster: Option<PathBuf>,
    /// Format of all files [default: what each file looks like]
    #[arg(long, value_enum)]
    pub format: Option<WorkflowFormat>,
    /// Planner; `--compare all` tells their names
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub algorithm: String,
    /// What to make small: makespan, money, or weighted=PHI[,TIME,MONEY]: PHI times the makespan by TIME plus (1 - PHI)
    /// times the money by MONEY [default: money if there is a deadline, makespan otherwise]
    #[arg(long, value_name = "OBJECTIVE", value_parser = super::goal::parse)]
    pub objective: Option<super::goal::Wish>,
    /// The workflow must end within this time, e.g. 90min or 1h30m
    #[arg(long, value_name = "TIME", value_parser = quantity::seconds)]
    pub deadline: Option<f64>,
    /// The machines must not cost more than this
    #[arg(long, value_name = "MONEY", value_parser = amount, allow_negative_numbers = true)]
    pub budget: Option<f64>,
    /// Seed of everything random. Equal seeds and threads give equal plans, unless a time limit or Ctrl-C ends the search
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Search for this long, or `none`: until a fixed number of rounds is done [default: that many rounds, for 10 s at
    /// most]. Ctrl-C ends a search with the best plan so far
    #[arg(long, value_name = "TIME", value_parser = time_limit)]
    pub time_limit: Option<TimeLimit>,
    /// Threads of a search [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Draw the plan: an SVG, or an HTML page with details under the pointer
    #[arg(long, value_name = "FILE.svg|FILE.html", value_parser = super::super::chart::chart_file)]
    pub chart: Option<PathBuf>,
    #[command(flatten)]
    pub definition: DefinedArgs,
}

/// What only process definitions need.
#[derive(Args)]
#[command(next_help_heading = "Process definitions")]
pub(crate) struct DefinedArgs {
    /// Process type to plan; needed if there are several that no other calls
    #[arg(long, value_name = "NAME")]
    pub process: Option<String>,
    /// Parameter of the process; lists and maps in JSON notation
    #[arg(short = 'p', long = "parameter", value_name = "KEY=VALUE", value_parser = key_value)]
    pub parameters: Vec<(String, String)>,
    /// JSON file with parameters: one object, a member for each
    #[arg(long, value_name = "FILE")]
    pub params: Option<PathBuf>,
    /// Expect this many iterations of a loop, or this case of a switch, where the definition does not tell
    #[arg(long, value_name = "PATH=COUNT|PATH=CASE")]
    pub expect: Vec<String>,
    /// Past runs: an ARFF file called TYPE.arff, or a folder of them, for activities without an ESTIMATE
    #[arg(long, value_name = "DIR|FILE.arff")]
    pub history: Option<PathBuf>,
    /// Plan more iterations of a loop than this in chunks
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub unroll: u64,
}

fn amount(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err(format!("an amount of money is a number from 0, not {text:?}")),
    }
}

fn time_limit(text: &str) -> Result<TimeLimit, String> {
    if text == "none" {
        return Ok(TimeLimit::Rounds);
    }
    let seconds = quantity::seconds(text)?;
    // Instants cannot be arbitrarily far away.
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time <= LONGEST_SEARCH => Ok(TimeLimit::Time(time)),
        _ => Err(format!("{text:?} is too long")),
    }
}
