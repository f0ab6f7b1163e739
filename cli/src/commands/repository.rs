//! `xavantes repository`: the database that the coordinators of a group share.

use clap::{Args, Subcommand};
use xavantes_node::{InvalidSetting, is_database_url};

use super::node::not_started;
use crate::exit::Exit;
use crate::output::printer::Output;
use crate::output::terminal;
use crate::report::action::Migrated;

#[derive(Subcommand)]
pub(crate) enum RepositoryCommand {
    /// Make the tables of a shared repository, or bring them up to date; prints each step
    Migrate(MigrateArgs),
}

#[derive(Args)]
pub(crate) struct MigrateArgs {
    /// The database, postgres://…
    #[arg(long, env = "XAVANTES_REPOSITORY", hide_env_values = true, value_name = "URL")]
    pub repository: String,
}

pub(crate) async fn execute(command: RepositoryCommand, output: Output) -> Result<Exit, Exit> {
    let RepositoryCommand::Migrate(arguments) = command;
    if !is_database_url(&arguments.repository) {
        return Err(terminal::error(&InvalidSetting::Repository.to_string()));
    }
    let steps =
        xavantes_repository::migrate(&arguments.repository).await.map_err(|error| not_started(&error.into()))?;
    Ok(output.report(&Migrated { steps }))
}
