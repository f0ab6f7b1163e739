//! `xavantes run`: a grid of one node inside this program, and a process on it from its file to its results.

use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use console::Term;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use xavantes_node::{Config, Node, unfinished};
use xavantes_proto::{question, v1};

use crate::Exit;
use crate::args::{Format, RunArgs};
use crate::client::{exit_of, results_of};
use crate::grid::{Coordinator, ask, coordinator, refused};
use crate::progress::Progress;
use crate::report::{clear_foot, complain, print, set_foot, tell};
use crate::{definition, files, node, show};

/// After a cancellation so long is waited before it is asked for again, which cuts `FINALLY` short.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often what is shown is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(100);
/// How often it is asked what is alive in the process, and how far down.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_DEPTH: u32 = 6;
/// Lines that activities printed are shown so many at a time.
const MOST_LINES: usize = 1000;

pub(crate) async fn run(arguments: RunArgs, format: Format, quiet: bool) -> Exit {
    on_own_grid(arguments, format, quiet).await.unwrap_or_else(|exit| exit)
}

async fn on_own_grid(arguments: RunArgs, format: Format, quiet: bool) -> Result<Exit, Exit> {
    let request = match arguments.resume {
        true => None,
        false => Some(definition::request(&arguments.what, None, format).await?),
    };
    let mut config = Config {
        name: "local".into(),
        listen: ([127, 0, 0, 1], 0).into(),
        data_dir: arguments.data_dir.clone(),
        in_memory: arguments.data_dir.is_none(),
        ..Config::default()
    };
    if let Some(workers) = arguments.workers {
        config.slots = workers.into();
    }
    if let Some(folder) = &arguments.data_dir {
        look_before(&config, folder, arguments.resume).await?;
    }
    let (printed, lines) = mpsc::unbounded_channel();
    let node = Node::start(config, Some(printed)).await.map_err(|error| node::refused(&error))?;
    let address = node.address().to_string();
    let mut client = coordinator(&address).await?;
    let began = Instant::now();
    let process = match request {
        Some(mut request) => {
            files::upload(&mut request, &address, quiet).await?;
            ask(client.submit(request)).await?.process
        }
        None => left_behind(&mut client).await?,
    };
    let mut display = Display::new(quiet, &process, began);
    let timed_out = follow(&mut client, &process, arguments.timeout, lines, &mut display).await;
    clear_foot();
    let (timed_out, mut answer) = (timed_out?, results_of(&mut client, process).await?);
    if let Some(folder) = &arguments.download {
        files::download(&mut answer.results, folder, &address, quiet).await?;
    }
    node.close().await;
    let reused = answer.status.as_ref().and_then(|status| status.counts).unwrap_or_default();
    if !quiet && reused.reused > 0 {
        tell(&format!("{} of {} activities used results again\n", reused.reused, reused.completed));
    }
    Ok(report(&answer, timed_out, began.elapsed(), format))
}

/// Whether a directory has what `--resume` needs, and nothing that would go on unasked otherwise.
async fn look_before(config: &Config, folder: &Path, resume: bool) -> Result<(), Exit> {
    let shown = folder.display();
    if !folder.join("repository").exists() {
        return match resume {
            true => Err(complain(&format!("there is nothing to go on with in {shown}: no process was kept there"))),
            false => Ok(()),
        };
    }
    let unfinished = unfinished(config).await.map_err(|error| node::refused(&error))?;
    match &unfinished[..] {
        [process] if !resume => Err(complain(&format!(
            "{process} in {shown} has not ended: go on with it, `xavantes run --resume --data-dir {shown}`, or choose \
             another directory"
        ))),
        [] | [_] => Ok(()),
        several => Err(complain(&format!(
            "several processes in {shown} have not ended ({}): `xavantes node --data-dir {shown}` goes on with all of them",
            several.join(", ")
        ))),
    }
}

/// The process that goes on; if none does, the last that ended.
async fn left_behind(client: &mut Coordinator) -> Result<String, Exit> {
    let processes = ask(client.list(v1::ListRequest {})).await?.processes;
    let running = |it: &v1::ProcessStatus| it.state() == v1::ProcessState::Running;
    let last = processes.iter().max_by_key(|it| (running(it), it.ended_ms));
    let nothing = || complain("there is nothing to go on with: no process was kept there");
    last.map(|it| it.process.clone()).ok_or_else(nothing)
}

