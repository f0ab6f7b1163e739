//! All settings of a node: type, default and help text of each.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Command, FromArgMatches, ValueEnum};
use serde::{Deserialize, Serialize};

const GROUP_MANAGER: &str = "Group manager";
const PROCESS_COORDINATOR: &str = "Process coordinator";
const ACTIVITY_MANAGER: &str = "Activity manager";

/// What a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Knows the nodes of the group and the groups beyond
    GroupManager,
    /// Interprets processes
    ProcessCoordinator,
    /// Executes activities
    ActivityManager,
}

/// Whether control groups limit the resources that programs use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum CgroupsSetting {
    /// If the system lets the node use them
    Auto,
    /// Never
    Off,
    /// The node does not start without them
    Required,
}

/// The program that runs containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum ContainersSetting {
    /// Docker
    Docker,
    /// Podman
    Podman,
    /// Activities in containers do not run on this node
    None,
}

impl ContainersSetting {
    /// The name, as in a settings file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::None => "none",
        }
    }
}

/// What a node does when it has drained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum AfterDrain {
    /// The node ends with status 0
    End,
    /// The node is no part of the grid any more, and waits for SIGTERM or SIGINT
    Wait,
}

/// The settings of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Args)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    /// Name of the node, unique in its group: at most 64 letters, digits, '.', '_' and '-', the first a letter or digit
    /// [default: the host's name]
    #[arg(long, default_value_t = hostname(), hide_default_value = true)]
    pub name: String,
    /// Group that the node belongs to; the same rules as for names
    #[arg(long, default_value = "default")]
    pub group: String,
    /// What the node does
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Role::value_variants().to_vec())]
    pub roles: Vec<Role>,
    /// Address that the node listens on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7433")]
    pub listen: SocketAddr,
    /// Address at which other nodes reach this one, HOST:PORT; needed if it listens on 0.0.0.0
    /// [default: the address it listens on]
    #[arg(long, value_name = "ADDRESS")]
    pub advertise: Option<String>,
    /// Addresses of the group's managers, in the order in which they lead [default: the node itself]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub join: Vec<String>,
    /// Directory for everything that must outlive the node
    /// [default: xavantes/GROUP/NAME in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Keep nothing beyond the end of the node, whatever --data-dir says
    #[arg(long, value_name = "BOOL", default_value_t = false, default_missing_value = "true")]
    #[arg(action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, hide_possible_values = true)]
    pub in_memory: bool,
    /// MiB that files of processes may take on the node
    #[arg(long, value_name = "N", default_value_t = 20_480)]
    pub files_mib: u64,
    /// Connections of other nodes and of clients that the node accepts at once; one address may have half of them
    /// [default: half of the files that the node may open, at most 10000]
    #[arg(long, value_name = "N")]
    pub max_connections: Option<u32>,
    /// Address at which the node offers metrics (`/metrics`) and its health (`/healthz`) over HTTP [default: none]
    #[arg(long, value_name = "ADDRESS")]
    pub web: Option<SocketAddr>,
    /// Other groups from which a group manager or coordinator accepts work [default: all]
    #[arg(long, value_name = "GROUP", value_delimiter = ',')]
    pub foreign_groups: Vec<String>,
    /// Upper bound on the slots that a group manager lends, and on the activities that a coordinator runs at once for
    /// each delegated subtree [default: all]
    #[arg(long, value_name = "N")]
    pub foreign_slots: Option<u32>,
    /// Seconds that running activities get to end when a signal stops the node; then the node ends them, see
    /// --grace-seconds
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub drain_seconds: u64,
    /// What the node does when it has drained: end, or wait for SIGTERM if its supervisor would start it again
    #[arg(long, value_name = "WHAT", value_enum, default_value_t = AfterDrain::End)]
    pub after_drain: AfterDrain,

    /// Addresses of the managers of adjacent groups [default: none]
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', help_heading = GROUP_MANAGER)]
    pub adjacent: Vec<String>,

    /// PostgreSQL database, postgres://…, that this coordinator shares with others of its group
    /// [default: the data directory]
    #[arg(long, value_name = "URL", hide_env_values = true, help_heading = PROCESS_COORDINATOR)]
    pub repository: Option<String>,
    /// File with the password of the database, so that no command line and no settings file contains it
    /// [default: none; `PGPASSFILE` and `PGPASSWORD` count, too]
    #[arg(long, value_name = "FILE", help_heading = PROCESS_COORDINATOR)]
    pub repository_password_file: Option<PathBuf>,
    /// Days after which the coordinator removes ended processes
    #[arg(long, value_name = "N", default_value_t = 30, help_heading = PROCESS_COORDINATOR)]
    pub retention_days: u32,
    /// MiB that all ended processes together may take, with --in-memory at most 256; the coordinator removes the oldest
    /// first
    #[arg(long, value_name = "N", default_value_t = 10_240, help_heading = PROCESS_COORDINATOR)]
    pub retention_mib: u64,
    /// MiB that the results of activities with CACHE="true" may take together; with --in-memory at most 32
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = PROCESS_COORDINATOR)]
    pub reuse_mib: u64,
    /// Seconds that the coordinator waits for a worker that neither runs nor answers an activity, or that does not stop it at
    /// its TIMEOUT; then the coordinator asks for the activity back, and after the same time gives it to another worker
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    #[arg(help_heading = PROCESS_COORDINATOR)]
    pub worker_patience_seconds: u64,
    /// MiB that the state of one process may take: its variables, collected values and shared objects
    #[arg(long, value_name = "N", default_value_t = 256, help_heading = PROCESS_COORDINATOR)]
    pub process_mib: u64,
    /// MiB that all processes together may take before further ones wait
    /// [default: half of the memory of the machine, or of the container]
    #[arg(long, value_name = "N", help_heading = PROCESS_COORDINATOR)]
    pub processes_mib: Option<u64>,

    /// Slots: cores that activities may use at once; an activity without CPUS takes one
    /// [default: the number of processors]
    #[arg(long, value_name = "N", default_value_t = processors(), hide_default_value = true)]
    #[arg(help_heading = ACTIVITY_MANAGER)]
    pub slots: u32,
    /// Activities that may wait on the node for a slot
    #[arg(long, value_name = "N", default_value_t = 4096, help_heading = ACTIVITY_MANAGER)]
    pub queue: u32,
    /// Words that TAGS of activities may require [default: none]
    #[arg(long, value_name = "TAG", value_delimiter = ',', help_heading = ACTIVITY_MANAGER)]
    pub tags: Vec<String>,
    /// MiB of memory that all activities together may ask for
    /// [default: all memory of the machine, or of the container]
    #[arg(long, value_name = "N", help_heading = ACTIVITY_MANAGER)]
    pub memory_mib: Option<u64>,
    /// Graphics processors that activities may ask for
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = ACTIVITY_MANAGER)]
    pub gpus: u32,
    /// Program that runs containers [default: Docker or Podman, whichever answers]
    #[arg(long, value_name = "ENGINE", value_enum, help_heading = ACTIVITY_MANAGER)]
    pub containers: Option<ContainersSetting>,
    /// Whether control groups limit the resources that programs use
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = CgroupsSetting::Auto, help_heading = ACTIVITY_MANAGER)]
    pub cgroups: CgroupsSetting,
    /// Variables of the node's own environment that programs get [default: none]
    #[arg(long, value_name = "VARIABLE", value_delimiter = ',', help_heading = ACTIVITY_MANAGER)]
    pub pass_environment: Vec<String>,
    /// Seconds between TERM and KILL when the node ends a program
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = ACTIVITY_MANAGER)]
    pub grace_seconds: u64,
    /// Number of directories of failed attempts that the node keeps; it removes the oldest first
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = ACTIVITY_MANAGER)]
    pub keep_failed: usize,
    /// MiB that the node keeps of the standard output of each attempt, and as many of its standard error
    #[arg(long, value_name = "N", default_value_t = 16, help_heading = ACTIVITY_MANAGER)]
    pub log_mib: u64,
    /// MiB that the outputs of all attempts together may take; the node removes the oldest first
    #[arg(long, value_name = "N", default_value_t = 1024, help_heading = ACTIVITY_MANAGER)]
    pub logs_mib: u64,
    /// Days after which the node removes outputs of attempts
    #[arg(long, value_name = "N", default_value_t = 30, help_heading = ACTIVITY_MANAGER)]
    pub logs_days: u32,

    /// Group manager: external data by name. Only in the file.
    #[arg(skip)]
    pub sources: BTreeMap<String, String>,
    /// Activity manager: commands of interpreters by language, besides those that the node finds. Only in the file.
    #[arg(skip)]
    pub interpreters: BTreeMap<String, Vec<String>>,
}

impl Default for Settings {
    /// The defaults that the declarations above state.
    fn default() -> Self {
        let nothing_given = Self::augment_args(Command::new("node").no_binary_name(true)).get_matches_from([""; 0]);
        Self::from_arg_matches(&nothing_given).expect("every setting is optional or has a valid default")
    }
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "node".into() } else { name.into() }
}

fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}
