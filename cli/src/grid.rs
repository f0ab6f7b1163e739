//! How commands reach a grid, and what is told when they do not.

use tonic::transport::Channel;
use tonic::{Code, Response, Status};
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;

use crate::Exit;
use crate::report::complain;

pub(crate) type Coordinator = ProcessCoordinatorClient<Channel>;

pub(crate) async fn coordinator(address: &str) -> Result<Coordinator, Exit> {
    let most = xavantes_proto::MAX_MESSAGE_BYTES;
    let client = ProcessCoordinatorClient::new(channel(address).await?);
    Ok(client.max_decoding_message_size(most).max_encoding_message_size(most))
}

pub(crate) async fn manager(address: &str) -> Result<GroupManagerClient<Channel>, Exit> {
    Ok(GroupManagerClient::new(channel(address).await?))
}

pub(crate) async fn channel(address: &str) -> Result<Channel, Exit> {
    xavantes_proto::connect(address).await.map_err(|_| {
        complain(&format!(
            "no node answers at {address}; start one with `xavantes node`, or say where it is with --coordinator"
        ));
        Exit::Unreachable
    })
}

/// The answer to a question; if there is none, that has been told.
pub(crate) async fn ask<T>(asked: impl Future<Output = Result<Response<T>, Status>>) -> Result<T, Exit> {
    xavantes_proto::call_with_timeout(asked).await.map_err(|status| refused(&status))
}

/// Whether it is not the grid that says so, but the line to it.
pub(crate) fn is_broken(status: &Status) -> bool {
    std::error::Error::source(status).is_some() && !matches!(status.code(), Code::DeadlineExceeded)
}

/// Tells what the grid said, and which exit code that is.
pub(crate) fn refused(status: &Status) -> Exit {
    if is_broken(status) {
        complain("the connection to the grid broke; what runs there goes on");
        return Exit::Unreachable;
    }
    for line in status.message().lines() {
        complain(line);
    }
    match status.code() {
        Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded | Code::Internal | Code::Unknown => {
            Exit::Unreachable
        }
        Code::Unimplemented => {
            complain("this node does not have the role that the command needs, or runs another version of xavantes");
            Exit::Unreachable
        }
        _ => Exit::Usage,
    }
}
