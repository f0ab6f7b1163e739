//! Downloads objects from the nodes that have them. Concurrent requests for an object share one transfer. An interrupted
//! transfer resumes where it stopped. If a holder fails, the fetcher asks the next one, and relays if it can reach no holder.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use tokio::sync::{OnceCell, Semaphore};
use tonic::{Code, Status, Streaming};
use tracing::debug;
use xavantes_model::digest::Digest;
use xavantes_proto::v1::files_client::FilesClient;
use xavantes_proto::{MAX_MESSAGE_BYTES, v1};

use crate::chunk_writer::ChunkWriter;
use crate::error::Error;
use crate::error_status;
use crate::manifest::Manifest;
use crate::peers::Peers;
use crate::store::receive::Reception;
use crate::store::store_state::FileStore;
use crate::store::stored_objects::Hold;

/// Upper bound on concurrent transfers: enough to use the bandwidth, few enough that each makes progress.
const MAX_TRANSFERS: usize = 8;
/// Attempts at one node without receiving a byte, before the fetcher gives the node up.
const MAX_TRIES: usize = 3;
/// Delay before the fetcher asks such a node again.
const RETRY_DELAY: Duration = Duration::from_millis(200);
/// A transfer that receives nothing for this long is interrupted.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);

/// An object to fetch, and the nodes to ask for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRequest {
    /// The object.
    pub digest: Digest,
    /// Addresses of nodes that may have the object, in the order in which they are asked.
    pub holders: Vec<Arc<str>>,
    /// Addresses of nodes that fetch the object from holders that this node cannot reach. Each may ask those after it.
    pub relays: Vec<Arc<str>>,
}

/// The result of a transfer that several requests wait for.
type SharedTransfer = Arc<OnceCell<Result<(), Error>>>;

/// Downloads objects into a store; cheap to clone.
#[derive(Debug, Clone)]
pub struct Fetcher(Arc<FetcherInner>);

#[derive(Debug)]
struct FetcherInner {
    store: FileStore,
    /// The address of this node. The fetcher does not ask it.
    address: Arc<str>,
    permits: Semaphore,
    transfers: Mutex<HashMap<Digest, SharedTransfer>>,
    peers: Peers,
}

/// A node to ask for an object.
struct FileHolder<'a> {
    address: &'a Arc<str>,
    tries_left: usize,
    /// For a relay: the nodes that it asks.
    relay: Option<RelayedTo<'a>>,
}

/// The nodes that a relay asks.
#[derive(Clone, Copy, Default)]
struct RelayedTo<'a> {
    holders: &'a [Arc<str>],
    relays: &'a [Arc<str>],
}

/// Why a transfer from one node failed.
enum TransferError {
    /// This node failed, so asking others is useless.
    Local(Error),
    /// The other node failed, or the connection to it.
    Remote(Status),
}

impl From<Status> for TransferError {
    fn from(status: Status) -> Self {
        Self::Remote(status)
    }
}

impl From<Error> for TransferError {
    fn from(error: Error) -> Self {
        match error {
            Error::Full { .. } | Error::Io { .. } => Self::Local(error),
            other => Self::Remote(other.into()),
        }
    }
}

impl Fetcher {
    /// A fetcher for the node at an address; empty for a client that no node can ask.
    pub fn new(store: FileStore, address: impl Into<Arc<str>>) -> Self {
        Self(Arc::new(FetcherInner {
            store,
            address: address.into(),
            permits: Semaphore::new(MAX_TRANSFERS),
            transfers: Mutex::default(),
            peers: Peers::new(),
        }))
    }

    /// The store that receives the objects.
    pub fn store(&self) -> &FileStore {
        &self.0.store
    }

    /// Fetches an object unless the store has it, and holds it.
    pub async fn get(&self, wanted: &ObjectRequest) -> Result<Hold, Error> {
        loop {
            let (store, digest) = (self.0.store.clone(), wanted.digest);
            // Holding an object may include reading and checking it.
            let held = tokio::task::spawn_blocking(move || store.hold(&digest)).await;
            match held.map_err(|_| Error::shutting_down("cannot fetch"))? {
                Err(Error::Missing(_)) => self.join_transfer(wanted).await?,
                other => return other,
            }
        }
    }

    /// Fetches several objects concurrently. Returns their holds in the order of `wanted`.
    pub async fn get_all(&self, wanted: Vec<ObjectRequest>) -> Result<Vec<Hold>, Error> {
        let mut waiting: VecDeque<(usize, ObjectRequest)> = wanted.into_iter().enumerate().collect();
        let mut holds: Vec<(usize, Hold)> = Vec::with_capacity(waiting.len());
        let get = |(at, wanted): (usize, ObjectRequest)| async move { Ok::<_, Error>((at, self.get(&wanted).await?)) };
        // A directory may have very many files, so each fetch begins only when another one has ended.
        let first = waiting.len().min(2 * MAX_TRANSFERS);
        let mut running: FuturesUnordered<_> = waiting.drain(..first).map(get).collect();
        while let Some(done) = running.next().await {
            holds.push(done?);
            running.extend(waiting.pop_front().map(get));
        }
        holds.sort_by_key(|(at, _)| *at);
        Ok(holds.into_iter().map(|(_, hold)| hold).collect())
    }

    /// Fetches a directory with all its files.
    pub async fn get_directory(&self, wanted: &ObjectRequest) -> Result<(Manifest, Vec<Hold>), Error> {
        let list = self.get(wanted).await?;
        let manifest = self.0.store.manifest(&wanted.digest)?;
        let files = manifest.files().map(|(digest, _)| ObjectRequest { digest, ..wanted.clone() });
        let mut holds = self.get_all(files.collect()).await?;
        holds.push(list);
        Ok((manifest, holds))
    }

