//! Commands that talk to a grid.

use std::io::IsTerminal;
use std::time::Duration;

use serde_json::json;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use xavantes_proto::v1;
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;

use crate::Exit;
use crate::args::{Command, Format, GridArgs, ListArgs, ShowArgs, SubmitArgs};
use crate::report::{complain, print, tell};
use crate::{definition, show};

/// How often `--watch` looks.
const WATCH_EVERY: Duration = Duration::from_millis(500);

pub(crate) type Coordinator = ProcessCoordinatorClient<Channel>;

pub(crate) async fn command(command: Command, format: Format) -> Exit {
    let done = match command {
        Command::Submit(arguments) => submit(arguments, format).await,
        Command::List(it) => list(&it, format).await,
        Command::Tree(it) => element(&it, u32::MAX, format).await,
        Command::Show(it) => element(&it, 0, format).await,
        Command::Results(it) => results(&it.grid, it.process, format).await,
        Command::Wait(it) => wait(&it.grid, it.processes, format).await,
        Command::Cancel(it) => steer(&it.grid, it.path, v1::steer_request::Action::Cancel(v1::Nothing {})).await,
        Command::Pause(it) => steer(&it.grid, it.path, v1::steer_request::Action::Pause(v1::Nothing {})).await,
        Command::Resume(it) => steer(&it.grid, it.path, v1::steer_request::Action::Resume(v1::Nothing {})).await,
        Command::Retry(it) => steer(&it.grid, it.path, v1::steer_request::Action::Retry(v1::Nothing {})).await,
        Command::Set(it) => {
            let (key, value) = it.setting;
            steer(&it.grid, it.path, v1::steer_request::Action::Set(v1::Setting { key, value })).await
        }
        Command::Nodes(grid) => nodes(&grid, format).await,
        Command::Groups(grid) => groups(&grid, format).await,
        Command::Types(grid) => types(&grid, format).await,
        Command::Sources(grid) => sources(&grid, format).await,
        Command::Drain(it) => drain(&it.grid, it.node).await,
        // The others do not talk to a grid.
        _ => Ok(Exit::Usage),
    };
    done.unwrap_or_else(|exit| exit)
}

async fn channel(address: &str) -> Result<Channel, Exit> {
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .map_err(|_| complain(&format!("{address:?} is not an address: expected HOST:PORT")))?;
    endpoint.connect_timeout(Duration::from_secs(5)).tcp_nodelay(true).connect().await.map_err(|_| {
        complain(&format!(
            "there is no coordinator at {address}; start one with `xavantes node`, or say where it is with --coordinator"
        ));
        Exit::Unreachable
    })
}

pub(crate) async fn connect(address: &str) -> Result<Coordinator, Exit> {
    let most = xavantes_proto::MAX_MESSAGE;
    let client = ProcessCoordinatorClient::new(channel(address).await?);
    Ok(client.max_decoding_message_size(most).max_encoding_message_size(most))
}

/// Tells what the grid said, and which exit code that is.
pub(crate) fn refused(status: &Status) -> Exit {
    for line in status.message().lines() {
        complain(line);
    }
    match status.code() {
        Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded | Code::Unknown => Exit::Unreachable,
        Code::Unimplemented => {
            complain("this node does not have the role that the command needs");
            Exit::Unreachable
        }
        _ => Exit::Usage,
    }
}

async fn submit(arguments: SubmitArgs, format: Format) -> Result<Exit, Exit> {
    let mut client = connect(&arguments.grid.coordinator).await?;
    let request = definition::request(&arguments.what, Some(&mut client), format).await?;
    let process = client.submit(request).await.map_err(|status| refused(&status))?.into_inner().process;
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
    let mut changes = client.watch(request).await.map_err(|status| refused(&status))?.into_inner();
    let mut last = v1::ProcessStatus::default();
    while let Some(status) = changes.message().await.map_err(|status| refused(&status))? {
        last = status;
    }
    Ok(last)
}

