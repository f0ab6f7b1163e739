//! Which values of settings are valid. Flags, variables and files pass the same check.

use std::ops::RangeInclusive;

use super::all_settings::{Role, Settings};

/// The longest time that a node waits for anything: a year. Clocks cannot count much longer times.
const MAX_SECONDS: u64 = 366 * 24 * 3600;

/// A setting with a value that a node cannot use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSetting {
    /// The node has no role.
    #[error("a node needs at least one role: group-manager, process-coordinator or activity-manager")]
    NoRole,
    /// The node is no group manager and does not know one.
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
        /// The value.
        name: String,
    },
    /// An address.
    #[error("{0:?} is not an address: expected HOST:PORT")]
    Address(String),
    /// A repository. The message does not repeat the value: it may contain a password.
    #[error("the repository is not a URL that begins with postgres://")]
    Repository,
    /// A number below its minimum.
    #[error("{setting} must be at least {minimum}; change --{setting}, or {setting} in the settings file")]
    TooSmall {
        /// The setting.
        setting: &'static str,
        /// The smallest valid value.
        minimum: u64,
    },
    /// A number above its maximum.
    #[error("{setting} must be at most {maximum}; change --{setting}, or {setting} in the settings file")]
    TooLarge {
        /// The setting.
        setting: &'static str,
        /// The largest valid value.
        maximum: u64,
    },
    /// A language that cannot have an interpreter.
    #[error("{0:?} cannot have an interpreter: expected a name such as python that is not lua, command or wasm")]
    Language(String),
}

impl Settings {
    /// Checks all values; returns the first that is not valid.
    pub fn check(&self) -> Result<(), InvalidSetting> {
        if self.roles.is_empty() {
            return Err(InvalidSetting::NoRole);
        }
        for (setting, name) in [("name", &self.name), ("group", &self.group)] {
            if !is_name(name) {
                return Err(InvalidSetting::Name { setting, name: name.clone() });
            }
        }
        for address in self.advertise.iter().chain(&self.join).chain(&self.adjacent) {
            check_address(address)?;
        }
        if self.join.is_empty() && !self.roles.contains(&Role::GroupManager) {
            return Err(InvalidSetting::NoManager);
        }
        if self.repository.as_ref().is_some_and(|url| !is_database_url(url)) {
            return Err(InvalidSetting::Repository);
        }
        if let Some(wrong) = self.interpreters.keys().find(|language| !is_language(language)) {
            return Err(InvalidSetting::Language(wrong.clone()));
        }
        self.check_numbers()
    }

    fn check_numbers(&self) -> Result<(), InvalidSetting> {
        let any: RangeInclusive<u64> = 1..=u64::MAX;
        let numbers = [
            ("slots", self.slots.into(), 1..=4096),
            ("queue", self.queue.into(), 0..=65_536),
            ("max-connections", self.max_connections.unwrap_or(16).into(), 16..=1_000_000),
            ("gpus", self.gpus.into(), 0..=1024),
            ("drain-seconds", self.drain_seconds, 0..=MAX_SECONDS),
            ("grace-seconds", self.grace_seconds, 0..=MAX_SECONDS),
            ("worker-patience-seconds", self.worker_patience_seconds, 1..=MAX_SECONDS),
            ("process-mib", self.process_mib, any.clone()),
            ("processes-mib", self.processes_mib.unwrap_or(1), any.clone()),
            ("retention-days", self.retention_days.into(), any.clone()),
            ("retention-mib", self.retention_mib, any.clone()),
            ("reuse-mib", self.reuse_mib, any.clone()),
            ("files-mib", self.files_mib, any.clone()),
            ("memory-mib", self.memory_mib.unwrap_or(1), any.clone()),
            ("log-mib", self.log_mib, any.clone()),
            ("logs-mib", self.logs_mib, any.clone()),
            ("logs-days", self.logs_days.into(), any),
        ];
        for (setting, value, valid) in numbers {
            if value < *valid.start() {
                return Err(InvalidSetting::TooSmall { setting, minimum: *valid.start() });
            }
            if value > *valid.end() {
                return Err(InvalidSetting::TooLarge { setting, maximum: *valid.end() });
            }
        }
        Ok(())
    }
}

