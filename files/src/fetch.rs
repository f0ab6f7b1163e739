//! Gets objects from the nodes that have them: each once, whoever asks for it and how often, several at a time, from where
//! the last transfer broke off, and from another node if one does not answer.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{OnceCell, Semaphore};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tracing::debug;
use xavantes_model::digest::Digest;
use xavantes_proto::v1::files_client::FilesClient;
use xavantes_proto::{MAX_MESSAGE, connect_bulk, v1};

use crate::Error;
use crate::manifest::Manifest;
use crate::service::Writer;
use crate::store::{Hold, Reception, Store};

/// Objects that come at once: enough to fill a line, few enough that each makes progress.
const MOST_AT_ONCE: usize = 8;
/// How often a node is asked again from which nothing came.
const TRIES: usize = 3;
/// The wait before it is.
const PAUSE: Duration = Duration::from_millis(200);
/// A stream from which nothing comes for so long is given up.
const SILENCE: Duration = Duration::from_secs(30);

/// An object that is wanted here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Which.
    pub digest: Digest,
    /// Nodes that may have it, by address; the first is asked first.
    pub holders: Vec<Arc<str>>,
}

type Flight = Arc<OnceCell<Result<(), Error>>>;

/// Gets objects into a store; cheap to clone.
#[derive(Debug, Clone)]
pub struct Fetcher(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    /// This node, which is not asked.
    address: Arc<str>,
    /// A node that fetches for us what we cannot reach.
    relay: Option<Arc<str>>,
    lanes: Semaphore,
    flights: Mutex<HashMap<Digest, Flight>>,
    channels: Mutex<HashMap<Arc<str>, Channel>>,
}

impl Fetcher {
    /// Gets objects for the node at that address.
    pub fn new(store: Store, address: impl Into<Arc<str>>) -> Self {
        Self::open(store, address.into(), None)
    }

    /// Gets objects for somebody who may not reach all nodes, but reaches this one, which then fetches them first.
    pub fn through(store: Store, relay: impl Into<Arc<str>>) -> Self {
        Self::open(store, "".into(), Some(relay.into()))
    }

    fn open(store: Store, address: Arc<str>, relay: Option<Arc<str>>) -> Self {
        Self(Arc::new(Inner {
            store,
            address,
            relay,
            lanes: Semaphore::new(MOST_AT_ONCE),
            flights: Mutex::default(),
            channels: Mutex::default(),
        }))
    }

    /// Where things are fetched to.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// Gets an object, unless it is here; it stays here as long as it is held.
    pub async fn get(&self, wanted: &Wanted) -> Result<Hold, Error> {
        loop {
            let (store, digest) = (self.0.store.clone(), wanted.digest);
            // An object may have to be read before it is given out.
            let held = tokio::task::spawn_blocking(move || store.hold(&digest)).await;
            match held.map_err(|_| Error::Io { what: "cannot fetch".into(), cause: "the node is ending".into() })? {
                Err(Error::Missing(_)) => self.bring(wanted).await?,
                other => return other,
            }
        }
    }

    /// Gets these, in any order; they are held in the order in which they are wanted.
    pub async fn get_all(&self, wanted: Vec<Wanted>) -> Result<Vec<Hold>, Error> {
        let mut rest: VecDeque<(usize, Wanted)> = wanted.into_iter().enumerate().collect();
        let mut holds: Vec<(usize, Hold)> = Vec::with_capacity(rest.len());
        let get = |(number, wanted): (usize, Wanted)| async move { Ok::<_, Error>((number, self.get(&wanted).await?)) };
        // One at a time is begun when one is there: a directory may have very many.
        let mut coming: FuturesUnordered<_> = rest.drain(..rest.len().min(2 * MOST_AT_ONCE)).map(get).collect();
        while let Some(done) = coming.next().await {
            holds.push(done?);
            coming.extend(rest.pop_front().map(get));
        }
        holds.sort_by_key(|(number, _)| *number);
        Ok(holds.into_iter().map(|(_, hold)| hold).collect())
    }

    /// Gets a directory with all its files.
    pub async fn get_directory(&self, wanted: &Wanted) -> Result<(Manifest, Vec<Hold>), Error> {
        let list = self.get(wanted).await?;
        let manifest = self.0.store.manifest(&wanted.digest)?;
        let files = manifest.files().map(|(digest, _)| Wanted { digest, holders: wanted.holders.clone() });
        let mut holds = self.get_all(files.collect()).await?;
        holds.push(list);
        Ok((manifest, holds))
    }

