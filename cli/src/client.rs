//! Commands that talk to a grid.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use serde_json::json;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use xavantes_proto::{call_with_timeout, v1};

use crate::Exit;
use crate::args::{
    Command, ForgetArgs, Format, GridArgs, ListArgs, LogsArgs, PathArgs, ResultsArgs, ShowArgs, SourcesCommand,
    SubmitArgs,
};
use crate::grid::{self, Coordinator, ask, is_broken, refused};
use crate::report::{complain, print, print_bytes, tell, tell_bytes};
use crate::stream::{Folder, stream};
use crate::{definition, explain, files, show};

/// How often `--watch` looks.
const WATCH_EVERY: Duration = Duration::from_millis(500);
/// How often it is looked whether something has changed that nobody tells.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// When nothing is heard of a process for so long it is looked why, and how far down.
const LOOK_WHY: Duration = Duration::from_secs(5);
const LOOK_DEPTH: u32 = 6;
/// A coordinator that does not answer any more may be back within so long.
const COMES_BACK: Duration = Duration::from_secs(60);

pub(crate) async fn command(command: Command, format: Format, quiet: bool) -> Exit {
    let done = match command {
        Command::Submit(arguments) => submit(arguments, format, quiet).await,
        Command::List(it) => list(&it, format).await,
        Command::Tree(it) => element(&it, u32::MAX, format).await,
        Command::Show(it) => element(&it, 0, format).await,
        Command::Logs(it) => logs(it, format).await,
        Command::Results(it) => results(&it, format, quiet).await,
        Command::Wait(it) => wait(&it.grid, it.processes, format).await,
        Command::Forget(it) => forget(it).await,
        Command::Explain(it) => explain(&it, format).await,
        Command::Cancel(it) => steer(&it.grid, it.path, v1::steer_request::Action::Cancel(v1::Nothing {})).await,
        Command::Pause(it) => steer(&it.grid, it.path, v1::steer_request::Action::Pause(v1::Nothing {})).await,
        Command::Resume(it) => steer(&it.grid, it.path, v1::steer_request::Action::Resume(v1::Nothing {})).await,
        Command::Retry(it) => {
            let retry = v1::Retry { elsewhere: it.elsewhere };
            steer(&it.grid, it.path, v1::steer_request::Action::Retry(retry)).await
        }
        Command::Set(it) => {
            let (key, value) = it.setting;
            steer(&it.grid, it.path, v1::steer_request::Action::Set(v1::Setting { key, value })).await
        }
        Command::Nodes(grid) => nodes(&grid, format).await,
        Command::Groups(grid) => groups(&grid, format).await,
        Command::Types(grid) => types(&grid, format).await,
        Command::Sources(it) => match it.command {
            None => sources(&it.grid, format).await,
            Some(SourcesCommand::Add(it)) => add_source(&it.grid, it.name, it.uri).await,
            Some(SourcesCommand::Remove(it)) => remove_source(&it.grid, it.name).await,
        },
        Command::Drain(it) => drain(&it.grid, it.node).await,
        Command::Health(grid) => health(&grid, format).await,
        // The others do not talk to a grid.
        _ => Ok(Exit::Usage),
    };
    done.unwrap_or_else(|exit| exit)
}

async fn submit(arguments: SubmitArgs, format: Format, quiet: bool) -> Result<Exit, Exit> {
    let mut client = grid::coordinator(&arguments.grid.coordinator).await?;
    let mut request = definition::request(&arguments.what, Some(&mut client), format).await?;
    files::upload(&mut request, &arguments.grid.coordinator, quiet).await?;
    let process = ask(client.submit(request)).await?.process;
    if !arguments.wait {
        return Ok(match format {
            Format::Text => print(&process),
            Format::Json => print(&json!({ "process": process }).to_string()),
        });
    }
    tell(&format!("{process}\n"));
    let folder = Folder::of(arguments.download.as_deref(), &arguments.grid.coordinator, quiet);
    let streamed = match arguments.stream {
        true => stream(&mut client, &process, folder, format).await?,
        false => Exit::Success,
    };
    end_of(&mut client, &process).await?;
    let exit = finished(&mut client, process, folder, format).await?;
    Ok(if exit == Exit::Success { streamed } else { exit })
}

