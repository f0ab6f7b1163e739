//! `xavantes node`: one node of a grid until it is asked to stop.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;
use xavantes_node::{AfterDrain, Node, SettingOverrides, Settings, has_password};

use crate::exit::Exit;
use crate::output::printer::{Output, Report};
use crate::output::terminal;

/// Settings come from the file, then from the environment, then from flags.
#[derive(Args)]
pub(crate) struct NodeArgs {
    /// TOML file with any of these settings
    #[arg(long, env = "XAVANTES_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub settings: SettingOverrides,
    /// Print the settings that result, and stop
    #[arg(long)]
    pub print_config: bool,
}

#[derive(Args)]
pub(crate) struct GuardArgs {
    /// Directory of the attempts
    pub root: PathBuf,
    /// Directory to remove
    pub temporary: Option<PathBuf>,
}

/// The settings of a node: as text a TOML file that `--config` reads.
#[derive(Serialize)]
#[serde(transparent)]
struct ResultingSettings(Settings);

impl Report for ResultingSettings {
    fn text(&self) -> String {
        toml::to_string(&self.0).unwrap_or_else(|error| format!("# {error}\n"))
    }
}

/// How a node ended.
pub(crate) enum NodeEnd {
    /// The command ends.
    Exit(Exit),
    /// The node has drained, and the command waits for a signal.
    Waits,
}

pub(crate) async fn node(arguments: NodeArgs, output: Output) -> Result<NodeEnd, Exit> {
    let loaded = Settings::load(arguments.config.as_deref(), arguments.settings);
    let mut settings = loaded.map_err(|error| terminal::error(&error.to_string()))?;
    if arguments.print_config {
        settings.data_dir = settings.data_dir_path().ok().flatten();
        return Ok(NodeEnd::Exit(output.report(&ResultingSettings(settings.without_password()))));
    }
    warn_of_password();
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        terminal::error("cannot listen for signals");
        return Err(Exit::Failed);
    };
    let after_drain = settings.after_drain;
    let node = tokio::select! {
        node = Node::start_patiently(settings) => node.map_err(|error| not_started(&error))?,
        _ = terminate.recv() => return Ok(NodeEnd::Exit(Exit::Success)),
        _ = interrupt.recv() => return Ok(NodeEnd::Exit(Exit::Success)),
    };
    tokio::spawn(report_tasks());
    let (mut drains, mut signals) = (false, 0);
    tokio::select! {
        _ = terminate.recv() => info!("stopping on SIGTERM"),
        _ = interrupt.recv() => info!("stopping on SIGINT"),
        () = node.drain_requested() => {
            info!("draining on request of an administrator");
            drains = true;
        }
    }
    signals += u32::from(!drains);
    let emergency_stop = node.emergency_stop();
    // An administrator who drains a node wants its work done; a signal does not wait for long.
    let hurry = tokio::sync::Notify::new();
    if !drains {
        hurry.notify_one();
    }
    let mut shut_down = std::pin::pin!(node.shut_down(hurry.notified()));
    loop {
        tokio::select! {
            () = &mut shut_down => break,
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        (drains, signals) = (false, signals + 1);
        if signals > 1 {
            emergency_stop();
            break;
        }
        info!("stopping on a signal; another signal ends everything at once");
        hurry.notify_one();
    }
    let waits = drains && after_drain == AfterDrain::Wait;
    Ok(if waits { NodeEnd::Waits } else { NodeEnd::Exit(Exit::Success) })
}

/// Waits for the signal to end. The runtime of the node is gone, and its connections with it.
pub(crate) async fn wait_for_signal() -> Result<Exit, Exit> {
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return Err(Exit::Failed);
    };
    info!("drained; the node is no part of the grid any more, and waits for SIGTERM");
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(Exit::Success)
}

/// Logs the number of tasks on each SIGUSR1, so that an administrator can see whether a node collects them.
async fn report_tasks() {
    let Ok(mut requests) = signal(SignalKind::user_defined1()) else { return };
    while requests.recv().await.is_some() {
        info!(tasks = tokio::runtime::Handle::current().metrics().num_alive_tasks(), "state of the runtime");
    }
}

/// Warns if the command line contains the password of a database: every user of the machine can read it there.
pub(crate) fn warn_of_password() {
    let is_url = |argument: &String| argument.contains("postgres://") || argument.contains("postgresql://");
    if std::env::args().filter(is_url).any(|argument| has_password(&argument)) {
        terminal::note(
            "warning: the command line contains the password of the database, and every user of this machine can read it: \
             say --repository-password-file FILE, or set PGPASSFILE, PGPASSWORD or XAVANTES_REPOSITORY\n",
        );
    }
}

/// Prints why a node did not start. Returns the exit code.
pub(crate) fn not_started(error: &xavantes_node::Error) -> Exit {
    terminal::error(&error.to_string());
    match error {
        xavantes_node::Error::Repository(xavantes_repository::Error::Unavailable(_)) => Exit::Unreachable,
        _ => Exit::Usage,
    }
}

/// `xavantes guard`: ends the programs of a node when the node is gone.
pub(crate) fn guard(arguments: &GuardArgs) -> Exit {
    xavantes_node::run_watchdog(&arguments.root, arguments.temporary.as_deref());
    Exit::Success
}