    fn flights(&self) -> MutexGuard<'_, HashMap<Digest, Flight>> {
        self.0.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes part in the transfer that is under way, or begins one. If whoever began it gives up, another one goes on.
    async fn bring(&self, wanted: &Wanted) -> Result<(), Error> {
        let flight = self.flights().entry(wanted.digest).or_default().clone();
        let outcome = flight.get_or_init(|| self.transfer(wanted)).await.clone();
        let mut flights = self.flights();
        if flights.get(&wanted.digest).is_some_and(|now| Arc::ptr_eq(now, &flight)) {
            flights.remove(&wanted.digest);
        }
        outcome
    }

    async fn transfer(&self, wanted: &Wanted) -> Result<(), Error> {
        let digest = wanted.digest;
        let _lane = self.0.lanes.acquire().await;
        let mut left: VecDeque<(&Arc<str>, usize)> =
            wanted.holders.iter().filter(|holder| **holder != self.0.address).map(|holder| (holder, TRIES)).collect();
        let mut told: Vec<String> = Vec::new();
        if let Some(relay) = &self.0.relay {
            left.push_back((relay, TRIES));
        }
        while let Some((holder, tries)) = left.pop_front() {
            let before = self.0.store.offset(&digest);
            let relayed = if self.0.relay.as_ref() == Some(holder) { &*wanted.holders } else { &[] };
            let status = match self.ask_one(holder, digest, relayed).await {
                Ok(()) => return Ok(()),
                Err(status) => status,
            };
            debug!(%digest, holder = %holder, %status, "a transfer did not succeed");
            match status.code() {
                // It is not its fault.
                Code::ResourceExhausted | Code::Internal => {
                    return Err(Error::Io { what: "cannot fetch a file".into(), cause: status.message().into() });
                }
                Code::NotFound | Code::DataLoss | Code::Unimplemented => {
                    told.push(format!("{holder}: {}", status.message()))
                }
                _ if self.0.store.offset(&digest) > before => left.push_front((holder, TRIES)),
                _ if tries > 1 => {
                    left.push_back((holder, tries - 1));
                    tokio::time::sleep(PAUSE).await;
                }
                _ => told.push(format!("{holder} cannot be reached")),
            }
        }
        let why = if told.is_empty() { "nobody is known to have it".into() } else { told.join("; ") };
        Err(Error::Gone { digest, why })
    }

    async fn ask_one(&self, holder: &Arc<str>, digest: Digest, relayed: &[Arc<str>]) -> Result<(), Status> {
        let mut client = FilesClient::new(self.channel(holder).await?).max_decoding_message_size(MAX_MESSAGE);
        let offset = self.0.store.offset(&digest);
        let holders = relayed.iter().map(|holder| holder.to_string()).collect();
        let request = v1::FetchRequest { digest: digest.0.to_vec(), offset, holders };
        let asked = tokio::time::timeout(SILENCE, client.fetch(request)).await;
        let silent = |_| Status::unavailable("it is silent");
        let mut chunks = match asked.map_err(silent)? {
            Ok(answer) => answer.into_inner(),
            Err(status) => {
                self.forget(holder, &status);
                return Err(status);
            }
        };
        let first = tokio::time::timeout(SILENCE, chunks.message()).await.map_err(silent)??;
        let first = first.ok_or_else(|| Status::unavailable("it sent nothing"))?;
        let writer = match self.0.store.receive(digest, first.size)? {
            Reception::Here => return Ok(()),
            Reception::Welcome(receiving) => Writer::new(receiving),
        };
        if writer.offset != offset {
            return Err(Status::aborted("another transfer has begun"));
        }
        let mut data = first.data;
        loop {
            if !writer.write(data).await {
                break;
            }
            let next = tokio::time::timeout(SILENCE, chunks.message()).await.map_err(silent).and_then(|next| next);
            match next {
                Ok(Some(chunk)) => data = chunk.data,
                Ok(None) => break,
                Err(status) => {
                    writer.pause().await;
                    self.forget(holder, &status);
                    return Err(status);
                }
            }
        }
        writer.finish().await
    }

    async fn channel(&self, holder: &Arc<str>) -> Result<Channel, Status> {
        if let Some(channel) = self.channels().get(holder) {
            return Ok(channel.clone());
        }
        let channel = connect_bulk(holder).await.map_err(|error| Status::unavailable(error.to_string()))?;
        self.channels().insert(holder.clone(), channel.clone());
        Ok(channel)
    }

    fn channels(&self) -> MutexGuard<'_, HashMap<Arc<str>, Channel>> {
        self.0.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that broke is made anew. So is one too many: nodes come and go.
    fn forget(&self, holder: &Arc<str>, status: &Status) {
        const MOST_CHANNELS: usize = 256;
        let mut channels = self.channels();
        if status.code() != Code::NotFound || channels.len() > MOST_CHANNELS {
            channels.remove(holder);
        }
    }
}
