//! Connections of commands to a grid, and the error messages and exit codes when there is none.

use tonic::transport::Channel;
use tonic::{Code, Response, Status};
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::v1::node_client::NodeClient;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{call_with_timeout, v1};

use crate::exit::Exit;
use crate::output::terminal;
use crate::report::grid::role_word;

pub(crate) type CoordinatorClient = ProcessCoordinatorClient<Channel>;

/// Connects to the process coordinator at an address.
pub(crate) async fn coordinator(address: &str) -> Result<CoordinatorClient, Exit> {
    let limit = xavantes_proto::MAX_MESSAGE_BYTES;
    let channel = channel_with_role(address, v1::Role::ProcessCoordinator).await?;
    let client = ProcessCoordinatorClient::new(channel);
    Ok(client.max_decoding_message_size(limit).max_encoding_message_size(limit))
}

/// Connects to the group manager at an address.
pub(crate) async fn manager(address: &str) -> Result<GroupManagerClient<Channel>, Exit> {
    Ok(GroupManagerClient::new(channel_with_role(address, v1::Role::GroupManager).await?))
}

/// Connects to the node at an address.
pub(crate) async fn channel(address: &str) -> Result<Channel, Exit> {
    if let Ok(channel) = xavantes_proto::connect(address).await {
        return Ok(channel);
    }
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    terminal::error(&match tokio::net::lookup_host(address).await {
        Err(_) => format!(
            "the host name {host:?} has no address on this machine; check its spelling and the name service, or say with \
             --coordinator at which IP address the node is"
        ),
        Ok(_) => format!(
            "no node answers at {address}; start one with `xavantes node`, or say where it is with --coordinator"
        ),
    });
    Err(Exit::Unreachable)
}

/// Connects to the node at an address, which must have this role. If it does not, the error names nodes that do.
async fn channel_with_role(address: &str, role: v1::Role) -> Result<Channel, Exit> {
    let channel = channel(address).await?;
    let introduced = call_with_timeout(NodeClient::new(channel.clone()).introduce(v1::IntroduceRequest {})).await;
    // A node that does not introduce itself refuses what it cannot do.
    let Ok(v1::IntroduceResponse { node: Some(node), group, managers }) = introduced else { return Ok(channel) };
    if node.roles.contains(&role.into()) {
        return Ok(channel);
    }
    let word = role_word(role.into()).unwrap_or_default();
    let has: Vec<&str> = node.roles.iter().filter_map(|role| role_word(*role)).collect();
    let others = match role {
        v1::Role::GroupManager => managers,
        _ => addresses_with_role(&managers, role).await,
    };
    let advice = match &*others {
        [] => format!("no node of group {group:?} is known to have it; start one with `xavantes node --roles {word}`"),
        _ => format!("in group {group:?} {} has it: say so with --coordinator", others.join(" or ")),
    };
    terminal::error(&format!(
        "the command needs a node with the role {word}; node {:?} at {address} has only {}; {advice}",
        node.name,
        has.join(" and ")
    ));
    Err(Exit::Unreachable)
}

/// Addresses of the nodes with a role, from the first manager that answers.
async fn addresses_with_role(managers: &[String], role: v1::Role) -> Vec<String> {
    for manager in managers {
        if let Ok(channel) = xavantes_proto::connect(manager).await
            && let Ok(list) =
                call_with_timeout(GroupManagerClient::new(channel).list_nodes(v1::ListNodesRequest::default())).await
        {
            let nodes = list.nodes.into_iter().filter(|status| !status.lost).filter_map(|status| status.node);
            return nodes.filter(|node| node.roles.contains(&role.into())).map(|node| node.address).collect();
        }
    }
    Vec::new()
}

/// The answer to a request. If there is none, the error message is printed.
pub(crate) async fn ask<T>(asked: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Exit> {
    call_with_timeout(asked).await.map_err(|status| refused(&status))
}

/// Whether the connection failed, and not the grid refused.
pub(crate) fn is_broken(status: &Status) -> bool {
    std::error::Error::source(status).is_some() && !matches!(status.code(), Code::DeadlineExceeded)
}

/// Prints why a request failed. Returns the exit code.
pub(crate) fn refused(status: &Status) -> Exit {
    if is_broken(status) {
        terminal::error("the connection to the grid broke; processes there continue");
        return Exit::Unreachable;
    }
    for line in xavantes_proto::status_text(status).lines() {
        terminal::error(line);
    }
    match status.code() {
        Code::Unavailable
        | Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Internal
        | Code::Unknown
        | Code::Unimplemented => Exit::Unreachable,
        _ => Exit::Usage,
    }
}
