//! What the elements of a process give as they complete, for one reader: here, and in the parts of it that run elsewhere.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tonic::Status;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{Assembler, MAX_RESULTS_BYTES, connect, v1};

use crate::process::runner::Handle;
use crate::workers::dispatcher::{PoolMail, PoolSender};

/// How often it is looked what runs elsewhere.
const LOOK: Duration = Duration::from_millis(250);
/// A part that is not there yet, where it goes, is looked for so often.
const MOST_LOOKS: usize = 40;

type Parts = mpsc::Sender<Result<v1::Part, Status>>;

/// Sends everything until the process has ended, or nobody reads any more.
pub(crate) async fn follow(pool: PoolSender, id: Arc<str>, handle: Handle, reader: Parts) {
    let (mut news, mut status, outputs) = (handle.outputs.news(), handle.status, handle.outputs);
    // It closes when the process has ended, and all parts of it.
    let (sender, mut elsewhere) = mpsc::channel(1);
    let mut sender = Some((sender, watch::Sender::new(())));
    let (mut number, mut places, mut looks) = (0, HashSet::new(), tokio::time::interval(LOOK));
    let mut over = false;
    loop {
        news.mark_unchanged();
        while let Some(output) = outputs.next(&mut number) {
            if !send(&reader, &output).await {
                return;
            }
        }
        if over {
            return;
        }
        tokio::select! {
            changed = news.changed(), if sender.is_some() => sender = sender.filter(|_| changed.is_ok()),
            () = ended(&mut status), if sender.is_some() => sender = None,
            _ = looks.tick(), if sender.is_some() => {
                let (answer, answered) = oneshot::channel();
                let _ = pool.send(PoolMail::Handed(id.clone(), answer));
                for place in answered.await.unwrap_or_default() {
                    if let Some((sender, ends)) = sender.as_ref().filter(|_| places.insert(place.clone())) {
                        tokio::spawn(follow_there(place, sender.clone(), ends.subscribe()));
                    }
                }
            }
            output = elsewhere.recv() => match output {
                Some(output) => {
                    if !send(&reader, &output).await {
                        return;
                    }
                }
                // What came before the end is still to be told.
                None => over = true,
            },
            () = reader.closed() => return,
        }
    }
}

async fn ended(status: &mut watch::Receiver<v1::ProcessStatus>) {
    let _ = status.wait_for(|status| status.ended_ms > 0).await;
}

async fn send(reader: &Parts, output: &v1::Output) -> bool {
    for part in xavantes_proto::split(output) {
        if reader.send(Ok(part)).await.is_err() {
            return false;
        }
    }
    true
}

/// Passes on what a part of the process gives that runs at another coordinator. If that is not reached, what is in it is
/// not told; what it gives in the end is. `ends` changes, or is no more, when the process has ended.
async fn follow_there(
    (path, address): (String, String),
    reader: mpsc::Sender<v1::Output>,
    mut ends: watch::Receiver<()>,
) {
    let request = v1::OutputsRequest { process: path, exact: true };
    let mut looks = 0;
    let mut parts = loop {
        if let Ok(channel) = connect(&address).await {
            let client = ProcessCoordinatorClient::new(channel);
            let mut client = client.max_decoding_message_size(xavantes_proto::MAX_MESSAGE_BYTES);
            if let Ok(parts) = client.outputs(request.clone()).await {
                break parts.into_inner();
            }
        }
        looks += 1;
        if looks == MOST_LOOKS {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            _ = ends.changed() => return,
        }
    };
    let mut whole = Assembler::<v1::Output>::new(MAX_RESULTS_BYTES);
    while let Ok(Some(part)) = parts.message().await {
        match whole.add(part) {
            Ok(Some(mut output)) => {
                output.relays.push(address.clone());
                if reader.send(output).await.is_err() {
                    return;
                }
            }
            Ok(None) => {}
            Err(_) => return,
        }
    }
}