/// Checks that a text is an address, `HOST:PORT`; an IPv6 address stands in brackets.
pub fn check_address(text: &str) -> Result<(), InvalidSetting> {
    let fits = |(host, port): (&str, &str)| {
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host_fits = match inner {
            Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)),
        };
        host_fits && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    if text.rsplit_once(':').is_some_and(fits) { Ok(()) } else { Err(InvalidSetting::Address(text.to_owned())) }
}

/// Whether a text is the URL of a PostgreSQL database.
pub fn is_database_url(url: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme))
}

/// Names are parts of paths, of keys and of commands. The rule for the first character excludes `.`, `..` and flags.
fn is_name(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

/// The rule of the attribute `LANGUAGE`, without the languages that every worker has.
fn is_language(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "_+.-".contains(c))
        && !["lua", "command", "wasm"].contains(&name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn names_are_short_and_plain() {
        for good in ["a", "7", "north-a.example.org", "my_node", &"x".repeat(64)] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", ".", "..", "-x", "_x", "a/b", "a b", "é", "a\n", "a:b", &"x".repeat(65)] {
            assert!(!is_name(bad), "{bad}");
            let settings = Settings { name: "a".into(), group: bad.into(), ..Settings::default() };
            assert!(matches!(settings.check(), Err(InvalidSetting::Name { setting: "group", .. })), "{bad}");
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
            assert_eq!(check_address(bad), Err(InvalidSetting::Address(bad.into())), "{bad}");
        }
    }

    #[test]
    fn invalid_settings_are_named_and_passwords_are_not() {
        let settings = || Settings { name: "a".into(), ..Settings::default() };
        let too_small = |setting| Err(InvalidSetting::TooSmall { setting, minimum: 1 });
        assert_eq!(settings().check(), Ok(()));
        assert_eq!(Settings { roles: vec![], ..settings() }.check(), Err(InvalidSetting::NoRole));
        let worker = Settings { roles: vec![Role::ActivityManager], ..settings() };
        assert_eq!(worker.check(), Err(InvalidSetting::NoManager));
        let joined = Settings { join: vec!["x".into()], ..settings() };
        assert_eq!(joined.check(), Err(InvalidSetting::Address("x".into())));
        assert_eq!(Settings { retention_days: 0, ..settings() }.check(), too_small("retention-days"));
        assert_eq!(Settings { retention_mib: 0, ..settings() }.check(), too_small("retention-mib"));
        assert_eq!(Settings { reuse_mib: 0, ..settings() }.check(), too_small("reuse-mib"));
        assert_eq!(Settings { files_mib: 0, ..settings() }.check(), too_small("files-mib"));
        assert_eq!(Settings { logs_mib: 0, ..settings() }.check(), too_small("logs-mib"));
        assert_eq!(Settings { slots: 0, ..settings() }.check(), too_small("slots"));
        let too_many = Settings { slots: 4097, ..settings() }.check();
        assert_eq!(too_many, Err(InvalidSetting::TooLarge { setting: "slots", maximum: 4096 }));
        assert_eq!(Settings { process_mib: 0, ..settings() }.check(), too_small("process-mib"));
        let impatient = Settings { worker_patience_seconds: 0, ..settings() };
        assert_eq!(impatient.check(), too_small("worker-patience-seconds"));
        for settings in [
            Settings { grace_seconds: u64::MAX, ..settings() },
            Settings { drain_seconds: u64::MAX, ..settings() },
            Settings { worker_patience_seconds: u64::MAX, ..settings() },
        ] {
            assert!(matches!(settings.check(), Err(InvalidSetting::TooLarge { maximum: MAX_SECONDS, .. })));
        }
        for language in ["lua", "", "a b", "/bin/sh"] {
            let interpreters = BTreeMap::from([(language.to_owned(), vec!["x".to_owned()])]);
            let wrong = Settings { interpreters, ..settings() }.check();
            assert_eq!(wrong, Err(InvalidSetting::Language(language.into())));
        }
        let wrong = Settings { repository: Some("mysql://me:secret@there/db".into()), ..settings() }.check();
        assert_eq!(wrong, Err(InvalidSetting::Repository));
        assert!(!wrong.unwrap_err().to_string().contains("secret"));
    }
}
