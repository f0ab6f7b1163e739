//! `xavantes submit`: starts a process on a grid.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use xavantes_proto::v1;

use super::ending::{await_end, fetch_outcome, unless_interrupted};
use super::result_stream::stream;
use crate::args::{DefinitionArgs, GridArgs};
use crate::definition;
use crate::documents::{fetch_imports, read_files};
use crate::exit::Exit;
use crate::grid_connection::{CoordinatorClient, ask, coordinator};
use crate::output::printer::Output;
use crate::output::terminal;
use crate::report::process::Submitted;
use crate::transfer::{self, DownloadDir};

#[derive(Args)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    pub definition: DefinitionArgs,
    #[command(flatten)]
    pub follow: FollowArgs,
    #[command(flatten)]
    pub grid: GridArgs,
}

/// Whether the command waits for the process that it starts.
#[derive(Args)]
pub(crate) struct FollowArgs {
    /// Wait for the end of the process and print its results
    #[arg(long)]
    pub wait: bool,
    /// With --wait: download the files among the results into this directory, and print their paths
    #[arg(long, value_name = "DIR", requires = "wait")]
    pub download: Option<PathBuf>,
    /// With --wait: print what activities, subprocesses and iterations return when they complete, one line each
    #[arg(long, requires = "wait")]
    pub stream: bool,
}

pub(crate) async fn submit(arguments: SubmitArgs, output: Output) -> Result<Exit, Exit> {
    let address = arguments.grid.coordinator.as_str();
    let mut sources = read_files(&arguments.definition.files)?;
    fetch_imports(&mut sources, address).await?;
    let mut request = definition::request_with(&sources, &arguments.definition, output)?;
    let client = coordinator(address).await?;
    transfer::upload(&mut request, address, output.is_quiet()).await?;
    start(client, request, &arguments.follow, address, output).await
}

/// Starts a process whose files are uploaded, and waits for its end if the user wants that.
pub(super) async fn start(
    mut client: CoordinatorClient,
    request: v1::SubmitRequest,
    follow: &FollowArgs,
    address: &str,
    output: Output,
) -> Result<Exit, Exit> {
    let submitted = Instant::now();
    let process = ask(client.submit(request)).await?.process;
    if !follow.wait {
        return Ok(output.report(&Submitted { process }));
    }
    terminal::note(&format!("{process}\n"));
    let download = DownloadDir::new(follow.download.as_deref(), address, output.is_quiet());
    unless_interrupted(std::slice::from_ref(&process), async {
        let streamed = match follow.stream {
            true => stream(&mut client, &process, download, output).await?,
            false => Exit::Success,
        };
        await_end(&mut client, &process, output).await?;
        let elapsed = submitted.elapsed();
        let (mut outcome, exit) = fetch_outcome(&mut client, process.clone(), download).await?;
        outcome.elapsed_seconds = elapsed.as_secs_f64();
        Ok(output.report(&outcome).or(exit).or(streamed))
    })
    .await
}
