//! `xavantes run`: a grid of one node inside this program, and a process on it from its file to its results.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::mpsc;
use xavantes_node::{Config, Node};
use xavantes_proto::v1;

use crate::Exit;
use crate::args::{Format, RunArgs};
use crate::client::{Coordinator, connect, exit_of, refused};
use crate::report::{complain, print, tell};
use crate::{definition, show};

/// After a cancellation so long is waited before it is asked for again, which cuts `FINALLY` short.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn run(arguments: RunArgs, format: Format, quiet: bool) -> Exit {
    let request = match definition::request(&arguments.what, None, format).await {
        Ok(request) => request,
        Err(exit) => return exit,
    };
    on_own_grid(arguments, request, format, quiet).await.unwrap_or_else(|exit| exit)
}

async fn on_own_grid(
    arguments: RunArgs,
    request: v1::SubmitRequest,
    format: Format,
    quiet: bool,
) -> Result<Exit, Exit> {
    let mut config = Config { name: "local".into(), listen: ([127, 0, 0, 1], 0).into(), ..Config::default() };
    if let Some(workers) = arguments.workers {
        config.slots = workers.into();
        config.queue = config.queue.max(config.slots.saturating_mul(2));
    }
    let (printed, lines) = mpsc::unbounded_channel();
    let node = Node::start(config, Some(printed)).await.map_err(|error| {
        complain(&error.to_string());
        Exit::Failed
    })?;
    let mut client = connect(&node.address().to_string()).await?;
    let began = Instant::now();
    let process = client.submit(request).await.map_err(|status| refused(&status))?.into_inner().process;
    let mut display = Display::new(quiet, began);
    let timed_out = follow(&mut client, &process, arguments.timeout, lines, &mut display).await?;
    display.clear();
    let answer = client.results(v1::ResultsRequest { process }).await.map_err(|status| refused(&status))?.into_inner();
    Ok(report(&answer, timed_out, began.elapsed(), format))
}

/// Shows a process until its end. Time-out and Ctrl-C cancel it. Tells whether time ran out.
async fn follow(
    client: &mut Coordinator,
    process: &str,
    timeout: Option<Duration>,
    mut lines: mpsc::UnboundedReceiver<(String, String)>,
    display: &mut Display,
) -> Result<bool, Exit> {
    let request = v1::WatchRequest { process: process.to_owned() };
    let mut changes = client.watch(request).await.map_err(|status| refused(&status))?.into_inner();
    let mut timed_out = false;
    let forever = Duration::from_secs(365 * 24 * 3600);
    let cancel_at = tokio::time::sleep(timeout.unwrap_or(forever));
    tokio::pin!(cancel_at);
    loop {
        let cancel = tokio::select! {
            biased;
            Some((path, line)) = lines.recv() => {
                display.printed(&path, &line);
                false
            }
            change = changes.message() => match change.map_err(|status| refused(&status))? {
                Some(status) => {
                    display.show(&status);
                    false
                }
                None => {
                    while let Ok((path, line)) = lines.try_recv() {
                        display.printed(&path, &line);
                    }
                    return Ok(timed_out);
                }
            },
            () = &mut cancel_at => {
                timed_out |= timeout.is_some();
                true
            }
            _ = tokio::signal::ctrl_c() => true,
        };
        if cancel {
            let action = Some(v1::steer_request::Action::Cancel(v1::Nothing {}));
            // It may have ended in this moment, or be ending already.
            let _ = client.steer(v1::SteerRequest { path: process.to_owned(), action }).await;
            cancel_at.as_mut().reset(tokio::time::Instant::now() + PATIENCE);
        }
    }
}

fn report(answer: &v1::ResultsResponse, timed_out: bool, elapsed: Duration, format: Format) -> Exit {
    let status = answer.status.clone().unwrap_or_default();
    let exit = match exit_of(&status) {
        Exit::Cancelled if timed_out => Exit::TimedOut,
        exit => exit,
    };
    if let Some(why) = &status.failure {
        complain(&show::failure(why));
    } else if exit == Exit::TimedOut {
        complain("time is out: the process was cancelled");
    }
    let printed = match format {
        Format::Json => {
            let counts = status.counts.unwrap_or_default();
            let mut document = json!({
                "process": status.process,
                "state": show::state(&status),
                "results": show::results(&answer.results),
                "activities": {
                    "completed": counts.completed, "failed": counts.failed, "attempts": counts.attempts,
                },
                "elapsed_seconds": elapsed.as_secs_f64(),
            });
            if let Some(why) = &status.failure {
                document["error"] = json!(show::failure(why));
            }
            print(&document.to_string())
        }
        Format::Text => print(&show::results_text(&answer.results)),
    };
    if printed == Exit::Success { exit } else { printed }
}

/// One line that is kept up to date on a terminal, and what activities print.
struct Display {
    quiet: bool,
    terminal: bool,
    began: Instant,
    shown: bool,
}

impl Display {
    fn new(quiet: bool, began: Instant) -> Self {
        Self { quiet, terminal: std::io::stderr().is_terminal(), began, shown: false }
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            tell("\r\x1b[K");
        }
    }

    fn show(&mut self, status: &v1::ProcessStatus) {
        if self.quiet || !self.terminal {
            return;
        }
        self.shown = true;
        let counts = status.counts.unwrap_or_default();
        let rate = counts.completed as f64 / self.began.elapsed().as_secs_f64().max(0.001);
        let failed = if counts.failed > 0 { format!(", {} failed", counts.failed) } else { String::new() };
        tell(&format!("\r\x1b[K{} completed, {} running{failed} ({rate:.0}/s)", counts.completed, counts.running));
    }

    fn printed(&mut self, path: &str, line: &str) {
        if !self.quiet {
            self.clear();
            tell(&format!("{path}: {line}\n"));
        }
    }
}
