//! The end of a process: waiting for it, and fetching its outcome.

use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tonic::{Code, Status};
use xavantes_proto::{MAX_RESULTS_BYTES, call_with_timeout, receive, v1};

use super::show::{fetch_tree, fetch_trees};
use crate::exit::Exit;
use crate::grid_connection::{CoordinatorClient, ask, is_broken, refused};
use crate::output::live_display::{LiveDisplay, draw_interval};
use crate::output::printer::Output;
use crate::output::terminal;
use crate::report::process::{OutcomeReport, exit_of};
use crate::transfer::{self, DownloadDir};

/// A process that reports nothing for this long is asked whether it waits for a worker, this many levels down.
const SILENCE_BEFORE_ASKING: Duration = Duration::from_secs(5);
const ASKED_DEPTH: u32 = 6;
/// A coordinator whose connection broke gets this long to come back.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(60);
const RECONNECT_INTERVAL: Duration = Duration::from_millis(500);

/// Waits for the end of a process, also if its coordinator restarts meanwhile. On a terminal this shows the progress.
pub(crate) async fn await_end(
    client: &mut CoordinatorClient,
    process: &str,
    output: Output,
) -> Result<v1::ProcessStatus, Exit> {
    let mut display = LiveDisplay::new(output, process);
    let ended = follow_to_end(client, process, &mut display).await;
    display.clear();
    ended.iter().for_each(report_failures);
    ended
}

async fn follow_to_end(
    client: &mut CoordinatorClient,
    process: &str,
    display: &mut LiveDisplay,
) -> Result<v1::ProcessStatus, Exit> {
    let mut last = v1::ProcessStatus::default();
    let (mut last_heard, mut reported) = (None::<Instant>, None);
    let mut trees = display.is_live().then(|| fetch_trees(client, process));
    let mut draws = draw_interval();
    loop {
        let mut asking = client.clone();
        let watched = async {
            let request = v1::WatchRequest { process: process.to_owned(), ..v1::WatchRequest::default() };
            let mut changes = call_with_timeout(client.watch(request)).await?;
            let mut asked = Instant::now();
            loop {
                tokio::select! {
                    status = changes.message() => match status? {
                        Some(status) => {
                            asked = Instant::now();
                            report_hold(&last, &status, display.is_live());
                            display.on_status(status.clone());
                            (last, last_heard) = (status, Some(asked));
                        }
                        None => return Ok(()),
                    },
                    Some(tree) = next_tree(&mut trees) => {
                        display.on_tree(&tree);
                    }
                    _ = draws.tick(), if display.is_live() => display.draw(),
                    () = tokio::time::sleep_until((asked + SILENCE_BEFORE_ASKING).into()), if !display.is_live() => {
                        report_wait(&mut asking, process, &mut reported).await;
                        asked = Instant::now();
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

/// The next elements of a process; never, if nobody fetches them.
async fn next_tree(trees: &mut Option<mpsc::Receiver<v1::Element>>) -> Option<v1::Element> {
    match trees {
        Some(trees) => trees.recv().await,
        None => std::future::pending().await,
    }
}

/// Waits for something of processes. Ctrl-C ends the command, and says that the processes go on.
pub(crate) async fn unless_interrupted<T>(
    processes: &[String],
    waiting: impl Future<Output = Result<T, Exit>>,
) -> Result<T, Exit> {
    let mut interrupts = interrupts()?;
    tokio::select! {
        done = waiting => done,
        _ = interrupts.recv() => {
            terminal::clear_footer();
            let ids = processes.join(" ");
            let verb = if processes.len() == 1 { "goes" } else { "go" };
            terminal::note(&format!(
                "{ids} {verb} on without this command: `xavantes wait {ids}` waits again, `xavantes cancel ID` ends a process\n"
            ));
            Err(Exit::Interrupted)
        }
    }
}

/// The signals of Ctrl-C, from now on.
pub(crate) fn interrupts() -> Result<Signal, Exit> {
    signal(SignalKind::interrupt()).map_err(|error| {
        terminal::error(&format!("cannot listen for signals: {error}"));
        Exit::Failed
    })
}

/// Notes that a process is held, or elements of it, when that begins, unless the progress shows it. Somebody may resume it, so
/// the command goes on waiting.
fn report_hold(before: &v1::ProcessStatus, now: &v1::ProcessStatus, is_shown: bool) {
    let id = &now.process;
    match &now.stalled {
        _ if is_shown => {}
        Some(reason) if reason.held().is_some() && before.stalled != now.stalled => {
            terminal::note(&format!("{id} is {reason}\n"));
        }
        None if now.state() == v1::State::Held && before.state() != v1::State::Held => {
            terminal::note(&format!(
                "{id} is held: an element failed, and waits for a decision; `xavantes logs --failed {id}` says why, \
                 `xavantes retry PATH` tries it again, `xavantes cancel {id}` ends the process\n"
            ));
        }
        _ => {}
    }
}

/// Notes that activities failed in a process that completed.
fn report_failures(status: &v1::ProcessStatus) {
    let failed = status.counts.unwrap_or_default().failed;
    if status.state() == v1::State::Completed && failed > 0 {
        let (id, what) = (&status.process, if failed == 1 { "activity" } else { "activities" });
        terminal::note(&format!("{id}: {failed} {what} failed; `xavantes logs --failed {id}` shows what they wrote\n"));
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
