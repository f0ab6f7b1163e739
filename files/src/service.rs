//! Gives objects to other nodes, and takes what users bring.

use std::io::{Read, Seek, SeekFrom};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};
use xavantes_model::digest::Digest;
use xavantes_model::value::MAX_HOLDERS;
use xavantes_proto::v1::files_server::Files;
use xavantes_proto::{digest_from, v1};

use crate::fetch::{Fetcher, Wanted};
use crate::store::{Hold, Receiving, Reception, Store};
use crate::{CHUNK, Error};

/// Chunks of one transfer that wait for the wire, or for the disk.
const AHEAD: usize = 4;
/// Objects that are given at once; each takes a thread and some chunks. Others wait.
const MOST_GIVEN: usize = 64;
/// Objects that are asked for at once.
const MOST_ASKED: usize = 100_000;
/// Relays that are asked one after the other at most: as many as groups lie between two.
const MOST_RELAYS: usize = 8;
/// Who waits for an object that has to be fetched first is given a sign of life so often.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// The files of a node for others; cheap to clone.
#[derive(Debug, Clone)]
pub struct Service {
    store: Store,
    fetcher: Fetcher,
    /// Where others reach this node.
    address: Arc<str>,
    lanes: Arc<Semaphore>,
}

impl Service {
    /// Serves a store, and fetches for others what is elsewhere.
    pub fn new(fetcher: Fetcher, address: impl Into<Arc<str>>) -> Self {
        let lanes = Arc::new(Semaphore::new(MOST_GIVEN));
        Self { store: fetcher.store().clone(), fetcher, address: address.into(), lanes }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let message = error.to_string();
        match error {
            Error::Missing(_) | Error::Gone { .. } => Status::not_found(message),
            Error::Full { .. } => Status::resource_exhausted(message),
            Error::Busy(_) => Status::aborted(message),
            Error::Damaged(_) => Status::data_loss(message),
            Error::Path { .. } | Error::Directory(_) => Status::invalid_argument(message),
            Error::Io { .. } => Status::internal(message),
        }
    }
}

impl Service {
    /// Fetches an object for somebody who cannot reach those that have it, and hears now and then that it is coming.
    async fn bring(&self, wanted: &Wanted, waits: &mpsc::Sender<Result<v1::Chunk, Status>>) -> Result<Hold, Status> {
        let mut signs = tokio::time::interval(SIGN_OF_LIFE);
        let got = self.fetcher.get(wanted);
        tokio::pin!(got);
        loop {
            tokio::select! {
                got = &mut got => return Ok(got?),
                () = waits.closed() => return Err(Status::cancelled("nobody waits for it")),
                _ = signs.tick() => drop(waits.send(Ok(v1::Chunk { coming: true, ..v1::Chunk::default() })).await),
            }
        }
    }
}

fn stopped(_: tokio::task::JoinError) -> Status {
    Status::internal("the node is ending")
}

type Chunks = Pin<Box<dyn tokio_stream::Stream<Item = Result<v1::Chunk, Status>> + Send>>;

#[tonic::async_trait]
impl Files for Service {
    type FetchStream = Chunks;

