//! How a node is set up. The same names serve in the TOML file, in flags and in the environment.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What a node does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Knows the group.
    GroupManager,
    /// Interprets processes.
    ProcessCoordinator,
    /// Executes activities.
    ActivityManager,
}

impl Role {
    /// All roles, with their names.
    pub const ALL: [(&'static str, Role); 3] = [
        ("group-manager", Role::GroupManager),
        ("process-coordinator", Role::ProcessCoordinator),
        ("activity-manager", Role::ActivityManager),
    ];
}

/// Whether control groups limit what programs use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cgroups {
    /// If the node may use some.
    #[default]
    Auto,
    /// Never.
    Off,
    /// The node does not start without.
    Required,
}

impl Cgroups {
    /// All choices, with their names.
    pub const ALL: [(&'static str, Cgroups); 3] =
        [("auto", Cgroups::Auto), ("off", Cgroups::Off), ("required", Cgroups::Required)];
}

/// How a node is set up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Config {
    /// Its name, unique in the group.
    pub name: String,
    /// The group that it belongs to.
    pub group: String,
    /// What it does.
    pub roles: Vec<Role>,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Where others reach it, if that is not where it listens: host:port.
    pub advertise: Option<String>,
    /// Addresses of the group's managers, in the order in which they lead; one that is alone needs none.
    pub join: Vec<String>,
    /// Of a group manager: addresses of the managers of adjacent groups.
    pub adjacent: Vec<String>,
    /// Groups whose work is taken; none means all.
    pub foreign_groups: Vec<String>,
    /// Slots that work of other groups may use at once; none means all.
    pub foreign_slots: Option<u32>,
    /// How many activities of one CPU it runs at once.
    pub slots: u32,
    /// How many activities may wait on it for a slot.
    pub queue: u32,
    /// Words that activities may require of it.
    pub tags: Vec<String>,
    /// How many seconds running activities get to end when the node is told to stop.
    pub drain_seconds: u64,
    /// Where it keeps what must outlive it; by default a folder of its own, named after group and node, in the user's
    /// state directory.
    pub data_dir: Option<PathBuf>,
    /// Keeps nothing on this machine, whatever `data_dir` says.
    pub in_memory: bool,
    /// Of a process coordinator: the database that it shares with others of its group, instead of the data directory.
    pub repository: Option<String>,
    /// Of a process coordinator: for how many days ended processes are kept at most.
    pub retention_days: u32,
    /// Of a process coordinator: how many MiB ended processes may take together.
    pub retention_mib: u64,
    /// Of a process coordinator: how many MiB results may take together that activities use again.
    pub reuse_mib: u64,
    /// Of a process coordinator or activity manager: how many MiB of files it keeps.
    pub files_mib: u64,
    /// Of an activity manager: how many MiB of memory activities may ask for together; by default all that there is.
    pub memory_mib: Option<u64>,
    /// Of an activity manager: how many graphics processors there are.
    pub gpus: u32,
    /// Of an activity manager: how many seconds a program gets to end after it was asked to.
    pub grace_seconds: u64,
    /// Of an activity manager: how many directories of failed attempts are kept.
    pub keep_failed: usize,
    /// Of an activity manager: variables of the node's own environment that programs get.
    pub pass_environment: Vec<String>,
    /// Of an activity manager: `docker`, `podman` or `none`; by default whichever is there.
    pub containers: Option<String>,
    /// Of an activity manager: whether control groups limit what programs use.
    pub cgroups: Cgroups,
    /// Of an activity manager: how many MiB are kept of each of the two outputs of an attempt.
    pub log_mib: u64,
    /// Of an activity manager: how many MiB outputs may take together.
    pub logs_mib: u64,
    /// Of an activity manager: for how many days outputs are kept at most.
    pub logs_days: u32,
    /// Of a group manager: external data by name.
    pub sources: BTreeMap<String, String>,
    /// Of an activity manager: commands of interpreters by language, besides those that are found.
    pub interpreters: BTreeMap<String, Vec<String>>,
}

impl Default for Config {
    fn default() -> Self {
        let slots = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        Self {
            name: hostname(),
            group: "default".into(),
            roles: Role::ALL.map(|(_, role)| role).to_vec(),
            listen: SocketAddr::from(([127, 0, 0, 1], 7433)),
            advertise: None,
            join: Vec::new(),
            adjacent: Vec::new(),
            foreign_groups: Vec::new(),
            foreign_slots: None,
            data_dir: None,
            in_memory: false,
            repository: None,
            retention_days: 30,
            retention_mib: 10 * 1024,
            reuse_mib: 256,
            files_mib: 20 * 1024,
            memory_mib: None,
            gpus: 0,
            grace_seconds: 5,
            keep_failed: 0,
            pass_environment: Vec::new(),
            containers: None,
            cgroups: Cgroups::Auto,
            log_mib: 16,
            logs_mib: 1024,
            logs_days: 30,
            sources: BTreeMap::new(),
            interpreters: BTreeMap::new(),
            slots,
            queue: 4096,
            tags: Vec::new(),
            drain_seconds: 30,
        }
    }
}

/// A setting that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It has nothing to do.
    #[error("a node needs at least one role: group-manager, process-coordinator or activity-manager")]
    NoRole,
    /// It belongs to no group.
    #[error("a node that is no group manager needs the address of one: --join HOST:PORT")]
    NoManager,
    /// The name of a node or group.
    #[error(
        "{setting} cannot be {name:?}: expected 1 to 64 letters (a-z, A-Z), digits, '.', '_' and '-', \
         the first of them a letter or digit"
    )]
    Name {
        /// `name` or `group`.
        setting: &'static str,
        /// What was given.
        name: String,
    },
    /// An address.
    #[error("{0:?} is not an address: expected HOST:PORT")]
    Address(String),
    /// A repository. What was given is not repeated: it may have a password in it.
    #[error("the repository is not a URL that begins with postgres://")]
    Repository,
    /// A limit of nothing.
    #[error("{0} must be at least 1")]
    Zero(&'static str),
    /// What runs containers.
    #[error("containers cannot be {0:?}: expected docker, podman or none")]
    Containers(String),
    /// A language that has an interpreter.
    #[error("{0:?} cannot have an interpreter: expected a name such as python that is not lua, command or wasm")]
    Language(String),
}

