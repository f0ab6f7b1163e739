//! Settings come from a TOML file, then from the environment, then from flags; each overrides those before.

use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use toml::Table;

use super::all_settings::Settings;
use super::valid_values::InvalidSetting;

/// Settings that flags and environment variables give. They override those of the file.
#[derive(Debug, Clone, Default)]
pub struct SettingOverrides(Table);

impl Args for SettingOverrides {
    fn augment_args(command: Command) -> Command {
        Settings::augment_args(command).mut_args(|argument| {
            let variable = format!("XAVANTES_{}", argument.get_id().as_str().to_uppercase());
            argument.env(variable)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingOverrides {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let settings = Settings::from_arg_matches(matches)?;
        let given = |key: &str| {
            let source = matches.value_source(&key.replace('-', "_"));
            matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
        };
        let mut table =
            Table::try_from(settings).map_err(|error| clap::Error::raw(clap::error::ErrorKind::Io, error))?;
        // Those that only the file can give are no arguments, and clap does not know their names.
        table.retain(|key, value| !value.is_table() && given(key));
        Ok(Self(table))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Settings cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// The file is no TOML, or has an unknown setting or a value of a wrong type.
    #[error("{}: {cause}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, and in which line.
        cause: toml::de::Error,
    },
    /// A flag or variable has a value of a wrong type.
    #[error(transparent)]
    Override(#[from] toml::de::Error),
    /// A value is not valid.
    #[error(transparent)]
    Invalid(#[from] InvalidSetting),
}

impl Settings {
    /// The settings that result from a file, if there is one, and from flags and variables.
    pub fn load(file: Option<&Path>, overrides: SettingOverrides) -> Result<Self, LoadError> {
        let mut table = file.map(read).transpose()?.unwrap_or_default();
        table.extend(overrides.0);
        let settings: Self = table.try_into()?;
        settings.check()?;
        Ok(settings)
    }
}

fn read(path: &Path) -> Result<Table, LoadError> {
    let unreadable = |cause| LoadError::Unreadable { path: path.to_owned(), cause };
    let wrong = |cause| LoadError::File { path: path.to_owned(), cause };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    // From the text, not from the table: only then errors name the line.
    toml::from_str::<Settings>(&text).map_err(wrong)?;
    toml::from_str(&text).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(arguments: &[&str]) -> SettingOverrides {
        let command = Settings::augment_args(Command::new("node").no_binary_name(true));
        SettingOverrides::from_arg_matches(&command.get_matches_from(arguments)).expect("the flags are valid")
    }

    #[test]
    fn a_flag_overrides_the_file_and_a_default_does_not() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "queue = 3\nretention-days = 5\n[sources]\nstars = 'file:///stars'\n").unwrap();
        let settings = Settings::load(Some(file.path()), overrides(&["--queue", "4096", "--tags", "a,b"])).unwrap();
        assert_eq!((settings.queue, settings.retention_days, settings.retention_mib), (4096, 5, 10_240));
        assert_eq!((settings.tags, settings.sources.len()), (vec!["a".to_owned(), "b".to_owned()], 1));
    }

    #[test]
    fn nothing_given_means_the_defaults() {
        let settings = Settings::load(None, overrides(&[])).unwrap();
        assert_eq!(settings, Settings::default());
        let printed = toml::to_string(&settings).unwrap();
        assert_eq!(toml::from_str::<Settings>(&printed).unwrap(), settings);
    }

    #[test]
    fn an_error_in_the_file_names_the_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for wrong in ["queue = 1\ncontainers = 'lxc'\n", "queue = 1\nqueues = 2\n", "queue = 1\nroles = 'all'\n"] {
            std::fs::write(file.path(), wrong).unwrap();
            let error = Settings::load(Some(file.path()), overrides(&[])).unwrap_err().to_string();
            assert!(error.contains("line 2"), "{error}");
        }
    }
}
