//! The end of a process: waiting for it, and fetching its outcome.

use std::time::{Duration, Instant};

use xavantes_proto::{Assembler, MAX_RESULTS_BYTES, call_with_timeout, v1};

use crate::connection::{CoordinatorClient, ask, is_broken, refused};
use crate::exit::Exit;
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
            let mut changes = call_with_timeout(client.watch(v1::WatchRequest { process: process.to_owned() })).await?;
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
        match watched.await {
            Ok(()) => return Ok(last),
            Err(status) if is_broken(&status) && last_heard.is_some_and(|at| at.elapsed() < RECONNECT_TIMEOUT) => {
                tokio::time::sleep(RECONNECT_INTERVAL).await;
            }
            Err(status) => return Err(refused(&status)),
        }
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
    let shown = call_with_timeout(client.show(v1::ShowRequest { path: process.to_owned(), depth: ASKED_DEPTH })).await;
    let Some(root) = shown.ok().and_then(|shown| shown.element) else { return };
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
    let refused = |status| refused(&status);
    let mut parts = ask(client.results(v1::ResultsRequest { process })).await?;
    let mut whole = Assembler::new(MAX_RESULTS_BYTES);
    while let Some(part) = parts.message().await.map_err(refused)? {
        if let Some(answer) = whole.add(part).map_err(|unfit| refused(unfit.into()))? {
            return Ok(answer);
        }
    }
    terminal::error("the connection broke while the results arrived; ask for them again");
    Err(Exit::Unreachable)
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