pub(crate) fn exit_of(status: &v1::ProcessStatus) -> Exit {
    match status.state() {
        v1::ProcessState::Completed | v1::ProcessState::Running => Exit::Success,
        v1::ProcessState::Cancelled => Exit::Cancelled,
        _ => Exit::Failed,
    }
}

async fn finished(client: &mut Coordinator, process: String, format: Format) -> Result<Exit, Exit> {
    let answer = client.results(v1::ResultsRequest { process }).await.map_err(|status| refused(&status))?;
    let answer = answer.into_inner();
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
    let mut client = connect(&grid.coordinator).await?;
    let request = v1::ResultsRequest { process: process.clone() };
    let status = client.results(request).await.map_err(|status| refused(&status))?.into_inner().status;
    if status.is_some_and(|status| status.state() == v1::ProcessState::Running) {
        return Err(complain(&format!("{process} has not ended: `xavantes wait {process}` waits for it")));
    }
    finished(&mut client, process, format).await
}

async fn wait(grid: &GridArgs, processes: Vec<String>, format: Format) -> Result<Exit, Exit> {
    let mut client = connect(&grid.coordinator).await?;
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
    let mut client = connect(&arguments.grid.coordinator).await?;
    repeat(arguments.watch, async || {
        let processes = client.list(v1::ListRequest {}).await?.into_inner().processes;
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
    let mut client = connect(&arguments.grid.coordinator).await?;
    repeat(arguments.watch, async || {
        let request = v1::ShowRequest { path: arguments.path.clone(), depth };
        let element = client.show(request).await?.into_inner().element.unwrap_or_default();
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
    let mut client = connect(&grid.coordinator).await?;
    let request = v1::SteerRequest { path, action: Some(action) };
    client.steer(request).await.map_err(|status| refused(&status))?;
    Ok(Exit::Success)
}

async fn nodes(grid: &GridArgs, format: Format) -> Result<Exit, Exit> {
    let mut client = GroupManagerClient::new(channel(&grid.coordinator).await?);
    let answer = client.list_nodes(v1::ListNodesRequest {}).await.map_err(|status| refused(&status))?;
    let answer = answer.into_inner();
    Ok(match format {
        Format::Text => print(&show::nodes(&answer.nodes)),
        Format::Json => {
            let nodes: Vec<_> = answer.nodes.iter().map(show::node_json).collect();
            print(&json!({ "group": answer.group, "nodes": nodes }).to_string())
        }
    })
}

async fn groups(grid: &GridArgs, format: Format) -> Result<Exit, Exit> {
    let mut client = GroupManagerClient::new(channel(&grid.coordinator).await?);
    let answer = client.list_groups(v1::ListGroupsRequest {}).await.map_err(|status| refused(&status))?;
    let groups = answer.into_inner().groups;
    Ok(match format {
        Format::Text => print(&show::groups(&groups)),
        Format::Json => {
            print(&json!({ "groups": groups.iter().map(show::group_json).collect::<Vec<_>>() }).to_string())
        }
    })
}

async fn types(grid: &GridArgs, format: Format) -> Result<Exit, Exit> {
    let mut client = connect(&grid.coordinator).await?;
    let answer = client.list_types(v1::ListTypesRequest {}).await.map_err(|status| refused(&status))?;
    let types = answer.into_inner().types;
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
    let mut client = GroupManagerClient::new(channel(&grid.coordinator).await?);
    let answer = client.list_sources(v1::ListSourcesRequest {}).await.map_err(|status| refused(&status))?;
    let sources: std::collections::BTreeMap<String, String> = answer.into_inner().sources.into_iter().collect();
    Ok(match format {
        Format::Text => {
            let rows: Vec<Vec<String>> = sources.into_iter().map(|(name, uri)| vec![name, uri]).collect();
            print(&show::table(&["SOURCE", "PLACE"], &rows))
        }
        Format::Json => print(&json!({ "sources": sources }).to_string()),
    })
}

async fn drain(grid: &GridArgs, node: String) -> Result<Exit, Exit> {
    let mut client = GroupManagerClient::new(channel(&grid.coordinator).await?);
    client.drain(v1::DrainRequest { node }).await.map_err(|status| refused(&status))?;
    Ok(Exit::Success)
}
