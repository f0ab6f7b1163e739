//! `xavantes run`: a grid of one node inside this program, and a process on it from its file to its results.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use xavantes_node::{Node, Settings, unfinished_processes};
use xavantes_proto::{call_with_timeout, v1};

use super::ending::fetch_results;
use super::list::fetch_all;
use super::node::not_started;
use super::show::fetch_tree;
use crate::args::DefinitionArgs;
use crate::exit::Exit;
use crate::grid_connection::{CoordinatorClient, ask, coordinator, refused};
use crate::output::live_display::LiveDisplay;
use crate::output::printer::Output;
use crate::output::terminal;
use crate::report::process::{OutcomeReport, exit_of};
use crate::{definition, transfer};

/// A cancelled process that does not end within this time is cancelled again, which skips its `FINALLY`.
const CANCEL_AGAIN_AFTER: Duration = Duration::from_secs(5);
const DRAW_INTERVAL: Duration = Duration::from_millis(100);
/// The elements of the process are fetched this often, this many levels down.
const TREE_INTERVAL: Duration = Duration::from_secs(1);
const TREE_DEPTH: u32 = 6;
/// Upper bound on the lines of activities that are shown at a time.
const MAX_LINES_AT_ONCE: usize = 1000;

#[derive(Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub definition: DefinitionArgs,
    /// Activities that run at once [default: the number of processors]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub workers: Option<u16>,
    /// Keep the process in this directory, so that it can continue after this program was killed
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Continue the process in --data-dir; if it has ended, print its results
    #[arg(long, requires = "data_dir", conflicts_with_all = ["files", "process", "parameters", "params", "no_reuse"])]
    pub resume: bool,
    /// Download the files among the results into this directory, and print their paths
    #[arg(long, value_name = "DIR")]
    pub download: Option<PathBuf>,
    /// Cancel the process after this time, e.g. 90s or 1h30m
    #[arg(long, value_name = "DURATION", value_parser = xavantes_model::load::duration)]
    pub timeout: Option<Duration>,
}

pub(crate) async fn run(arguments: RunArgs, output: Output) -> Result<Exit, Exit> {
    let request = match arguments.resume {
        true => None,
        false => Some(definition::request(&arguments.definition, None, output).await?),
    };
    let mut settings = Settings {
        name: "local".into(),
        listen: ([127, 0, 0, 1], 0).into(),
        data_dir: arguments.data_dir.clone(),
        in_memory: arguments.data_dir.is_none(),
        ..Settings::default()
    };
    if let Some(workers) = arguments.workers {
        settings.slots = workers.into();
    }
    if let Some(data_dir) = &arguments.data_dir {
        check_data_dir(&settings, data_dir, arguments.resume).await?;
    }
    let (printed, lines) = mpsc::unbounded_channel();
    let node = Node::start(settings, Some(printed)).await.map_err(|error| not_started(&error))?;
    let address = node.address().to_string();
    let mut client = coordinator(&address).await?;
    let began = Instant::now();
    let process = match request {
        Some(mut request) => {
            transfer::upload(&mut request, &address, output.is_quiet()).await?;
            ask(client.submit(request)).await?.process
        }
        None => process_to_resume(&mut client).await?,
    };
    let mut display = LiveDisplay::new(output, &process, began);
    let followed = follow(&mut client, &process, arguments.timeout, lines, &mut display).await;
    display.clear();
    let (stop, mut answer) = (followed?, fetch_results(&mut client, process).await?);
    if let Some(folder) = &arguments.download {
        transfer::download(&mut answer.results, folder, &[&address], output.is_quiet()).await?;
    }
    node.close().await;

    let exit = exit_code(answer.status.as_ref(), stop);
    let mut outcome = OutcomeReport::new(answer);
    outcome.elapsed_seconds = began.elapsed().as_secs_f64();
    if outcome.activities.reused > 0 {
        let (reused, completed) = (outcome.activities.reused, outcome.activities.completed);
        output.note(&format!("{reused} of {completed} activities used results again\n"));
    }
    match (&outcome.error, exit) {
        (Some(error), _) => terminal::error(error),
        (None, Exit::TimedOut) => terminal::error("time is out: the process was cancelled"),
        (None, Exit::Cancelled) => terminal::error("the process was cancelled"),
        (None, _) => Exit::Success,
    };
    Ok(output.report(&outcome).or(exit))
}

