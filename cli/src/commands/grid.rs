//! `xavantes nodes`, `groups`, `drain` and `health`: the machines of the grid.

use clap::Args;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use xavantes_proto::{call_with_timeout, v1};

use super::watch::{LiveSnapshot, print_or_watch};
use crate::args::{GridArgs, WatchedGridArgs};
use crate::exit::Exit;
use crate::grid_connection::{ask, channel, manager};
use crate::output::printer::Output;
use crate::report::grid::{Group, GroupList, Health, NodeList, NodeReport};
use crate::report::silent_action::Drained;

#[derive(Args)]
pub(crate) struct DrainArgs {
    /// Name of a node
    pub node: String,
    #[command(flatten)]
    pub grid: GridArgs,
}

pub(crate) async fn nodes(arguments: &WatchedGridArgs, output: Output) -> Result<Exit, Exit> {
    let mut client = manager(&arguments.grid.coordinator).await?;
    print_or_watch(arguments.watch, output, async || {
        let (mut nodes, mut page) = (Vec::new(), String::new());
        loop {
            let answer = call_with_timeout(client.list_nodes(v1::ListNodesRequest { page })).await?;
            nodes.extend(answer.nodes.iter().map(NodeReport::from));
            page = answer.next_page;
            if page.is_empty() {
                return Ok(LiveSnapshot { report: NodeList { group: answer.group, nodes }, is_final: false });
            }
        }
    })
    .await
}

pub(crate) async fn groups(arguments: &WatchedGridArgs, output: Output) -> Result<Exit, Exit> {
    let mut client = manager(&arguments.grid.coordinator).await?;
    print_or_watch(arguments.watch, output, async || {
        let (mut groups, mut page) = (Vec::new(), String::new());
        loop {
            let answer = call_with_timeout(client.list_groups(v1::ListGroupsRequest { page })).await?;
            groups.extend(answer.groups.iter().map(Group::from));
            page = answer.next_page;
            if page.is_empty() {
                return Ok(LiveSnapshot { report: GroupList { groups }, is_final: false });
            }
        }
    })
    .await
}

pub(crate) async fn drain(arguments: DrainArgs, output: Output) -> Result<Exit, Exit> {
    let mut client = manager(&arguments.grid.coordinator).await?;
    let node = arguments.node;
    ask(client.drain(v1::DrainRequest { node: node.clone() })).await?;
    Ok(output.report(&Drained { node, draining: true }))
}

pub(crate) async fn health(grid: &GridArgs, output: Output) -> Result<Exit, Exit> {
    let mut client = HealthClient::new(channel(&grid.coordinator).await?);
    let status = ask(client.check(HealthCheckRequest::default())).await?.status();
    let (state, exit) = match status {
        ServingStatus::Serving => ("serving", Exit::Success),
        _ => ("not serving", Exit::Unreachable),
    };
    Ok(exit.or(output.report(&Health { address: grid.coordinator.clone(), state })))
}
