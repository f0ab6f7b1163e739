//! `xavantes show` and `xavantes tree`: an element alone, and with everything in it.

use std::time::Duration;

use clap::Args;
use tokio::sync::mpsc;
use tonic::Status;
use xavantes_proto::{MAX_RESULTS_BYTES, call_with_timeout, receive, v1};

use super::watch::{LiveSnapshot, print_or_watch};
use crate::args::GridArgs;
use crate::exit::Exit;
use crate::given_path::resolve;
use crate::grid_connection::{CoordinatorClient, ask, coordinator, refused};
use crate::output::printer::{Output, Report};
use crate::report::definition::{Definition, ProcessParameters};
use crate::report::element::{Element, Shown, Tree};

/// For a display of progress, the elements of the process are fetched this often, this many levels down.
const TREE_INTERVAL: Duration = Duration::from_secs(1);
const TREE_DEPTH: u32 = 6;

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// Path of an element, e.g. FindPrimes-7f3a/search/3
    pub path: String,
    /// Print it again whenever it changed, until it ends or Ctrl-C
    #[arg(long)]
    pub watch: bool,
    #[command(flatten)]
    pub grid: GridArgs,
}

#[derive(Args)]
pub(crate) struct ShowElementArgs {
    #[command(flatten)]
    pub shown: ShowArgs,
    /// Print the XML documents with which the process was submitted instead
    #[arg(long, conflicts_with_all = ["watch", "parameters"])]
    pub definition: bool,
    /// Print the parameters with which the process began instead
    #[arg(long, conflicts_with = "watch")]
    pub parameters: bool,
}

pub(crate) async fn show(arguments: &ShowElementArgs, output: Output) -> Result<Exit, Exit> {
    let ShowElementArgs { shown, definition, parameters } = arguments;
    if !definition && !parameters {
        return print_element(shown, 0, Shown, output).await;
    }
    let mut client = coordinator(&shown.grid.coordinator).await?;
    let request = v1::DefinitionRequest { process: shown.path.clone() };
    let parts = ask(client.definition(request)).await?;
    let submitted: v1::DefinitionResponse =
        receive(parts, MAX_RESULTS_BYTES).await.map_err(|status| refused(&status))?;
    let process = shown.path.clone();
    Ok(match definition {
        true => output.report(&Definition::new(process, submitted)),
        false => output.report(&ProcessParameters::new(process, submitted)),
    })
}

pub(crate) async fn tree(arguments: &ShowArgs, output: Output) -> Result<Exit, Exit> {
    print_element(arguments, u32::MAX, Tree, output).await
}

async fn print_element<R: Report>(
    arguments: &ShowArgs,
    depth: u32,
    report: impl Fn(Element) -> R,
    output: Output,
) -> Result<Exit, Exit> {
    let mut client = coordinator(&arguments.grid.coordinator).await?;
    let path = resolve(&mut client, &arguments.path).await?;
    print_or_watch(arguments.watch, output, async || {
        let element = fetch_element(&mut client, &path, depth).await?;
        let is_final = element.runs.is_some();
        Ok(LiveSnapshot { report: report(element), is_final })
    })
    .await
}

/// The element at a path, with this many levels below it. A process comes with the numbers of its activities.
pub(crate) async fn fetch_element(client: &mut CoordinatorClient, path: &str, depth: u32) -> Result<Element, Status> {
    let element = fetch_tree(client, path, depth).await?;
    let status = match element.path.contains('/') {
        true => None,
        false => fetch_status(client, &element.path).await,
    };
    Ok(Element::asked_for(&element, status.as_ref()))
}

/// The element at a path, with this many levels below it, as the coordinator answers.
pub(crate) async fn fetch_tree(client: &mut CoordinatorClient, path: &str, depth: u32) -> Result<v1::Element, Status> {
    let request = v1::ShowRequest { path: path.to_owned(), depth, ..v1::ShowRequest::default() };
    let parts = call_with_timeout(client.show(request)).await?;
    Ok(receive::<v1::ShowResponse>(parts, MAX_RESULTS_BYTES).await?.element.unwrap_or_default())
}

/// Fetches the elements of a process again and again, until the receiver is dropped.
pub(crate) fn fetch_trees(client: &CoordinatorClient, process: &str) -> mpsc::Receiver<v1::Element> {
    let (sender, receiver) = mpsc::channel(1);
    let (mut client, path) = (client.clone(), process.to_owned());
    tokio::spawn(async move {
        while !sender.is_closed() {
            if let Ok(element) = fetch_tree(&mut client, &path, TREE_DEPTH).await {
                let _ = sender.send(element).await;
            }
            tokio::time::sleep(TREE_INTERVAL).await;
        }
    });
    receiver
}

/// The present state of a process, if the coordinator knows it.
pub(crate) async fn fetch_status(client: &mut CoordinatorClient, process: &str) -> Option<v1::ProcessStatus> {
    let request = v1::WatchRequest { process: process.to_owned(), ..v1::WatchRequest::default() };
    let mut changes = call_with_timeout(client.watch(request)).await.ok()?;
    changes.message().await.ok()?
}