impl Config {
    /// Whether it can be used; tells the first thing that is wrong.
    pub fn check(&self) -> Result<(), Unusable> {
        if self.roles.is_empty() {
            return Err(Unusable::NoRole);
        }
        for (setting, name) in [("name", &self.name), ("group", &self.group)] {
            if !is_name(name) {
                return Err(Unusable::Name { setting, name: name.clone() });
            }
        }
        for address in self.advertise.iter().chain(&self.join).chain(&self.adjacent) {
            check_address(address)?;
        }
        if self.join.is_empty() && !self.roles.contains(&Role::GroupManager) {
            return Err(Unusable::NoManager);
        }
        if self.repository.as_ref().is_some_and(|url| !is_database(url)) {
            return Err(Unusable::Repository);
        }
        if let Some(wrong) = self.containers.as_ref().filter(|it| !["docker", "podman", "none"].contains(&it.as_str()))
        {
            return Err(Unusable::Containers(wrong.clone()));
        }
        if let Some(wrong) = self.interpreters.keys().find(|language| !is_language(language)) {
            return Err(Unusable::Language(wrong.clone()));
        }
        let limits = [
            ("slots", self.slots.into()),
            ("retention-days", self.retention_days.into()),
            ("retention-mib", self.retention_mib),
            ("memory-mib", self.memory_mib.unwrap_or(1)),
            ("log-mib", self.log_mib),
            ("logs-mib", self.logs_mib),
            ("logs-days", self.logs_days.into()),
            ("reuse-mib", self.reuse_mib),
            ("files-mib", self.files_mib),
        ];
        match limits.into_iter().find(|(_, limit)| *limit == 0) {
            Some((setting, _)) => Err(Unusable::Zero(setting)),
            None => Ok(()),
        }
    }
}

