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
use xavantes_proto::{call_with_timeout, v1};

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
/// What waits for a worker that is not there, and will not come, is given up after so long.
const STUCK_FOR: Duration = Duration::from_secs(3);
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
    let cut = follow(&mut client, &process, arguments.timeout, lines, &mut display).await;
    clear_foot();
    let (cut, mut answer) = (cut?, results_of(&mut client, process).await?);
    if let Some(folder) = &arguments.download {
        files::download(&mut answer.results, folder, &[&address], quiet).await?;
    }
    node.close().await;
    let reused = answer.status.as_ref().and_then(|status| status.counts).unwrap_or_default();
    if !quiet && reused.reused > 0 {
        tell(&format!("{} of {} activities used results again\n", reused.reused, reused.completed));
    }
    Ok(report(&answer, cut, began.elapsed(), format))
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

/// Why a process was cancelled here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    TimedOut,
    /// It waits for a worker that will never come.
    Stuck,
}

/// Shows a process until its end. Time-out and Ctrl-C cancel it, and that it cannot go on. Tells if it was one of these.
async fn follow(
    client: &mut Coordinator,
    process: &str,
    timeout: Option<Duration>,
    mut lines: mpsc::UnboundedReceiver<(String, String)>,
    display: &mut Display,
) -> Result<Option<Cut>, Exit> {
    let mut changes = ask(client.watch(v1::WatchRequest { process: process.to_owned() })).await?;
    let mut trees = display.look(client, process);
    let mut interrupts = signal(SignalKind::interrupt()).map_err(|error| {
        complain(&format!("cannot listen for signals: {error}"));
        Exit::Failed
    })?;
    let mut cut = None;
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
                    return Ok(cut);
                }
            },
            Some(tree) = trees.recv() => {
                let stuck = display.on_tree(&tree).filter(|_| cut.is_none());
                if let Some(why) = &stuck {
                    cut = Some(Cut::Stuck);
                    complain(&format!("{why}, and there are no other workers than this one"));
                }
                stuck.is_some()
            }
            _ = draws.tick(), if display.is_live() => {
                display.draw();
                false
            }
            () = &mut cancel_at => {
                cut = cut.or(timeout.map(|_| Cut::TimedOut));
                true
            }
            _ = interrupts.recv() => true,
        };
        if cancel {
            display.on_cancel();
            let action = Some(v1::steer_request::Action::Cancel(v1::Nothing {}));
            // It may have ended in this moment, or be ending already.
            let _ = call_with_timeout(client.steer(v1::SteerRequest { path: process.to_owned(), action })).await;
            cancel_at.as_mut().reset(tokio::time::Instant::now() + PATIENCE);
        }
    }
}

fn report(answer: &v1::ResultsResponse, cut: Option<Cut>, elapsed: Duration, format: Format) -> Exit {
    let status = answer.status.clone().unwrap_or_default();
    let exit = match (exit_of(&status), cut) {
        (Exit::Cancelled, Some(Cut::TimedOut)) => Exit::TimedOut,
        (Exit::Cancelled, Some(Cut::Stuck)) => Exit::Failed,
        (exit, _) => exit,
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
    live: bool,
    began: Instant,
    progress: Progress,
    /// Since when nothing goes on for want of a worker.
    stuck: Option<Instant>,
}

impl Display {
    fn new(quiet: bool, process: &str, began: Instant) -> Self {
        let live = !quiet && std::io::stderr().is_terminal();
        Self { quiet, live, began, progress: Progress::new(process), stuck: None }
    }

    fn is_live(&self) -> bool {
        self.live
    }

    /// Looks at the process now and then.
    fn look(&self, client: &Coordinator, process: &str) -> mpsc::Receiver<v1::Element> {
        let (sender, receiver) = mpsc::channel(1);
        let (mut client, path) = (client.clone(), process.to_owned());
        tokio::spawn(async move {
            while !sender.is_closed() {
                let request = v1::ShowRequest { path: path.clone(), depth: LOOK_DEPTH };
                if let Ok(v1::ShowResponse { element: Some(element) }) = call_with_timeout(client.show(request)).await {
                    let _ = sender.send(element).await;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        });
        receiver
    }

    fn on_status(&mut self, status: v1::ProcessStatus) {
        self.progress.on_status(status, self.began.elapsed());
    }

    /// Takes what is alive; tells why nothing goes on, if that is so for some time.
    fn on_tree(&mut self, tree: &v1::Element) -> Option<String> {
        self.progress.on_tree(tree, self.began.elapsed());
        let Some(why) = self.progress.stuck().map(str::to_owned) else {
            self.stuck = None;
            return None;
        };
        let since = *self.stuck.get_or_insert_with(Instant::now);
        (since.elapsed() > STUCK_FOR).then_some(why)
    }

    fn on_cancel(&mut self) {
        self.progress.on_cancel();
    }

    fn draw(&self) {
        let (_, width) = Term::stderr().size();
        set_foot(&self.progress.lines(self.began.elapsed(), width.into()).join("\n"));
    }

    fn printed(&self, lines: &mut Vec<(String, String)>) {
        let text: String = lines.drain(..).map(|(path, line)| format!("{path}: {line}\n")).collect();
        if !self.quiet && !text.is_empty() {
            tell(&text);
        }
    }
}