    /// Waits for the running transfer of an object, or begins one. If the request that began it is dropped, another request
    /// continues the transfer.
    async fn join_transfer(&self, wanted: &ObjectRequest) -> Result<(), Error> {
        let transfer = self.0.transfers.lock().entry(wanted.digest).or_default().clone();
        let outcome = transfer.get_or_init(|| self.transfer(wanted)).await.clone();
        let mut transfers = self.0.transfers.lock();
        if transfers.get(&wanted.digest).is_some_and(|current| Arc::ptr_eq(current, &transfer)) {
            transfers.remove(&wanted.digest);
        }
        outcome
    }

    /// The nodes to ask, in order: holders, then relays, then holders that could not be reached a short while ago.
    fn candidates<'a>(&self, wanted: &'a ObjectRequest) -> VecDeque<FileHolder<'a>> {
        let is_other = |address: &&Arc<str>| **address != self.0.address;
        let holders = wanted.holders.iter().filter(is_other);
        let holders = holders.map(|address| FileHolder { address, tries_left: MAX_TRIES, relay: None });
        let (avoided, reachable): (Vec<_>, Vec<_>) =
            holders.partition(|holder| self.0.peers.is_avoided(holder.address));
        let relays = wanted.relays.iter().enumerate().filter(|(_, address)| is_other(address));
        let relays = relays.map(|(at, address)| {
            let relay = RelayedTo { holders: &wanted.holders, relays: &wanted.relays[at + 1..] };
            FileHolder { address, tries_left: MAX_TRIES, relay: Some(relay) }
        });
        reachable.into_iter().chain(relays).chain(avoided).collect()
    }

    /// Asks one node after the other until one delivers the object.
    async fn transfer(&self, wanted: &ObjectRequest) -> Result<(), Error> {
        let digest = wanted.digest;
        let _permit = self.0.permits.acquire().await;
        let mut candidates = self.candidates(wanted);
        let mut failures = Vec::new();
        while let Some(candidate) = candidates.pop_front() {
            let (address, before) = (candidate.address, self.0.store.offset(&digest));
            let status = match self.transfer_from(&candidate, digest).await {
                Ok(()) => return Ok(()),
                Err(TransferError::Local(error)) => return Err(error),
                Err(TransferError::Remote(status)) => status,
            };
            debug!(%digest, node = %address, %status, "transfer failed");
            let relay = candidate.relay.is_some();
            match status.code() {
                Code::NotFound | Code::DataLoss | Code::Unimplemented | Code::ResourceExhausted | Code::Internal => {
                    failures.push(error_status::refused(address, relay, &digest, &status));
                }
                _ if self.0.store.offset(&digest) > before => {
                    candidates.push_front(FileHolder { tries_left: MAX_TRIES, ..candidate });
                }
                _ if candidate.tries_left > 1 => {
                    candidates.push_back(FileHolder { tries_left: candidate.tries_left - 1, ..candidate });
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                _ => failures.push(error_status::unreachable(address, relay)),
            }
        }
        let failure = v1::FetchFailure { digest: digest.0.to_vec(), holders: failures };
        Err(Error::Gone { digest, failure })
    }

    /// Transfers an object from one node, from where the last transfer stopped.
    async fn transfer_from(&self, candidate: &FileHolder<'_>, digest: Digest) -> Result<(), TransferError> {
        let (address, peers) = (candidate.address, &self.0.peers);
        let mut client = FilesClient::new(peers.channel(address).await?).max_decoding_message_size(MAX_MESSAGE_BYTES);
        let offset = self.0.store.offset(&digest);
        let RelayedTo { holders, relays } = candidate.relay.unwrap_or_default();
        let addresses = |list: &[Arc<str>]| list.iter().map(|address| address.to_string()).collect();
        let (holders, relays) = (addresses(holders), addresses(relays));
        let request = v1::FetchRequest { digest: digest.0.to_vec(), offset, holders, relays };
        let mut chunks = match tokio::time::timeout(SILENCE_TIMEOUT, client.fetch(request)).await.map_err(silent)? {
            Ok(answer) => answer.into_inner(),
            Err(status) => {
                peers.on_error(address, &status);
                return Err(status.into());
            }
        };
        let first = loop {
            let chunk = next_chunk(&mut chunks).await?.ok_or_else(|| Status::unavailable("the node sent nothing"))?;
            if !chunk.coming {
                break chunk;
            }
        };
        let writer = match self.0.store.receive(digest, first.size)? {
            Reception::Here => return Ok(()),
            Reception::Welcome(receiving) => ChunkWriter::new(receiving),
        };
        if writer.offset != offset {
            return Err(Status::aborted("another transfer has begun").into());
        }
        let mut data = first.data;
        while writer.write(data).await {
            match next_chunk(&mut chunks).await {
                Ok(Some(chunk)) => data = chunk.data,
                Ok(None) => break,
                Err(status) => {
                    writer.interrupt().await;
                    peers.on_error(address, &status);
                    return Err(status.into());
                }
            }
        }
        Ok(writer.finish().await?)
    }
}

async fn next_chunk(chunks: &mut Streaming<v1::Chunk>) -> Result<Option<v1::Chunk>, Status> {
    tokio::time::timeout(SILENCE_TIMEOUT, chunks.message()).await.map_err(silent)?
}

fn silent(_: tokio::time::error::Elapsed) -> Status {
    Status::unavailable("the node is silent")
}
