//! Connections of commands to a grid, and the error messages and exit codes when there is none.

use tonic::transport::Channel;
use tonic::{Code, Response, Status};
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;

use crate::exit::Exit;
use crate::output::terminal;

pub(crate) type CoordinatorClient = ProcessCoordinatorClient<Channel>;

/// Connects to the process coordinator at an address.
pub(crate) async fn coordinator(address: &str) -> Result<CoordinatorClient, Exit> {
    let limit = xavantes_proto::MAX_MESSAGE_BYTES;
    let client = ProcessCoordinatorClient::new(channel(address).await?);
    Ok(client.max_decoding_message_size(limit).max_encoding_message_size(limit))
}

/// Connects to the group manager at an address.
pub(crate) async fn manager(address: &str) -> Result<GroupManagerClient<Channel>, Exit> {
    Ok(GroupManagerClient::new(channel(address).await?))
}

/// Connects to the node at an address.
pub(crate) async fn channel(address: &str) -> Result<Channel, Exit> {
    xavantes_proto::connect(address).await.map_err(|_| {
        terminal::error(&format!(
            "no node answers at {address}; start one with `xavantes node`, or say where it is with --coordinator"
        ));
        Exit::Unreachable
    })
}

/// The answer to a request. If there is none, the error message is printed.
pub(crate) async fn ask<T>(asked: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Exit> {
    xavantes_proto::call_with_timeout(asked).await.map_err(|status| refused(&status))
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
    for line in status.message().lines() {
        terminal::error(line);
    }
    match status.code() {
        Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded | Code::Internal | Code::Unknown => {
            Exit::Unreachable
        }
        Code::Unimplemented => {
            terminal::error(
                "this node does not have the role that the command needs, or runs another version of xavantes",
            );
            Exit::Unreachable
        }
        _ => Exit::Usage,
    }
}