/// Checks that a data directory has what `--resume` needs, and no process that would continue unasked otherwise.
async fn check_data_dir(settings: &Settings, data_dir: &Path, resume: bool) -> Result<(), Exit> {
    let shown = data_dir.display();
    if !data_dir.join("repository").exists() {
        return match resume {
            true => Err(terminal::error(&format!("there is nothing to resume in {shown}: no process was kept there"))),
            false => Ok(()),
        };
    }
    let unfinished = unfinished_processes(settings).await.map_err(|error| not_started(&error))?;
    match &unfinished[..] {
        [process] if !resume => Err(terminal::error(&format!(
            "{process} in {shown} has not ended: continue it with `xavantes run --resume --data-dir {shown}`, or choose \
             another directory"
        ))),
        [] | [_] => Ok(()),
        several => Err(terminal::error(&format!(
            "several processes in {shown} have not ended ({}): `xavantes node --data-dir {shown}` continues all of them",
            several.join(", ")
        ))),
    }
}

/// The process that continues; if none does, the one that ended last.
async fn process_to_resume(client: &mut CoordinatorClient) -> Result<String, Exit> {
    let processes = fetch_all(client).await.map_err(|status| refused(&status))?;
    let is_running = |it: &v1::ProcessStatus| it.state().is_live();
    let last = processes.iter().max_by_key(|it| (is_running(it), it.ended_ms));
    let nothing = || terminal::error("there is nothing to resume: no process was kept in the data directory");
    last.map(|it| it.process.clone()).ok_or_else(nothing)
}

/// Why this command cancelled the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunStop {
    TimedOut,
    /// It waits for a worker that will never connect.
    Stuck,
}

fn exit_code(status: Option<&v1::ProcessStatus>, stop: Option<RunStop>) -> Exit {
    match (status.map_or(Exit::Failed, exit_of), stop) {
        (Exit::Cancelled, Some(RunStop::TimedOut)) => Exit::TimedOut,
        (Exit::Cancelled, Some(RunStop::Stuck)) => Exit::Failed,
        (exit, _) => exit,
    }
}

/// Shows a process until its end. Cancels it on time-out, on Ctrl-C, and if it is stuck; returns the reason, except for
/// Ctrl-C.
async fn follow(
    client: &mut CoordinatorClient,
    process: &str,
    timeout: Option<Duration>,
    mut lines: mpsc::UnboundedReceiver<(String, String)>,
    display: &mut LiveDisplay,
) -> Result<Option<RunStop>, Exit> {
    let request = v1::WatchRequest { process: process.to_owned(), ..v1::WatchRequest::default() };
    let mut changes = ask(client.watch(request)).await?;
    let mut trees = fetch_trees(client, process);
    let mut interrupts = signal(SignalKind::interrupt()).map_err(|error| {
        terminal::error(&format!("cannot listen for signals: {error}"));
        Exit::Failed
    })?;
    let mut stop = None;
    let forever = Duration::from_secs(365 * 24 * 3600);
    let cancel_at = tokio::time::sleep(timeout.unwrap_or(forever));
    tokio::pin!(cancel_at);
    let mut draws = interval(DRAW_INTERVAL);
    draws.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut printed = Vec::new();
    loop {
        let cancel = tokio::select! {
            1.. = lines.recv_many(&mut printed, MAX_LINES_AT_ONCE) => {
                display.on_printed(&mut printed);
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
                    display.on_printed(&mut printed);
                    return Ok(stop);
                }
            },
            Some(tree) = trees.recv() => {
                let stuck = display.on_tree(&tree).filter(|_| stop.is_none());
                if let Some(reason) = &stuck {
                    stop = Some(RunStop::Stuck);
                    terminal::error(&format!("{reason}, and there are no other workers than this one"));
                }
                stuck.is_some()
            }
            _ = draws.tick(), if display.is_live() => {
                display.draw();
                false
            }
            () = &mut cancel_at => {
                stop = stop.or(timeout.map(|_| RunStop::TimedOut));
                true
            }
            _ = interrupts.recv() => true,
        };
        if cancel {
            display.on_cancel();
            let action = Some(v1::steer_request::Action::Cancel(v1::Nothing {}));
            // An error means that the process ends at this moment, or has ended.
            let request = v1::SteerRequest { path: process.to_owned(), action, ..v1::SteerRequest::default() };
            let _ = call_with_timeout(client.steer(request)).await;
            cancel_at.as_mut().reset(tokio::time::Instant::now() + CANCEL_AGAIN_AFTER);
        }
    }
}

/// Fetches the elements of a process again and again, until the receiver is dropped.
fn fetch_trees(client: &CoordinatorClient, process: &str) -> mpsc::Receiver<v1::Element> {
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
