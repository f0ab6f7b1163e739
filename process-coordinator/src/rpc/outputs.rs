//! `Outputs`: the results of a process's elements as they complete, here and in its parts at other coordinators.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{Assembler, MAX_RESULTS_BYTES, connect, v1};
use xavantes_repository::Entry;

use crate::coordinator::Coordinator;
use crate::process::handle::ProcessHandle;
use crate::rpc::errors::held_status;
use crate::rpc::find::{FoundProcess, find};
use crate::rpc::forward::Owner;
use crate::workers::handle::{DelegatedSubtree, PoolHandle};

/// The pool is asked for delegated parts at this interval, and a part that has not arrived yet is tried again.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Upper bound on the tries to follow a part that has not arrived at its coordinator yet.
const MAX_TRIES: usize = 40;

/// A message in parts, as the wire carries large ones.
pub(super) type PartStream = Pin<Box<dyn Stream<Item = Result<v1::Part, Status>> + Send>>;
type Subscriber = mpsc::Sender<Result<v1::Part, Status>>;

pub(super) async fn outputs(coordinator: &Arc<Coordinator>, request: v1::OutputsRequest) -> Result<PartStream, Status> {
    let v1::OutputsRequest { process, exact, forwards } = request;
    let (sender, receiver) = mpsc::channel(1);
    match find(coordinator, &process).await? {
        FoundProcess::Running(id, handle) if !exact || *handle.path == *process => {
            tokio::spawn(follow(coordinator.pool.clone(), id, handle, sender));
        }
        _ if exact => return Err(Status::not_found(format!("{process:?} does not run here"))),
        FoundProcess::Running(..) | FoundProcess::Ended(_) => {}
        FoundProcess::Held(id, held) => return Err(held_status(&id, &held)),
        FoundProcess::Elsewhere(entry) => {
            let request = v1::OutputsRequest { process, exact, forwards: forwards.saturating_add(1) };
            let owner = Owner::of(coordinator, &entry, forwards).await?;
            let parts = owner.ask(|mut client| async move { client.outputs(request).await }).await?;
            let address = owner.address;
            tokio::spawn(pass_on(coordinator.clone(), entry, address, parts, sender));
        }
    }
    Ok(Box::pin(ReceiverStream::new(receiver)))
}

/// Passes on the outputs of a process that another coordinator runs. That one fetches the files in them.
async fn pass_on(
    coordinator: Arc<Coordinator>,
    entry: Box<Entry>,
    address: String,
    mut parts: Streaming<v1::Part>,
    subscriber: Subscriber,
) {
    let mut whole = Assembler::<v1::Output>::new(MAX_RESULTS_BYTES);
    loop {
        let part = tokio::select! {
            part = parts.message() => part,
            () = subscriber.closed() => return,
        };
        let output = match part {
            Ok(Some(part)) => whole.add(part),
            Ok(None) => return,
            Err(status) => match Owner::of(&coordinator, &entry, 0).await {
                Ok(owner) => Err(owner.explain(status).await),
                Err(unknown) => Err(unknown),
            },
        };
        match output {
            Ok(None) => {}
            Ok(Some(mut output)) => {
                output.relays.push(address.clone());
                if !send(&subscriber, &output).await {
                    return;
                }
            }
            Err(status) => {
                let _ = subscriber.send(Err(status)).await;
                return;
            }
        }
    }
}

/// Sends all outputs until the process has ended, or the subscriber has gone.
async fn follow(pool: PoolHandle, id: Arc<str>, handle: ProcessHandle, subscriber: Subscriber) {
    let (mut news, mut status, outputs) = (handle.outputs.news(), handle.status, handle.outputs);
    // The channel closes when the process and all its parts have ended. The watch tells the parts that the process has.
    let (sender, mut remote_outputs) = mpsc::channel(1);
    let mut running = Some((sender, watch::Sender::new(())));
    let (mut number, mut followed, mut polls) = (0, HashSet::new(), tokio::time::interval(POLL_INTERVAL));
    let mut all_ended = false;
    loop {
        news.mark_unchanged();
        while let Some(output) = outputs.next(&mut number) {
            if !send(&subscriber, &output).await {
                return;
            }
        }
        if all_ended {
            return;
        }
        tokio::select! {
            changed = news.changed(), if running.is_some() => running = running.filter(|_| changed.is_ok()),
            () = ended(&mut status), if running.is_some() => running = None,
            _ = polls.tick(), if running.is_some() => {
                for subtree in pool.delegated_subtrees(id.clone()).await {
                    if let Some((sender, ends)) = running.as_ref().filter(|_| followed.insert(subtree.clone())) {
                        tokio::spawn(follow_subtree(subtree, sender.clone(), ends.subscribe()));
                    }
                }
            }
            output = remote_outputs.recv() => match output {
                Some(output) => {
                    if !send(&subscriber, &output).await {
                        return;
                    }
                }
                // The outputs from before the end are sent first.
                None => all_ended = true,
            },
            () = subscriber.closed() => return,
        }
    }
}

async fn ended(status: &mut watch::Receiver<v1::ProcessStatus>) {
    let _ = status.wait_for(|status| status.ended_ms > 0).await;
}

/// False if the subscriber has gone.
async fn send(subscriber: &Subscriber, output: &v1::Output) -> bool {
    for part in xavantes_proto::split(output) {
        if subscriber.send(Ok(part)).await.is_err() {
            return false;
        }
    }
    true
}

/// Passes on the outputs of a part at another coordinator. If that cannot be reached, the subscriber misses the outputs
/// inside the part, but not those of the part itself. `ends` changes or closes when the process has ended.
async fn follow_subtree(
    (path, address): DelegatedSubtree,
    subscriber: mpsc::Sender<v1::Output>,
    mut ends: watch::Receiver<()>,
) {
    let mut tries = 0;
    let mut parts = loop {
        if let Some(parts) = open_part(&path, &address).await {
            break parts;
        }
        tries += 1;
        if tries == MAX_TRIES {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            _ = ends.changed() => return,
        }
    };
    let mut whole = Assembler::<v1::Output>::new(MAX_RESULTS_BYTES);
    while let Ok(Some(part)) = parts.message().await {
        match whole.add(part) {
            Ok(Some(mut output)) => {
                output.relays.push(address.clone());
                if subscriber.send(output).await.is_err() {
                    return;
                }
            }
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

async fn open_part(path: &str, address: &str) -> Option<Streaming<v1::Part>> {
    let channel = connect(address).await.ok()?;
    let client = ProcessCoordinatorClient::new(channel);
    let mut client = client.max_decoding_message_size(xavantes_proto::MAX_MESSAGE_BYTES);
    let request = v1::OutputsRequest { process: path.to_owned(), exact: true, forwards: 0 };
    Some(client.outputs(request).await.ok()?.into_inner())
}