/// Shows a process until its end. Time-out and Ctrl-C cancel it. Tells whether time ran out.
async fn follow(
    client: &mut Coordinator,
    process: &str,
    timeout: Option<Duration>,
    mut lines: mpsc::UnboundedReceiver<(String, String)>,
    display: &mut Display,
) -> Result<bool, Exit> {
    let mut changes = ask(client.watch(v1::WatchRequest { process: process.to_owned() })).await?;
    let mut trees = display.look(client, process);
    let mut interrupts = signal(SignalKind::interrupt()).map_err(|error| {
        complain(&format!("cannot listen for signals: {error}"));
        Exit::Failed
    })?;
    let mut timed_out = false;
    let forever = Duration::from_secs(365 * 24 * 3600);
    let cancel_at = tokio::time::sleep(timeout.unwrap_or(forever));
    tokio::pin!(cancel_at);
    let mut draws = interval(DRAW_EVERY);
    draws.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut printed = Vec::new();
    loop {
        let cancel = tokio::select! {
            1.. = lines.recv_many(&mut printed, MOST_LINES) => {
                display.printed(&mut printed);
                false
            }
            change = changes.message() => match change.map_err(|status| refused(&status))? {
                Some(status) => {
                    display.on_status(status);
                    false
                }
                None => {
                    while let Ok(line) = lines.try_recv() {
                        printed.push(line);
                    }
                    display.printed(&mut printed);
                    return Ok(timed_out);
                }
            },
            Some(tree) = trees.recv() => {
                display.on_tree(&tree);
                false
            }
            _ = draws.tick(), if display.is_live() => {
                display.draw();
                false
            }
            () = &mut cancel_at => {
                timed_out |= timeout.is_some();
                true
            }
            _ = interrupts.recv() => true,
        };
        if cancel {
            display.on_cancel();
            let action = Some(v1::steer_request::Action::Cancel(v1::Nothing {}));
            // It may have ended in this moment, or be ending already.
            let _ = question(client.steer(v1::SteerRequest { path: process.to_owned(), action })).await;
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
    } else if exit == Exit::Cancelled {
        complain("the process was cancelled");
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
                    "reused": counts.reused,
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

/// What is shown while a process runs: on a terminal how it goes, everywhere what activities print.
struct Display {
    quiet: bool,
    began: Instant,
    progress: Option<Progress>,
}

impl Display {
    fn new(quiet: bool, process: &str, began: Instant) -> Self {
        let live = !quiet && std::io::stderr().is_terminal();
        Self { quiet, began, progress: live.then(|| Progress::new(process)) }
    }

    fn is_live(&self) -> bool {
        self.progress.is_some()
    }

    /// Looks at the process now and then, if there is somebody to see it.
    fn look(&self, client: &Coordinator, process: &str) -> mpsc::Receiver<v1::Element> {
        let (sender, receiver) = mpsc::channel(1);
        if self.is_live() {
            let (mut client, path) = (client.clone(), process.to_owned());
            tokio::spawn(async move {
                while !sender.is_closed() {
                    let request = v1::ShowRequest { path: path.clone(), depth: LOOK_DEPTH };
                    if let Ok(v1::ShowResponse { element: Some(element) }) = question(client.show(request)).await {
                        let _ = sender.send(element).await;
                    }
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            });
        }
        receiver
    }

    fn on_status(&mut self, status: v1::ProcessStatus) {
        if let Some(progress) = &mut self.progress {
            progress.on_status(status, self.began.elapsed());
        }
    }

    fn on_tree(&mut self, tree: &v1::Element) {
        if let Some(progress) = &mut self.progress {
            progress.on_tree(tree, self.began.elapsed());
        }
    }

    fn on_cancel(&mut self) {
        if let Some(progress) = &mut self.progress {
            progress.on_cancel();
        }
    }

    fn draw(&self) {
        if let Some(progress) = &self.progress {
            let (_, width) = Term::stderr().size();
            set_foot(&progress.lines(self.began.elapsed(), width.into()).join("\n"));
        }
    }

    fn printed(&self, lines: &mut Vec<(String, String)>) {
        let text: String = lines.drain(..).map(|(path, line)| format!("{path}: {line}\n")).collect();
        if !self.quiet && !text.is_empty() {
            tell(&text);
        }
    }
}