/// Waits for the end of a process, also if its coordinator is started again meanwhile.
async fn end_of(client: &mut Coordinator, process: &str) -> Result<v1::ProcessStatus, Exit> {
    let mut last = v1::ProcessStatus::default();
    let (mut heard, mut waits) = (None::<Instant>, None);
    loop {
        let mut asking = client.clone();
        let watched = async {
            let mut changes = call_with_timeout(client.watch(v1::WatchRequest { process: process.to_owned() })).await?;
            loop {
                tokio::select! {
                    status = changes.message() => match status? {
                        Some(status) => (last, heard) = (status, Some(Instant::now())),
                        None => return Ok(()),
                    },
                    () = tokio::time::sleep(LOOK_WHY) => tell_why(&mut asking, process, &mut waits).await,
                }
            }
        };
        match watched.await {
            Ok(()) => return Ok(last),
            Err(status) if is_broken(&status) && heard.is_some_and(|heard| heard.elapsed() < COMES_BACK) => {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Err(status) => return Err(refused(&status)),
        }
    }
}

/// Tells once why a process does not go on, if it waits for a worker that is not there.
async fn tell_why(client: &mut Coordinator, process: &str, told: &mut Option<v1::WaitReason>) {
    let shown = call_with_timeout(client.show(v1::ShowRequest { path: process.to_owned(), depth: LOOK_DEPTH })).await;
    let Some(root) = shown.ok().and_then(|shown| shown.element) else { return };
    let mut open = vec![&root];
    while let Some(element) = open.pop() {
        if let Some(reason) = element.wait_reason.as_ref().filter(|reason| reason.needs_other_workers())
            && told.as_ref() != Some(reason)
        {
            *told = Some(reason.clone());
            tell(&format!("{} waits: {reason}\n", element.path));
        }
        open.extend(&element.children);
    }
}

/// How a process ended.
pub(crate) async fn results_of(client: &mut Coordinator, process: String) -> Result<v1::ResultsResponse, Exit> {
    let refused = |status| refused(&status);
    let mut parts = ask(client.results(v1::ResultsRequest { process })).await?;
    let mut whole = xavantes_proto::Assembler::new(xavantes_proto::MAX_RESULTS_BYTES);
    while let Some(part) = parts.message().await.map_err(refused)? {
        if let Some(answer) = whole.add(part).map_err(|unfit| refused(unfit.into()))? {
            return Ok(answer);
        }
    }
    complain("the results broke off");
    Err(Exit::Unreachable)
}

pub(crate) fn exit_of(status: &v1::ProcessStatus) -> Exit {
    match status.state() {
        v1::ProcessState::Completed | v1::ProcessState::Running => Exit::Success,
        v1::ProcessState::Cancelled => Exit::Cancelled,
        _ => Exit::Failed,
    }
}

/// Tells how a process ended. Files among its results are fetched into a folder, if there is one, with the coordinator's
/// help.
async fn finished(
    client: &mut Coordinator,
    process: String,
    folder: Option<Folder<'_>>,
    format: Format,
) -> Result<Exit, Exit> {
    let mut answer = results_of(client, process).await?;
    if let Some(Folder { path, coordinator, quiet }) = folder {
        files::download(&mut answer.results, path, &[coordinator], quiet).await?;
    }
    let status = answer.status.unwrap_or_default();
    if let Some(why) = &status.failure {
        complain(&show::failure(why));
    }
    let printed = match format {
        Format::Text => print(&show::results_text(&answer.results)),
        Format::Json => {
            let mut document = show::status_json(&status);
            document["results"] = json!(show::results(&answer.results));
            print(&document.to_string())
        }
    };
    Ok(if printed == Exit::Success { exit_of(&status) } else { printed })
}

async fn results(arguments: &ResultsArgs, format: Format, quiet: bool) -> Result<Exit, Exit> {
    let (coordinator, process) = (arguments.grid.coordinator.as_str(), arguments.process.clone());
    let mut client = grid::coordinator(coordinator).await?;
    let folder = Folder::of(arguments.download.as_deref(), coordinator, quiet);
    let streamed = match arguments.stream {
        true => stream(&mut client, &process, folder, format).await?,
        false => Exit::Success,
    };
    let status = results_of(&mut client, process.clone()).await?.status;
    if status.is_some_and(|status| status.state() == v1::ProcessState::Running) {
        return Err(complain(&format!("{process} has not ended: `xavantes wait {process}` waits for it")));
    }
    let exit = finished(&mut client, process, folder, format).await?;
    Ok(if exit == Exit::Success { streamed } else { exit })
}

async fn wait(grid: &GridArgs, processes: Vec<String>, format: Format) -> Result<Exit, Exit> {
    let mut client = grid::coordinator(&grid.coordinator).await?;
    let (mut exit, mut ended) = (Exit::Success, Vec::new());
    for process in processes {
        let status = end_of(&mut client, &process).await?;
        if let Some(why) = &status.failure {
            complain(&show::failure(why));
        }
        if exit == Exit::Success {
            exit = exit_of(&status);
        }
        ended.push(status);
    }
    if format == Format::Json {
        print(&json!({ "processes": ended.iter().map(show::status_json).collect::<Vec<_>>() }).to_string());
    }
    Ok(exit)
}

async fn list(arguments: &ListArgs, format: Format) -> Result<Exit, Exit> {
    let mut client = grid::coordinator(&arguments.grid.coordinator).await?;
    repeat(arguments.watch, async || {
        let processes = call_with_timeout(client.list(v1::ListRequest {})).await?.processes;
        let shown = match format {
            Format::Text => show::list(&processes),
            Format::Json => {
                json!({ "processes": processes.iter().map(show::status_json).collect::<Vec<_>>() }).to_string()
            }
        };
        Ok((shown, false))
    })
    .await
}

async fn element(arguments: &ShowArgs, depth: u32, format: Format) -> Result<Exit, Exit> {
    let mut client = grid::coordinator(&arguments.grid.coordinator).await?;
    repeat(arguments.watch, async || {
        let request = v1::ShowRequest { path: arguments.path.clone(), depth };
        let element = call_with_timeout(client.show(request)).await?.element.unwrap_or_default();
        let shown = match (format, depth) {
            (Format::Json, _) => show::element_json(&element).to_string(),
            (Format::Text, 0) => show::element_text(&element),
            (Format::Text, _) => show::tree(&element),
        };
        Ok((shown, element.runs > 0))
    })
    .await
}

/// Prints what is to be seen; with `watch` again whenever it changed, until it is over, or not there any more. On a
/// terminal each picture takes the place of the one before.
async fn repeat(watch: bool, mut look: impl AsyncFnMut() -> Result<(String, bool), Status>) -> Result<Exit, Exit> {
    let (mut last, mut over) = look().await.map_err(|status| refused(&status))?;
    let clear = if watch && std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    let mut exit = print(&format!("{clear}{last}"));
    while watch && !over && exit == Exit::Success {
        tokio::time::sleep(WATCH_EVERY).await;
        match look().await {
            Ok((now, ended)) => {
                if now != last {
                    exit = print(&format!("{clear}{now}"));
                }
                (last, over) = (now, ended);
            }
            Err(status) if status.code() == Code::Unavailable => return Err(refused(&status)),
            Err(_) => break,
        }
    }
    Ok(exit)
}

/// What an activity writes, each to where it wrote it.
async fn logs(arguments: LogsArgs, format: Format) -> Result<Exit, Exit> {
    let mut client = grid::coordinator(&arguments.grid.coordinator).await?;
    let request = v1::LogsRequest {
        path: arguments.path.clone(),
        attempt: arguments.attempt.unwrap_or(0),
        stdout: !arguments.stderr,
        stderr: !arguments.stdout,
        tail: arguments.tail.unwrap_or(0),
        follow: arguments.follow,
        ..v1::LogsRequest::default()
    };
    let (mut first, mut written) = (None, [Vec::new(), Vec::new()]);
    let mut next = Some(request.clone());
    while let Some(wanted) = next {
        // It may not have begun: then there is no first piece for a while.
        let mut pieces = client.logs(wanted).await.map_err(|status| refused(&status))?.into_inner();
        let mut attempt = 0;
        while let Some(piece) = pieces.message().await.map_err(|status| refused(&status))? {
            let mut text = match piece.left_out {
                0 => Vec::new(),
                bytes => format!("\n[{bytes} bytes are left out]\n").into_bytes(),
            };
            text.extend_from_slice(&piece.data);
            match format {
                Format::Json => written[usize::from(piece.stderr)].append(&mut text),
                Format::Text if piece.stderr => tell_bytes(&text),
                Format::Text => print_bytes(&text)?,
            }
            attempt = piece.attempt;
            first.get_or_insert(piece);
        }
        let again =
            request.follow && request.attempt == 0 && is_tried_again(&mut client, &arguments.path, attempt).await;
        next = again.then(|| v1::LogsRequest { attempt: attempt + 1, ..request.clone() });
    }
    if format == Format::Text {
        return Ok(Exit::Success);
    }
    let first = first.unwrap_or_default();
    let [stdout, stderr] = written.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let mut document = json!({ "path": arguments.path, "attempt": first.attempt, "node": first.node });
    for (name, text, wanted) in [("stdout", stdout, !arguments.stderr), ("stderr", stderr, !arguments.stdout)] {
        if wanted {
            document[name] = json!(text);
        }
    }
    Ok(print(&document.to_string()))
}

/// Whether there is, or will be, another attempt of an activity after this one.
async fn is_tried_again(client: &mut Coordinator, path: &str, attempt: u32) -> bool {
    loop {
        let shown = call_with_timeout(client.show(v1::ShowRequest { path: path.to_owned(), depth: 0 })).await;
        let Some(element) = shown.ok().and_then(|shown| shown.element) else { return false };
        match element.condition() {
            _ if element.attempts > attempt => return true,
            // What has ended may not be recorded yet.
            condition if condition.is_alive() => tokio::time::sleep(LOOK_AGAIN).await,
            _ => return false,
        }
    }
}

async fn steer(grid: &GridArgs, path: String, action: v1::steer_request::Action) -> Result<Exit, Exit> {
    let mut client = grid::coordinator(&grid.coordinator).await?;
    let request = v1::SteerRequest { path, action: Some(action) };
    ask(client.steer(request)).await?;
    Ok(Exit::Success)
}

async fn forget(arguments: ForgetArgs) -> Result<Exit, Exit> {
    let mut client = grid::coordinator(&arguments.grid.coordinator).await?;
    let (processes, reusable) = (arguments.processes, arguments.reusable);
    ask(client.forget(v1::ForgetRequest { processes, reusable })).await?;
    Ok(Exit::Success)
}

/// Why an activity was run, or not; of other elements, and of those that are alive, how they are.
async fn explain(arguments: &PathArgs, format: Format) -> Result<Exit, Exit> {
    let mut client = grid::coordinator(&arguments.grid.coordinator).await?;
    let path = arguments.path.clone();
    let shown = call_with_timeout(client.show(v1::ShowRequest { path: path.clone(), depth: 0 })).await;
    let element = shown.ok().and_then(|shown| shown.element);
    let explained = match call_with_timeout(client.explain(v1::ExplainRequest { path, hops: 0 })).await {
        Ok(explained) => Some(explained),
        Err(status) if element.is_none() || status.code() != Code::InvalidArgument => return Err(refused(&status)),
        Err(_) => None,
    };
    Ok(match format {
        Format::Text => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
            let element = element.as_ref().map_or_else(String::new, show::element_text);
            let explained = explained.map_or_else(String::new, |it| explain::text(&it, now));
            print(&format!("{element}{explained}"))
        }
        Format::Json => {
            let mut document = json!({ "path": arguments.path });
            if let Some(explained) = explained {
                document["type"] = json!(explained.r#type);
                document["reuse"] = explain::json(&explained);
            }
            if let Some(element) = element {
                document["element"] = show::element_json(&element);
            }
            print(&document.to_string())
        }
    })
}

/// Tells how a node is; nothing but a node that serves is well.
async fn health(grid: &GridArgs, format: Format) -> Result<Exit, Exit> {
    let mut client = HealthClient::new(grid::channel(&grid.coordinator).await?);
    let serving = ask(client.check(HealthCheckRequest::default())).await?.status() == ServingStatus::Serving;
    let state = if serving { "serving" } else { "not serving" };
    let printed = match format {
        Format::Text => print(state),
        Format::Json => print(&json!({ "node": grid.coordinator, "state": state }).to_string()),
    };
    Ok(if serving { printed } else { Exit::Unreachable })
}

async fn nodes(grid: &GridArgs, format: Format) -> Result<Exit, Exit> {
    let mut client = grid::manager(&grid.coordinator).await?;
    let answer = ask(client.list_nodes(v1::ListNodesRequest {})).await?;
    Ok(match format {
        Format::Text => print(&show::nodes(&answer.nodes)),
        Format::Json => {
            let nodes: Vec<_> = answer.nodes.iter().map(show::node_json).collect();
            print(&json!({ "group": answer.group, "nodes": nodes }).to_string())
        }
    })
}

async fn groups(grid: &GridArgs, format: Format) -> Result<Exit, Exit> {
    let mut client = grid::manager(&grid.coordinator).await?;
    let groups = ask(client.list_groups(v1::ListGroupsRequest {})).await?.groups;
    Ok(match format {
        Format::Text => print(&show::groups(&groups)),
        Format::Json => {
            print(&json!({ "groups": groups.iter().map(show::group_json).collect::<Vec<_>>() }).to_string())
        }
    })
}

async fn types(grid: &GridArgs, format: Format) -> Result<Exit, Exit> {
    let mut client = grid::coordinator(&grid.coordinator).await?;
    let types = ask(client.list_types(v1::ListTypesRequest {})).await?.types;
    Ok(match format {
        Format::Text => print(&show::types(&types)),
        Format::Json => {
            let types: Vec<_> = types
                .iter()
                .map(|it| json!({ "name": it.name, "kind": it.kind().word(), "digest": it.digest, "document": it.document }))
                .collect();
            print(&json!({ "types": types }).to_string())
        }
    })
}

async fn sources(grid: &GridArgs, format: Format) -> Result<Exit, Exit> {
    let mut client = grid::manager(&grid.coordinator).await?;
    let answer = ask(client.list_sources(v1::ListSourcesRequest {})).await?;
    let sources: std::collections::BTreeMap<String, String> = answer.sources.into_iter().collect();
    Ok(match format {
        Format::Text => {
            let rows: Vec<Vec<String>> = sources.into_iter().map(|(name, uri)| vec![name, uri]).collect();
            print(&show::table(&["SOURCE", "PLACE"], &rows))
        }
        Format::Json => print(&json!({ "sources": sources }).to_string()),
    })
}

async fn add_source(grid: &GridArgs, name: String, uri: String) -> Result<Exit, Exit> {
    let mut client = grid::manager(&grid.coordinator).await?;
    ask(client.add_source(v1::AddSourceRequest { name, uri })).await?;
    Ok(Exit::Success)
}

async fn remove_source(grid: &GridArgs, name: String) -> Result<Exit, Exit> {
    let mut client = grid::manager(&grid.coordinator).await?;
    ask(client.remove_source(v1::RemoveSourceRequest { name })).await?;
    Ok(Exit::Success)
}

async fn drain(grid: &GridArgs, node: String) -> Result<Exit, Exit> {
    let mut client = grid::manager(&grid.coordinator).await?;
    ask(client.drain(v1::DrainRequest { node })).await?;
    Ok(Exit::Success)
}