/// Whether something can be an address, `HOST:PORT`; an IPv6 address stands in brackets.
pub fn check_address(text: &str) -> Result<(), Unusable> {
    let fits = |(host, port): (&str, &str)| {
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host_fits = match inner {
            Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)),
        };
        host_fits && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    if text.rsplit_once(':').is_some_and(fits) { Ok(()) } else { Err(Unusable::Address(text.to_owned())) }
}

/// Whether something is the URL of a database that can be shared.
pub fn is_database(url: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme))
}

/// Names are parts of paths, of keys and of what people type. The first character keeps `.`, `..` and what looks like a
/// flag out.
fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// As `LANGUAGE` takes them.
fn is_language(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_+.-".contains(c))
        && !["lua", "command", "wasm"].contains(&name)
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "node".into() } else { name.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        for good in ["a", "7", "north-a.example.org", "my_node", &"x".repeat(64)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "..", "-x", "_x", "a/b", "a b", "é", "a\n", "a:b", &"x".repeat(65)] {
            assert!(!is_name(bad), "{bad}");
            let config = Config { name: "a".into(), group: bad.into(), ..Config::default() };
            assert!(matches!(config.check(), Err(Unusable::Name { setting: "group", .. })), "{bad}");
        }
    }

    #[test]
    fn addresses_have_host_and_port() {
        for good in ["localhost:7433", "127.0.0.1:1", "[::1]:7433", "a_b.example.org:65535"] {
            assert_eq!(check_address(good), Ok(()), "{good}");
        }
        for bad in
            ["", "localhost", "localhost:", ":7433", "a:0", "a:65536", "http://a:1", "::1:7433", "[x]:1", "a b:1"]
        {
            assert_eq!(check_address(bad), Err(Unusable::Address(bad.into())), "{bad}");
        }
    }

    #[test]
    fn unusable_settings_are_told_and_passwords_are_not() {
        let config = || Config { name: "a".into(), ..Config::default() };
        assert_eq!(config().check(), Ok(()));
        assert_eq!(Config { roles: vec![], ..config() }.check(), Err(Unusable::NoRole));
        assert_eq!(Config { roles: vec![Role::ActivityManager], ..config() }.check(), Err(Unusable::NoManager));
        assert_eq!(Config { join: vec!["x".into()], ..config() }.check(), Err(Unusable::Address("x".into())));
        assert_eq!(Config { retention_days: 0, ..config() }.check(), Err(Unusable::Zero("retention-days")));
        assert_eq!(Config { retention_mib: 0, ..config() }.check(), Err(Unusable::Zero("retention-mib")));
        assert_eq!(Config { reuse_mib: 0, ..config() }.check(), Err(Unusable::Zero("reuse-mib")));
        assert_eq!(Config { files_mib: 0, ..config() }.check(), Err(Unusable::Zero("files-mib")));
        assert_eq!(Config { logs_mib: 0, ..config() }.check(), Err(Unusable::Zero("logs-mib")));
        let wrong = Config { containers: Some("lxc".into()), ..config() }.check();
        assert_eq!(wrong, Err(Unusable::Containers("lxc".into())));
        for language in ["lua", "", "a b", "/bin/sh"] {
            let interpreters = BTreeMap::from([(language.to_owned(), vec!["x".to_owned()])]);
            let wrong = Config { interpreters, ..config() }.check();
            assert_eq!(wrong, Err(Unusable::Language(language.into())));
        }
        let wrong = Config { repository: Some("mysql://me:secret@there/db".into()), ..config() }.check();
        assert_eq!(wrong, Err(Unusable::Repository));
        assert!(!wrong.unwrap_err().to_string().contains("secret"));
    }
}
