//! `xavantes list`: the processes that run and ran.

use clap::Args;
use tonic::Status;
use xavantes_proto::{call_with_timeout, v1};

use super::watch::{LiveSnapshot, print_or_watch};
use crate::args::GridArgs;
use crate::exit::Exit;
use crate::grid_connection::{CoordinatorClient, coordinator, refused};
use crate::output::printer::Output;
use crate::report::process::ProcessList;

#[derive(Args)]
pub(crate) struct ListArgs {
    /// Print the list again whenever it changed, until Ctrl-C
    #[arg(long)]
    pub watch: bool,
    /// Only the N processes that were submitted last
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub limit: Option<u32>,
    #[command(flatten)]
    pub grid: GridArgs,
}

pub(crate) async fn list(arguments: &ListArgs, output: Output) -> Result<Exit, Exit> {
    let mut client = coordinator(&arguments.grid.coordinator).await?;
    if !arguments.watch && arguments.limit.is_none() && output.is_text() {
        return print_pages(&mut client, output).await;
    }
    print_or_watch(arguments.watch, output, async || {
        let processes = match arguments.limit {
            Some(limit) => fetch_last(&mut client, limit).await?,
            None => fetch_all(&mut client).await?,
        };
        Ok(LiveSnapshot { report: ProcessList::new(&processes), is_final: false })
    })
    .await
}

/// Prints each page as it arrives.
async fn print_pages(client: &mut CoordinatorClient, output: Output) -> Result<Exit, Exit> {
    let mut page = String::new();
    loop {
        let request = v1::ListRequest { page, ..v1::ListRequest::default() };
        let answer = call_with_timeout(client.list(request)).await.map_err(|status| refused(&status))?;
        let exit = output.report(&ProcessList::new(&answer.processes));
        if exit != Exit::Success || answer.next_page.is_empty() {
            return Ok(exit);
        }
        page = answer.next_page;
    }
}

/// All processes, in the order of their submission.
pub(crate) async fn fetch_all(client: &mut CoordinatorClient) -> Result<Vec<v1::ProcessStatus>, Status> {
    fetch(client, None).await
}

/// The processes that were submitted last, in the order of their submission.
async fn fetch_last(client: &mut CoordinatorClient, limit: u32) -> Result<Vec<v1::ProcessStatus>, Status> {
    let mut processes = fetch(client, Some(limit)).await?;
    processes.reverse();
    Ok(processes)
}

/// All processes, or the newest ones up to the limit.
async fn fetch(client: &mut CoordinatorClient, last: Option<u32>) -> Result<Vec<v1::ProcessStatus>, Status> {
    let (mut processes, mut page) = (Vec::new(), String::new());
    loop {
        let limit = last.map_or(0, |last| last - processes.len() as u32);
        let request = v1::ListRequest { limit, page, newest_first: last.is_some() };
        let answer = call_with_timeout(client.list(request)).await?;
        processes.extend(answer.processes);
        let enough = last.is_some_and(|last| processes.len() >= last as usize);
        if enough || answer.next_page.is_empty() {
            return Ok(processes);
        }
        page = answer.next_page;
    }
}
