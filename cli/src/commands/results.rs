//! `xavantes results`: the results of a process that has ended.

use std::path::PathBuf;

use clap::Args;

use super::ending::{fetch_outcome, fetch_results};
use super::result_stream::stream;
use crate::args::GridArgs;
use crate::exit::Exit;
use crate::given_path::resolve;
use crate::grid_connection::coordinator;
use crate::output::printer::Output;
use crate::output::terminal;
use crate::transfer::DownloadDir;

#[derive(Args)]
pub(crate) struct ResultsArgs {
    /// Id of a process, or its beginning
    pub process: String,
    /// Download the files among the results into this directory, and print their paths
    #[arg(long, value_name = "DIR")]
    pub download: Option<PathBuf>,
    /// While the process runs, print what activities, subprocesses and iterations return when they complete, one line
    /// each
    #[arg(long, visible_alias = "watch")]
    pub stream: bool,
    #[command(flatten)]
    pub grid: GridArgs,
}

pub(crate) async fn results(arguments: &ResultsArgs, output: Output) -> Result<Exit, Exit> {
    let address = arguments.grid.coordinator.as_str();
    let mut client = coordinator(address).await?;
    let process = resolve(&mut client, &arguments.process).await?;
    let download = DownloadDir::new(arguments.download.as_deref(), address, output.is_quiet());
    let streamed = match arguments.stream {
        true => stream(&mut client, &process, download, output).await?,
        false => Exit::Success,
    };
    let status = fetch_results(&mut client, process.clone()).await?.status;
    if status.is_some_and(|status| status.state().is_live()) {
        return Err(terminal::error(&format!("{process} has not ended: `xavantes wait {process}` waits for it")));
    }
    let (outcome, exit) = fetch_outcome(&mut client, process, download).await?;
    Ok(output.report(&outcome).or(exit).or(streamed))
}
