//! `xavantes repository`: what a node keeps. The database that coordinators share, and the embedded repository.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use xavantes_node::{InvalidSetting, Settings, is_database_url};
use xavantes_proto::v1;
use xavantes_repository::{Error, Inspection};

use super::node::{not_started, warn_of_password};
use crate::args::GridArgs;
use crate::exit::Exit;
use crate::grid_connection::{coordinator, refused};
use crate::output::printer::Output;
use crate::output::terminal;
use crate::report::repository::{BackedUp, RepositoryState, Restored};
use crate::report::silent_action::Migrated;

#[derive(Subcommand)]
pub(crate) enum RepositoryCommand {
    /// Make the tables of a shared repository, or bring them up to date; prints each step
    Migrate(MigrateArgs),
    /// Say what is damaged in the repository of a node that does not run; changes nothing
    Check(StoreArgs),
    /// Save what can be read of a damaged repository, and list what cannot; nodes do this when they start
    Repair(StoreArgs),
    /// Write everything in the repository of a node to a file; the node may run
    Backup(BackupArgs),
    /// Make the repository of a node from a backup
    Restore(RestoreArgs),
}

#[derive(Args)]
pub(crate) struct MigrateArgs {
    /// The database, postgres://…
    #[arg(long, env = "XAVANTES_REPOSITORY", hide_env_values = true, value_name = "URL")]
    pub repository: String,
    /// File with the password of the database
    #[arg(long, env = "XAVANTES_REPOSITORY_PASSWORD_FILE", value_name = "FILE")]
    pub repository_password_file: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct StoreArgs {
    /// Data directory of the node
    #[arg(long, env = "XAVANTES_DATA_DIR", value_name = "DIR")]
    pub data_dir: PathBuf,
}

#[derive(Args)]
pub(crate) struct BackupArgs {
    /// The file to write; must not exist
    pub file: PathBuf,
    /// Data directory of a node that does not run; otherwise the node at --coordinator is asked
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Args)]
pub(crate) struct RestoreArgs {
    /// The backup
    pub file: PathBuf,
    #[command(flatten)]
    pub store: StoreArgs,
}

pub(crate) async fn execute(command: RepositoryCommand, output: Output) -> Result<Exit, Exit> {
    match command {
        RepositoryCommand::Migrate(arguments) => migrate(arguments, output).await,
        RepositoryCommand::Check(arguments) => {
            let directory = repository_of(&arguments.data_dir);
            let inspection = xavantes_repository::check_sled(&directory).await.map_err(failed)?;
            let exit = if inspection.is_whole() { Exit::Success } else { Exit::Failed };
            Ok(report(directory, inspection, output).or(exit))
        }
        RepositoryCommand::Repair(arguments) => {
            let directory = repository_of(&arguments.data_dir);
            let inspection = xavantes_repository::repair_sled(&directory).await.map_err(failed)?;
            let exit = if inspection.has_losses() { Exit::Failed } else { Exit::Success };
            Ok(report(directory, inspection, output).or(exit))
        }
        RepositoryCommand::Backup(arguments) => backup(arguments, output).await,
        RepositoryCommand::Restore(arguments) => {
            let directory = repository_of(&arguments.store.data_dir);
            let content = xavantes_repository::restore_sled(&arguments.file, &directory).await.map_err(failed)?;
            let (processes, records) = (content.processes, content.records);
            Ok(output.report(&Restored { repository: directory, processes, records }))
        }
    }
}

async fn migrate(arguments: MigrateArgs, output: Output) -> Result<Exit, Exit> {
    if !is_database_url(&arguments.repository) {
        return Err(terminal::error(&InvalidSetting::Repository.to_string()));
    }
    warn_of_password();
    let settings = Settings {
        repository: Some(arguments.repository),
        repository_password_file: arguments.repository_password_file,
        ..Settings::default()
    };
    let url = settings.database_url().map_err(|error| not_started(&error.into()))?.unwrap_or_default();
    let steps = xavantes_repository::migrate(&url).await.map_err(|error| not_started(&error.into()))?;
    Ok(output.report(&Migrated { steps }))
}

/// The embedded repository in a data directory.
fn repository_of(data_dir: &Path) -> PathBuf {
    data_dir.join("repository")
}

fn report(directory: PathBuf, inspection: Inspection, output: Output) -> Exit {
    output.report(&RepositoryState::new(directory, inspection))
}

/// Prints why the repository cannot be used. Returns the exit code.
fn failed(error: Error) -> Exit {
    not_started(&error.into())
}

async fn backup(arguments: BackupArgs, output: Output) -> Result<Exit, Exit> {
    let BackupArgs { file: path, data_dir, grid } = arguments;
    let unwritable = |error: io::Error| terminal::error(&format!("cannot write {}: {error}", path.display()));
    let mut file = File::options().write(true).create_new(true).open(&path).map_err(unwritable)?;
    let written = match data_dir {
        Some(data_dir) => copy_offline(&repository_of(&data_dir), &mut file, unwritable).await,
        None => copy_online(&grid.coordinator, &mut file, unwritable).await,
    };
    match written.and_then(|bytes| file.sync_all().map(|()| bytes).map_err(unwritable)) {
        Ok(bytes) => Ok(output.report(&BackedUp { backup: path, bytes })),
        Err(exit) => {
            // An incomplete backup is useless. If it stays, a restore refuses it.
            let _ = std::fs::remove_file(&path);
            Err(exit)
        }
    }
}

/// Writes the backup of a node that does not run.
async fn copy_offline(directory: &Path, file: &mut File, unwritable: impl Fn(io::Error) -> Exit) -> Result<u64, Exit> {
    if !directory.exists() {
        return Err(terminal::error(&format!("there is no repository in {}", directory.display())));
    }
    let store = xavantes_repository::open_sled(directory, "backup").await.map_err(failed)?;
    let copied = match store.backup().await {
        Ok(mut backup) => io::copy(&mut backup, file).map_err(unwritable),
        Err(error) => Err(failed(error)),
    };
    store.shut_down().await;
    copied
}

/// Asks a running node for its backup.
async fn copy_online(address: &str, file: &mut File, unwritable: impl Fn(io::Error) -> Exit) -> Result<u64, Exit> {
    let mut client = coordinator(address).await?;
    // The node answers when it has written the backup, which takes long if its repository is large.
    let mut pieces = client.backup(v1::BackupRequest {}).await.map_err(|status| refused(&status))?.into_inner();
    let mut bytes = 0;
    while let Some(piece) = pieces.message().await.map_err(|status| refused(&status))? {
        file.write_all(&piece.data).map_err(&unwritable)?;
        bytes += piece.data.len() as u64;
    }
    Ok(bytes)
}
