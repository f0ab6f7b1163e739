//! `xavantes logs`: the standard output and error of an activity.

use std::time::Duration;

use clap::Args;
use xavantes_proto::v1;

use super::failed_logs::failed_logs;
use super::show::fetch_tree;
use crate::args::GridArgs;
use crate::exit::Exit;
use crate::given_path::resolve;
use crate::grid_connection::{CoordinatorClient, coordinator, refused};
use crate::output::printer::Output;

/// An activity between two attempts is asked for the next one this often.
const NEXT_ATTEMPT_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Args)]
pub(crate) struct LogsArgs {
    /// Path of an activity, e.g. FindPrimes-7f3a/search/3/part
    pub path: String,
    /// Continue with what the activity writes until it ends
    #[arg(short, long, visible_alias = "watch")]
    pub follow: bool,
    /// What all failed activities of a process, or in an element, wrote last
    #[arg(long, conflicts_with_all = ["follow", "attempt"])]
    pub failed: bool,
    /// Number of the attempt [default: the last]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub attempt: Option<u32>,
    /// Only the standard output
    #[arg(long, conflicts_with = "stderr")]
    pub stdout: bool,
    /// Only the standard error
    #[arg(long)]
    pub stderr: bool,
    /// Only the last N lines; with --failed of each activity [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub tail: Option<u32>,
    #[command(flatten)]
    pub grid: GridArgs,
}

pub(crate) async fn logs(arguments: &LogsArgs, output: Output) -> Result<Exit, Exit> {
    let mut client = coordinator(&arguments.grid.coordinator).await?;
    let path = resolve(&mut client, &arguments.path).await?;
    let (stdout, stderr) = (!arguments.stderr, !arguments.stdout);
    let request = v1::LogsRequest {
        path: path.clone(),
        attempt: arguments.attempt.unwrap_or(0),
        stdout,
        stderr,
        tail: arguments.tail.unwrap_or(0),
        follow: arguments.follow,
        ..v1::LogsRequest::default()
    };
    if arguments.failed {
        return failed_logs(&mut client, request, output).await;
    }
    let mut sink = output.logs(&path);
    let mut next = Some(request.clone());
    while let Some(wanted) = next {
        // Without a timeout: an activity that has not begun sends no piece for a while.
        let mut pieces = client.logs(wanted).await.map_err(|status| refused(&status))?.into_inner();
        let mut attempt = 0;
        while let Some(piece) = pieces.message().await.map_err(|status| refused(&status))? {
            attempt = piece.attempt;
            sink.add(piece)?;
        }
        let follows_all = request.follow && request.attempt == 0;
        let has_next = follows_all && has_next_attempt(&mut client, &path, attempt).await;
        next = has_next.then(|| v1::LogsRequest { attempt: attempt + 1, ..request.clone() });
    }
    Ok(sink.finish(stdout, stderr))
}

/// Whether there is, or will be, an attempt of an activity after this one.
async fn has_next_attempt(client: &mut CoordinatorClient, path: &str, attempt: u32) -> bool {
    loop {
        let Ok(element) = fetch_tree(client, path, 0).await else { return false };
        match element.state() {
            _ if element.attempts > attempt => return true,
            // The end of the attempt may not be recorded yet.
            state if state.is_live() && state != v1::State::Held => tokio::time::sleep(NEXT_ATTEMPT_INTERVAL).await,
            _ => return false,
        }
    }
}
