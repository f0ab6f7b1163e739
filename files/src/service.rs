//! The gRPC service: sends objects to other nodes, fetches objects for them as a relay, and accepts uploads of users.

use std::io::{Read, Seek, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use xavantes_model::digest::Digest;
use xavantes_model::value::MAX_HOLDERS;
use xavantes_proto::message_limits::{check_address, check_path};
use xavantes_proto::v1::files_server::Files;
use xavantes_proto::{digest_from, v1};

use crate::chunk_writer::{ChunkWriter, MAX_BUFFERED_CHUNKS};
use crate::error::Error;
use crate::error_status::MAX_RELAYS;
use crate::fetch::{Fetcher, ObjectRequest};
use crate::hash::CHUNK_BYTES;
use crate::store::receive::Reception;
use crate::store::store_state::FileStore;
use crate::store::stored_objects::Hold;

/// Upper bound on objects that the service sends at once, because each needs a thread and some chunks. Further requests wait.
const MAX_SENDS: usize = 64;
/// Upper bound on the objects of one request.
const MAX_REQUESTED: usize = 100_000;
/// Upper bound on uploads at once, because each needs a thread and an open file. Further ones are refused.
const MAX_UPLOADS: usize = 64;
/// Upper bound on objects that the service fetches for others at once: its own transfers must go on.
const MAX_RELAYED: usize = 4;
/// A peer that sends no chunk of an upload, or takes none of a download, for this long is cut off.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval of the signs of life that a relay sends while it fetches an object. The requester gives up after longer silence.
const SIGN_OF_LIFE_INTERVAL: Duration = Duration::from_secs(5);

type Chunks = Pin<Box<dyn tokio_stream::Stream<Item = Result<v1::Chunk, Status>> + Send>>;
type ChunkSender = mpsc::Sender<Result<v1::Chunk, Status>>;

/// Serves the file store of a node; cheap to clone.
#[derive(Debug, Clone)]
pub struct Service {
    store: FileStore,
    fetcher: Fetcher,
    /// The address at which others reach this node.
    address: Arc<str>,
    send_permits: Arc<Semaphore>,
    upload_permits: Arc<Semaphore>,
    relay_permits: Arc<Semaphore>,
}

impl Service {
    /// Serves the store of a fetcher. The service uses the fetcher as a relay.
    pub fn new(fetcher: Fetcher, address: impl Into<Arc<str>>) -> Self {
        let permits = |count| Arc::new(Semaphore::new(count));
        Self {
            store: fetcher.store().clone(),
            fetcher,
            address: address.into(),
            send_permits: permits(MAX_SENDS),
            upload_permits: permits(MAX_UPLOADS),
            relay_permits: permits(MAX_RELAYED),
        }
    }
}

impl Service {
    /// Fetches an object for a node that cannot reach its holders, and sends signs of life meanwhile.
    async fn relay(&self, wanted: &ObjectRequest, requester: &ChunkSender) -> Result<Hold, Status> {
        let mut signs = tokio::time::interval(SIGN_OF_LIFE_INTERVAL);
        let got = async {
            let _permit = self.relay_permits.acquire().await;
            self.fetcher.get(wanted).await
        };
        tokio::pin!(got);
        loop {
            tokio::select! {
                got = &mut got => return Ok(got?),
                () = requester.closed() => return Err(Status::cancelled("the requester ended the call")),
                _ = signs.tick() => {
                    let sign = v1::Chunk { coming: true, ..v1::Chunk::default() };
                    let _ = requester.send_timeout(Ok(sign), SILENCE_TIMEOUT).await;
                }
            }
        }
    }
}

fn cancelled(_: tokio::task::JoinError) -> Status {
    Status::internal("the node is shutting down")
}

#[tonic::async_trait]
impl Files for Service {
    type FetchStream = Chunks;

    async fn fetch(&self, request: Request<v1::FetchRequest>) -> Result<Response<Chunks>, Status> {
        let v1::FetchRequest { digest, offset, holders, relays } = request.into_inner();
        let digest = digest_from(&digest)?;
        for address in holders.iter().chain(&relays) {
            check_address("the address of a node", address)?;
        }
        let addresses = |list: Vec<String>, limit| list.into_iter().take(limit).map(Arc::from).collect();
        let (holders, relays): (Vec<Arc<str>>, _) =
            (addresses(holders, MAX_HOLDERS + MAX_RELAYS), addresses(relays, MAX_RELAYS));
        let elsewhere = !self.store.has(&digest);
        if elsewhere && holders.is_empty() {
            return Err(Error::Missing(digest).into());
        }
        let (sender, receiver) = mpsc::channel(MAX_BUFFERED_CHUNKS);
        let (this, wanted) = (self.clone(), ObjectRequest { digest, holders, relays });
        tokio::spawn(async move {
            // The store keeps the object until it has been sent.
            let _hold = match elsewhere {
                true => match this.relay(&wanted, &sender).await {
                    Ok(hold) => Some(hold),
                    Err(status) => return drop(sender.send(Err(status)).await),
                },
                false => None,
            };
            let Ok(_permit) = this.send_permits.acquire().await else { return };
            let (store, chunks) = (this.store.clone(), sender.clone());
            let sent = tokio::task::spawn_blocking(move || send_object(&store, &digest, offset, &chunks)).await;
            if let Err(status) = sent.map_err(cancelled).and_then(|sent| sent.map_err(Status::from)) {
                let _ = sender.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn has(&self, request: Request<v1::HasRequest>) -> Result<Response<v1::HasResponse>, Status> {
        let v1::HasRequest { digests, directories, owner } = request.into_inner();
        check_path("the owner", &owner)?;
        if digests.len() + directories.len() > MAX_REQUESTED {
            return Err(Status::invalid_argument(format!("a request can name at most {MAX_REQUESTED} objects")));
        }
        let read = |list: &[Vec<u8>]| list.iter().map(|digest| digest_from(digest)).collect::<Result<Vec<_>, _>>();
        let (files, directories) = (read(&digests)?, read(&directories)?);
        let (store, owner) = (self.store.clone(), Some(owner).filter(|owner| !owner.is_empty()));
        let query = move || store.has_all(&files, &directories, owner.as_deref());
        let has = tokio::task::spawn_blocking(query).await.map_err(cancelled)??;
        Ok(Response::new(v1::HasResponse { has }))
    }

    async fn keep(&self, request: Request<v1::KeepRequest>) -> Result<Response<v1::KeepResponse>, Status> {
        let v1::KeepRequest { owner, digests, holder } = request.into_inner();
        check_path("the owner", &owner)?;
        check_address("the address of the holder", &holder)?;
        let digests = digests.iter().map(|digest| digest_from(digest)).collect::<Result<Vec<_>, _>>()?;
        if owner.is_empty() || digests.len() > MAX_REQUESTED {
            return Err(Status::invalid_argument(format!(
                "a request needs an owner and at most {MAX_REQUESTED} objects"
            )));
        }
        let holders = vec![Arc::from(holder)];
        let wanted = digests.iter().map(|digest| ObjectRequest {
            digest: *digest,
            holders: holders.clone(),
            relays: Vec::new(),
        });
        let _permit = self.relay_permits.acquire().await;
        // The holds protect the objects until they are pinned.
        let _holds = self.fetcher.get_all(wanted.collect()).await?;
        let store = self.store.clone();
        tokio::task::spawn_blocking(move || store.pin(&owner, &digests)).await.map_err(cancelled)??;
        Ok(Response::new(v1::KeepResponse {}))
    }

    async fn count(&self, _: Request<v1::CountRequest>) -> Result<Response<v1::CountResponse>, Status> {
        let (transferred, usage) = (self.store.transfer_counts(), self.store.usage());
        Ok(Response::new(v1::CountResponse {
            bytes_in: transferred.bytes_in,
            objects_in: transferred.objects_in,
            bytes_out: transferred.bytes_out,
            objects_out: transferred.objects_out,
            bytes: usage.bytes,
            objects: usage.objects as u64,
        }))
    }

    async fn offset(&self, request: Request<v1::OffsetRequest>) -> Result<Response<v1::OffsetResponse>, Status> {
        let offset = self.store.offset(&digest_from(&request.into_inner().digest)?);
        Ok(Response::new(v1::OffsetResponse { offset, holder: self.address.to_string() }))
    }

    async fn put(&self, request: Request<Streaming<v1::PutChunk>>) -> Result<Response<v1::PutResponse>, Status> {
        let mut chunks = request.into_inner();
        let Ok(_permit) = self.upload_permits.try_acquire() else {
            return Err(Status::resource_exhausted(format!("this node takes at most {MAX_UPLOADS} uploads at once")));
        };
        let mut first =
            next_chunk(&mut chunks).await?.ok_or_else(|| Status::invalid_argument("the upload has no chunk"))?;
        let header = first.header.take().ok_or_else(|| Status::invalid_argument("the first chunk has no header"))?;
        let digest = digest_from(&header.digest)?;
        let writer = match self.store.receive(digest, header.size)? {
            Reception::Here => return Ok(Response::new(v1::PutResponse {})),
            Reception::Welcome(receiving) => ChunkWriter::new(receiving),
        };
        if writer.offset != header.offset {
            let message = format!("the upload must begin at byte {}, not at {}", writer.offset, header.offset);
            return Err(Status::failed_precondition(message));
        }
        let mut next = Some(first);
        while let Some(chunk) = next {
            let data = chunk.chunk.map_or_else(Bytes::new, |chunk| chunk.data);
            if !writer.write(data).await {
                break;
            }
            next = next_chunk(&mut chunks).await?;
        }
        writer.finish().await?;
        Ok(Response::new(v1::PutResponse {}))
    }
}

/// The next chunk of an upload. A peer that sends none is cut off; it can resume the upload.
async fn next_chunk(chunks: &mut Streaming<v1::PutChunk>) -> Result<Option<v1::PutChunk>, Status> {
    let silent = |_| Status::deadline_exceeded(format!("no chunk within {} seconds", SILENCE_TIMEOUT.as_secs()));
    tokio::time::timeout(SILENCE_TIMEOUT, chunks.message()).await.map_err(silent)?
}

/// Sends an object in chunks. Returns early when the requester ends the call, or takes no chunk for too long.
fn send_object(store: &FileStore, digest: &Digest, offset: u64, chunks: &ChunkSender) -> Result<(), Error> {
    let hold = store.hold(digest)?;
    let mut file = hold.open()?;
    let cannot = "cannot read from the file store";
    let size = file.metadata().map_err(Error::io(cannot))?.len();
    file.seek(SeekFrom::Start(offset.min(size))).map_err(Error::io(cannot))?;
    let mut first = true;
    let runtime = Handle::current();
    loop {
        let mut data = Vec::with_capacity(CHUNK_BYTES);
        (&mut file).take(CHUNK_BYTES as u64).read_to_end(&mut data).map_err(Error::io(cannot))?;
        let count = data.len();
        if count == 0 && !first {
            store.counters().add_object_out();
            return Ok(());
        }
        let chunk = v1::Chunk { data: data.into(), size: if first { size } else { 0 }, coming: false };
        if runtime.block_on(chunks.send_timeout(Ok(chunk), SILENCE_TIMEOUT)).is_err() {
            return Ok(());
        }
        store.counters().add_bytes_out(count);
        first = false;
    }
}
