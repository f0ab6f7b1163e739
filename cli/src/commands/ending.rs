//! The end of a process: waiting for it, and fetching its outcome.

use std::time::{Duration, Instant};

use tonic::{Code, Status};
use xavantes_proto::{MAX_RESULTS_BYTES, call_with_timeout, receive, v1};

use super::show::fetch_tree;
use crate::exit::Exit;
use crate::grid_connection::{CoordinatorClient, ask, is_broken, refused};
use crate::output::terminal;
use crate::report::process::{OutcomeReport, exit_of};
use crate::transfer::{self, DownloadDir};

/// A process that reports nothing for this long is asked whether it waits for a worker, this many levels down.
const SILENCE_BEFORE_ASKING: Duration = Duration::from_secs(5);
const ASKED_DEPTH: u32 = 6;
/// A coordinator whose connection broke gets this long to come back.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);
const RECONNECT_INTERVAL: Duration = Duration::from_millis(500);

/// Waits for the end of a process, also if its coordinator restarts meanwhile.
pub(crate) async fn await_end(client: &mut CoordinatorClient, process: &str) -> Result<v1::ProcessStatus, Exit> {
    let mut last = v1::ProcessStatus::default();
    let (mut last_heard, mut reported) = (None::<Instant>, None);
    loop {
        let mut asking = client.clone();
        let watched = async {
            let request = v1::WatchRequest { process: process.to_owned(), ..v1::WatchRequest::default() };
            let mut changes = call_with_timeout(client.watch(request)).await?;
            loop {
                tokio::select! {
                    status = changes.message() => match status? {
                        Some(status) => {
                            report_hold(&last, &status);
                            (last, last_heard) = (status, Some(Instant::now()));
                        }
                        None => return Ok(()),
                    },
                    () = tokio::time::sleep(SILENCE_BEFORE_ASKING) => {
                        report_wait(&mut asking, process, &mut reported).await;
                    }
                }
            }
        };
        let broken = match watched.await {
            Ok(()) if last.ended_ms > 0 => return Ok(last),
            Ok(()) => {
                Status::unavailable(format!("the coordinator stopped reporting on {process}, which has not ended"))
            }
            Err(status) if is_broken(&status) || status.code() == Code::Unavailable => status,
            Err(status) => return Err(refused(&status)),
        };
        if last_heard.is_none_or(|at| at.elapsed() > RECONNECT_TIMEOUT) {
            return Err(refused(&broken));
        }
        tokio::time::sleep(RECONNECT_INTERVAL).await;
    }
}

/// Notes that a process is held, when that begins. Somebody may resume it, so the command goes on waiting.
fn report_hold(before: &v1::ProcessStatus, now: &v1::ProcessStatus) {
    if let Some(reason) = &now.stalled
        && reason.held().is_some()
        && before.stalled != now.stalled
    {
        terminal::note(&format!("{} is {reason}\n", now.process));
    }
}

/// Notes which elements wait for a worker that is not connected; each reason once.
async fn report_wait(client: &mut CoordinatorClient, process: &str, reported: &mut Option<v1::WaitReason>) {
    let Ok(root) = fetch_tree(client, process, ASKED_DEPTH).await else { return };
    let mut open = vec![&root];
    while let Some(element) = open.pop() {
        if let Some(reason) = element.wait_reason.as_ref().filter(|reason| reason.needs_other_workers())
            && reported.as_ref() != Some(reason)
        {
            *reported = Some(reason.clone());
            terminal::note(&format!("{} waits: {reason}\n", element.path));
        }
        open.extend(&element.children);
    }
}

/// Fetches the state and the results of a process.
pub(crate) async fn fetch_results(
    client: &mut CoordinatorClient,
    process: String,
) -> Result<v1::ResultsResponse, Exit> {
    let parts = ask(client.results(v1::ResultsRequest { process, ..v1::ResultsRequest::default() })).await?;
    receive(parts, MAX_RESULTS_BYTES).await.map_err(|status| refused(&status))
}

/// The outcome of an ended process and its exit code. Files among the results are downloaded if there is a directory
/// for them. If the process failed, the error message is printed.
pub(crate) async fn fetch_outcome(
    client: &mut CoordinatorClient,
    process: String,
    download: Option<DownloadDir<'_>>,
) -> Result<(OutcomeReport, Exit), Exit> {
    let mut answer = fetch_results(client, process).await?;
    if let Some(DownloadDir { path, coordinator, quiet }) = download {
        transfer::download(&mut answer.results, path, &[coordinator], quiet).await?;
    }
    let exit = answer.status.as_ref().map_or(Exit::Failed, exit_of);
    let outcome = OutcomeReport::new(answer);
    if let Some(error) = &outcome.error {
        terminal::error(error);
    }
    Ok((outcome, exit))
}
