//! Requests about a process that another coordinator of the same repository runs: they go on to that coordinator.

use std::error::Error as _;

use tokio_stream::{Stream, StreamExt};
use tonic::transport::Channel;
use tonic::{Code, Response, Status, Streaming};
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{MAX_MESSAGE_BYTES, call_with_timeout, connect};
use xavantes_repository::{Entry, OwnerLease};

use crate::coordinator::Coordinator;
use crate::process::owner::MAX_FORWARDS;
use crate::rpc::errors::repository_status;

/// What happens at the end of a lease.
const TAKEOVER: &str = "Another coordinator takes the process over then: ask again in some seconds";

/// A client of another coordinator.
pub(super) type Client = ProcessCoordinatorClient<Channel>;

/// The coordinator that runs a process.
pub(super) struct Owner<'a> {
    coordinator: &'a Coordinator,
    process: &'a str,
    node: &'a str,
    pub address: String,
}

impl<'a> Owner<'a> {
    /// The owner of a process, for a request that this many coordinators have passed on already.
    pub async fn of(coordinator: &'a Coordinator, entry: &'a Entry, forwards: u32) -> Result<Self, Status> {
        let Entry { process, owner, .. } = entry;
        if let Some(refusal) = too_many_forwards(process, forwards) {
            return Err(refusal);
        }
        let address = coordinator.address_of(owner).await.map_err(|error| repository_status(&error))?;
        let address = address.ok_or_else(|| {
            Status::failed_precondition(format!(
                "process {process:?} is run by coordinator {owner:?}, whose address is not in the repository: ask that \
                 coordinator itself, with --coordinator"
            ))
        })?;
        Ok(Self { coordinator, process, node: owner, address })
    }

    /// Asks the owner.
    pub async fn ask<T, F>(&self, call: impl FnOnce(Client) -> F) -> Result<T, Status>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let call = call(self.connect().await?);
        match call_with_timeout(call).await {
            Ok(answer) => Ok(answer),
            Err(status) => Err(self.explain(status).await),
        }
    }

    /// Asks the owner for something that may begin late.
    pub async fn follow<T, F>(&self, call: impl FnOnce(Client) -> F) -> Result<T, Status>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let call = call(self.connect().await?);
        match call.await {
            Ok(answer) => Ok(answer.into_inner()),
            Err(status) => Err(self.explain(status).await),
        }
    }

    async fn connect(&self) -> Result<Client, Status> {
        match connect(&self.address).await {
            Ok(channel) => Ok(ProcessCoordinatorClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES)),
            Err(_) => Err(self.unreachable().await),
        }
    }

    /// The rest of an answer of the owner. If the connection breaks, the user learns which one.
    pub fn pass_on<T: Send + 'static>(&self, answer: Streaming<T>) -> impl Stream<Item = Result<T, Status>> + use<T> {
        let broken = format!(
            "the connection to coordinator {:?} at {}, which runs process {:?}, broke; repeat the command",
            self.node, self.address, self.process
        );
        answer.map(move |item| {
            item.map_err(|status| match status.source().is_some() {
                true => Status::unavailable(broken.clone()),
                false => Status::new(status.code(), status.message()),
            })
        })
    }

    /// The error of a request to the owner, as the user gets it: that of the owner, unless the connection failed.
    pub async fn explain(&self, status: Status) -> Status {
        match status.source().is_some() || status.code() == Code::DeadlineExceeded {
            true => self.unreachable().await,
            false => Status::new(status.code(), status.message()),
        }
    }

    /// The owner does not answer: who it is, since when, and what happens next.
    async fn unreachable(&self) -> Status {
        let Self { process, node, address, .. } = self;
        let renewed =
            |lease: OwnerLease| format!("It renewed its lease in the repository {} s ago", lease.renewed.as_secs());
        let next = match self.coordinator.repository.lease(process).await {
            Ok(Some(lease)) if lease.expired => format!("{}, and the lease has ended. {TAKEOVER}", renewed(lease)),
            Ok(Some(lease)) => format!("{}. If it is gone, the lease ends soon. {TAKEOVER}", renewed(lease)),
            Ok(None) => format!("It has given up its lease in the repository. {TAKEOVER}"),
            Err(error) => format!("Its lease is not known, because the repository does not answer either: {error}"),
        };
        Status::unavailable(format!(
            "process {process:?} is run by coordinator {node:?} at {address}, which does not answer. {next}"
        ))
    }
}

/// Why a request is not passed on once more: too many coordinators have done so.
pub(super) fn too_many_forwards(path: &str, forwards: u32) -> Option<Status> {
    (forwards >= MAX_FORWARDS).then(|| {
        Status::aborted(format!(
            "{MAX_FORWARDS} coordinators passed the request about {path:?} on, and none of them runs it: it is changing \
             hands, or their addresses are wrong; ask again in some seconds"
        ))
    })
}
