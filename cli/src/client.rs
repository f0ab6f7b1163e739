//! Commands that talk to a grid.

use std::io::IsTerminal;
use std::time::Duration;

use serde_json::json;
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use xavantes_proto::{question, v1};

use crate::Exit;
use crate::args::{Command, Format, GridArgs, ListArgs, ShowArgs, SourcesCommand, SubmitArgs};
use crate::grid::{self, Coordinator, ask, refused};
use crate::report::{complain, print, tell};
use crate::{definition, show};

/// How often `--watch` looks.
const WATCH_EVERY: Duration = Duration::from_millis(500);

pub(crate) async fn command(command: Command, format: Format) -> Exit {
    let done = match command {
        Command::Submit(arguments) => submit(arguments, format).await,
        Command::List(it) => list(&it, format).await,
        Command::Tree(it) => element(&it, u32::MAX, format).await,
        Command::Show(it) => element(&it, 0, format).await,
        Command::Results(it) => results(&it.grid, it.process, format).await,
        Command::Wait(it) => wait(&it.grid, it.processes, format).await,
        Command::Forget(it) => forget(&it.grid, it.processes).await,
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

async fn submit(arguments: SubmitArgs, format: Format) -> Result<Exit, Exit> {
    let mut client = grid::coordinator(&arguments.grid.coordinator).await?;
    let request = definition::request(&arguments.what, Some(&mut client), format).await?;
    let process = ask(client.submit(request)).await?.process;
    if !arguments.wait {
        return Ok(match format {
            Format::Text => print(&process),
            Format::Json => print(&json!({ "process": process }).to_string()),
        });
    }
    tell(&format!("{process}\n"));
    end_of(&mut client, &process).await?;
    finished(&mut client, process, format).await
}

/// Waits for the end of a process.
async fn end_of(client: &mut Coordinator, process: &str) -> Result<v1::ProcessStatus, Exit> {
    let request = v1::WatchRequest { process: process.to_owned() };
    let mut changes = ask(client.watch(request)).await?;
    let mut last = v1::ProcessStatus::default();
    while let Some(status) = changes.message().await.map_err(|status| refused(&status))? {
        last = status;
    }
    Ok(last)
}

/// How a process ended.
pub(crate) async fn results_of(client: &mut Coordinator, process: String) -> Result<v1::ResultsResponse, Exit> {
    let refused = |status| refused(&status);
    let mut parts = ask(client.results(v1::ResultsRequest { process })).await?;
    let mut whole = xavantes_proto::Assembler::new(xavantes_proto::MAX_WHOLE);
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

async fn finished(client: &mut Coordinator, process: String, format: Format) -> Result<Exit, Exit> {
    let answer = results_of(client, process).await?;
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

async fn results(grid: &GridArgs, process: String, format: Format) -> Result<Exit, Exit> {
    let mut client = grid::coordinator(&grid.coordinator).await?;
    let status = results_of(&mut client, process.clone()).await?.status;
    if status.is_some_and(|status| status.state() == v1::ProcessState::Running) {
        return Err(complain(&format!("{process} has not ended: `xavantes wait {process}` waits for it")));
    }
    finished(&mut client, process, format).await
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
        let processes = question(client.list(v1::ListRequest {})).await?.processes;
        Ok(match format {
            Format::Text => show::list(&processes),
            Format::Json => {
                json!({ "processes": processes.iter().map(show::status_json).collect::<Vec<_>>() }).to_string()
            }
        })
    })
    .await
}

async fn element(arguments: &ShowArgs, depth: u32, format: Format) -> Result<Exit, Exit> {
    let mut client = grid::coordinator(&arguments.grid.coordinator).await?;
    repeat(arguments.watch, async || {
        let request = v1::ShowRequest { path: arguments.path.clone(), depth };
        let element = question(client.show(request)).await?.element.unwrap_or_default();
        Ok(match (format, depth) {
            (Format::Json, _) => show::element_json(&element).to_string(),
            (Format::Text, 0) => show::element_text(&element),
            (Format::Text, _) => show::tree(&element),
        })
    })
    .await
}

/// Prints what is to be seen; with `watch` again whenever it changed, until it is not there any more. On a terminal each
/// picture takes the place of the one before.
async fn repeat(watch: bool, mut look: impl AsyncFnMut() -> Result<String, Status>) -> Result<Exit, Exit> {
    let mut last = look().await.map_err(|status| refused(&status))?;
    let clear = if watch && std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "" };
    let mut exit = print(&format!("{clear}{last}"));
    while watch && exit == Exit::Success {
        tokio::time::sleep(WATCH_EVERY).await;
        match look().await {
            Ok(now) if now != last => {
                exit = print(&format!("{clear}{now}"));
                last = now;
            }
            Ok(_) => {}
            Err(status) if status.code() == Code::Unavailable => return Err(refused(&status)),
            Err(_) => break,
        }
    }
    Ok(exit)
}

async fn steer(grid: &GridArgs, path: String, action: v1::steer_request::Action) -> Result<Exit, Exit> {
    let mut client = grid::coordinator(&grid.coordinator).await?;
    let request = v1::SteerRequest { path, action: Some(action) };
    ask(client.steer(request)).await?;
    Ok(Exit::Success)
}

async fn forget(grid: &GridArgs, processes: Vec<String>) -> Result<Exit, Exit> {
    let mut client = grid::coordinator(&grid.coordinator).await?;
    ask(client.forget(v1::ForgetRequest { processes })).await?;
    Ok(Exit::Success)
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
                .map(|it| json!({ "name": it.name, "kind": it.kind, "digest": it.digest, "document": it.document }))
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