    async fn fetch(&self, request: Request<v1::FetchRequest>) -> Result<Response<Chunks>, Status> {
        let v1::FetchRequest { digest, offset, holders, relays } = request.into_inner();
        let digest = digest_from(&digest)?;
        let addresses = |list: Vec<String>, most| list.into_iter().take(most).map(Arc::from).collect();
        let (holders, relays): (Vec<Arc<str>>, _) =
            (addresses(holders, MAX_HOLDERS + MOST_RELAYS), addresses(relays, MOST_RELAYS));
        let elsewhere = !self.store.has(&digest);
        if elsewhere && holders.is_empty() {
            return Err(Error::Missing(digest).into());
        }
        let (sender, receiver) = mpsc::channel(AHEAD);
        let (this, wanted) = (self.clone(), Wanted { digest, holders, relays });
        tokio::spawn(async move {
            // It stays until it was given.
            let _hold = match elsewhere {
                true => match this.bring(&wanted, &sender).await {
                    Ok(hold) => Some(hold),
                    Err(status) => return drop(sender.send(Err(status)).await),
                },
                false => None,
            };
            let Ok(_lane) = this.lanes.acquire().await else { return };
            let (store, given) = (this.store.clone(), sender.clone());
            let gave = tokio::task::spawn_blocking(move || give(&store, &digest, offset, &given)).await;
            if let Err(status) = gave.map_err(stopped).and_then(|gave| gave.map_err(Status::from)) {
                let _ = sender.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn has(&self, request: Request<v1::HasRequest>) -> Result<Response<v1::HasResponse>, Status> {
        let v1::HasRequest { digests, directories, owner } = request.into_inner();
        if digests.len() + directories.len() > MOST_ASKED {
            return Err(Status::invalid_argument(format!("at most {MOST_ASKED} objects can be asked for at once")));
        }
        let read = |list: &[Vec<u8>]| list.iter().map(|digest| digest_from(digest)).collect::<Result<Vec<_>, _>>();
        let (files, directories) = (read(&digests)?, read(&directories)?);
        let (store, owner) = (self.store.clone(), Some(owner).filter(|owner| !owner.is_empty()));
        let look = move || store.has_all(&files, &directories, owner.as_deref());
        let has = tokio::task::spawn_blocking(look).await.map_err(stopped)??;
        Ok(Response::new(v1::HasResponse { has }))
    }

    async fn keep(&self, request: Request<v1::KeepRequest>) -> Result<Response<v1::KeepResponse>, Status> {
        let v1::KeepRequest { owner, digests, holder } = request.into_inner();
        let digests = digests.iter().map(|digest| digest_from(digest)).collect::<Result<Vec<_>, _>>()?;
        if owner.is_empty() || digests.len() > MOST_ASKED {
            return Err(Status::invalid_argument(format!("an owner, and at most {MOST_ASKED} objects, are needed")));
        }
        let holders = vec![Arc::from(holder)];
        let wanted =
            digests.iter().map(|digest| Wanted { digest: *digest, holders: holders.clone(), relays: Vec::new() });
        // They are held until they are kept.
        let _holds = self.fetcher.get_all(wanted.collect()).await?;
        let store = self.store.clone();
        tokio::task::spawn_blocking(move || store.pin(&owner, &digests)).await.map_err(stopped)??;
        Ok(Response::new(v1::KeepResponse {}))
    }

    async fn count(&self, _: Request<v1::CountRequest>) -> Result<Response<v1::CountResponse>, Status> {
        let (moved, (bytes, objects)) = (self.store.counted(), self.store.kept());
        Ok(Response::new(v1::CountResponse {
            bytes_in: moved.bytes_in,
            objects_in: moved.objects_in,
            bytes_out: moved.bytes_out,
            objects_out: moved.objects_out,
            bytes,
            objects: objects as u64,
        }))
    }

    async fn offset(&self, request: Request<v1::OffsetRequest>) -> Result<Response<v1::OffsetResponse>, Status> {
        let offset = self.store.offset(&digest_from(&request.into_inner().digest)?);
        Ok(Response::new(v1::OffsetResponse { offset, holder: self.address.to_string() }))
    }

    async fn put(&self, request: Request<Streaming<v1::PutChunk>>) -> Result<Response<v1::PutResponse>, Status> {
        let mut chunks = request.into_inner();
        let mut first = chunks.message().await?.ok_or_else(|| Status::invalid_argument("nothing is put"))?;
        let header = first.header.take().ok_or_else(|| Status::invalid_argument("the first chunk has no header"))?;
        let digest = digest_from(&header.digest)?;
        let receiving = match self.store.receive(digest, header.size)? {
            Reception::Here => return Ok(Response::new(v1::PutResponse {})),
            Reception::Welcome(receiving) => Writer::new(receiving),
        };
        if receiving.offset != header.offset {
            let message = format!("bytes are missing from {} on, not from {}", receiving.offset, header.offset);
            return Err(Status::failed_precondition(message));
        }
        let mut next = Some(first);
        while let Some(chunk) = next {
            let data = chunk.chunk.map_or_else(Bytes::new, |chunk| chunk.data);
            if !receiving.write(data).await {
                break;
            }
            next = chunks.message().await?;
        }
        receiving.finish().await?;
        Ok(Response::new(v1::PutResponse {}))
    }
}

/// Sends an object in chunks; returns early when nobody listens any more.
fn give(
    store: &Store,
    digest: &Digest,
    offset: u64,
    chunks: &mpsc::Sender<Result<v1::Chunk, Status>>,
) -> Result<(), Error> {
    let hold = store.hold(digest)?;
    let mut file = hold.open()?;
    let cannot = "cannot read from the file store";
    let size = file.metadata().map_err(Error::io(cannot))?.len();
    file.seek(SeekFrom::Start(offset.min(size))).map_err(Error::io(cannot))?;
    let mut first = true;
    loop {
        let mut data = Vec::with_capacity(CHUNK);
        (&mut file).take(CHUNK as u64).read_to_end(&mut data).map_err(Error::io(cannot))?;
        let count = data.len();
        if count == 0 && !first {
            store.counters().delivered();
            return Ok(());
        }
        let chunk = v1::Chunk { data: data.into(), size: if first { size } else { 0 }, coming: false };
        if chunks.blocking_send(Ok(chunk)).is_err() {
            return Ok(());
        }
        store.counters().went(count);
        first = false;
    }
}

/// Writes what comes in, on a thread of its own, so that the wire and the disk do not wait for each other.
pub(crate) struct Writer {
    pub offset: u64,
    chunks: mpsc::Sender<Bytes>,
    done: tokio::task::JoinHandle<Result<Box<Receiving>, Error>>,
}

impl Writer {
    pub fn new(mut receiving: Box<Receiving>) -> Self {
        let (chunks, mut coming) = mpsc::channel::<Bytes>(AHEAD);
        let offset = receiving.offset();
        let done = tokio::task::spawn_blocking(move || {
            while let Some(chunk) = coming.blocking_recv() {
                receiving.write(&chunk)?;
            }
            Ok(receiving)
        });
        Self { offset, chunks, done }
    }

    /// False if it cannot be written; [`Self::finish`] tells why.
    pub async fn write(&self, chunk: Bytes) -> bool {
        self.chunks.send(chunk).await.is_ok()
    }

    /// It was all: is it what it should be?
    pub async fn finish(self) -> Result<(), Error> {
        let ending = |_| Error::Io { what: "cannot write".into(), cause: "the node is ending".into() };
        drop(self.chunks);
        let receiving = self.done.await.map_err(ending)??;
        tokio::task::spawn_blocking(move || receiving.finish()).await.map_err(ending)?
    }

    /// It broke off: what was written is kept for the next.
    pub async fn pause(self) {
        drop(self.chunks);
        let _ = self.done.await;
    }
}
