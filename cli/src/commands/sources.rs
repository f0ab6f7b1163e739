//! `xavantes sources`: external data that administrators registered under a name.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use xavantes_proto::v1;

use crate::args::GridArgs;
use crate::exit::Exit;
use crate::grid_connection::{ask, manager};
use crate::output::printer::Output;
use crate::report::grid::SourceList;
use crate::report::silent_action::SourceChange;

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
    /// Register data under a name; an earlier registration of the name ends
    Add(AddSourceArgs),
    /// Remove a name; the data stays where it is
    Remove(RemoveSourceArgs),
}

#[derive(Args)]
pub(crate) struct AddSourceArgs {
    /// The name: lower-case letters, digits, - and _
    pub name: String,
    /// Place of the data
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

pub(crate) async fn sources(arguments: SourcesArgs, output: Output) -> Result<Exit, Exit> {
    match arguments.command {
        None => list(&arguments.grid, output).await,
        Some(SourcesCommand::Add(arguments)) => add(arguments, output).await,
        Some(SourcesCommand::Remove(arguments)) => remove(arguments, output).await,
    }
}

async fn list(grid: &GridArgs, output: Output) -> Result<Exit, Exit> {
    let mut client = manager(&grid.coordinator).await?;
    let (mut sources, mut page) = (BTreeMap::new(), String::new());
    loop {
        let answer =
            ask(client.list_sources(v1::ListSourcesRequest { page, ..v1::ListSourcesRequest::default() })).await?;
        sources.extend(answer.sources);
        page = answer.next_page;
        if page.is_empty() {
            return Ok(output.report(&SourceList { sources }));
        }
    }
}

async fn add(arguments: AddSourceArgs, output: Output) -> Result<Exit, Exit> {
    let mut client = manager(&arguments.grid.coordinator).await?;
    let AddSourceArgs { name, uri, .. } = arguments;
    ask(client.add_source(v1::AddSourceRequest { name: name.clone(), uri: uri.clone() })).await?;
    Ok(output.report(&SourceChange { source: name, uri: Some(uri) }))
}

async fn remove(arguments: RemoveSourceArgs, output: Output) -> Result<Exit, Exit> {
    let mut client = manager(&arguments.grid.coordinator).await?;
    let name = arguments.name;
    ask(client.remove_source(v1::RemoveSourceRequest { name: name.clone() })).await?;
    Ok(output.report(&SourceChange { source: name, uri: None }))
}
