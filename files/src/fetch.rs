//! Gets objects from the nodes that have them: each once, whoever asks for it and how often, several at a time, from where
//! the last transfer broke off, from another node if one does not answer, and through others if none can be reached.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{OnceCell, Semaphore};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tracing::debug;
use xavantes_model::digest::Digest;
use xavantes_proto::v1::files_client::FilesClient;
use xavantes_proto::{MAX_MESSAGE_BYTES, connect_bulk, v1};

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
/// A node that could not be reached is asked last for so long.
const AVOIDED: Duration = Duration::from_secs(10);
/// So many connections are kept, and so many nodes remembered: they come and go.
const MOST_KNOWN: usize = 256;

/// An object that is wanted here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Which.
    pub digest: Digest,
    /// Nodes that may have it, by address; the first is asked first.
    pub holders: Vec<Arc<str>>,
    /// Nodes that fetch it for who cannot reach those. Each may turn to those after it.
    pub relays: Vec<Arc<str>>,
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
    lanes: Semaphore,
    flights: Mutex<HashMap<Digest, Flight>>,
    channels: Mutex<HashMap<Arc<str>, Channel>>,
    /// Nodes that could not be reached, since when.
    unreachable: Mutex<HashMap<Arc<str>, Instant>>,
}

/// Somebody who may give an object.
struct Giver<'a> {
    address: &'a Arc<str>,
    tries: usize,
    /// It fetches it for us.
    through: Option<Through<'a>>,
}

/// Why an object did not come from somebody.
enum Trouble {
    /// It is nobody's fault but ours: others are not asked.
    Here(Error),
    There(Status),
}

impl From<Status> for Trouble {
    fn from(status: Status) -> Self {
        Self::There(status)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error {
            Error::Full { .. } | Error::Io { .. } => Self::Here(error),
            other => Self::There(other.into()),
        }
    }
}

/// From where somebody fetches an object for us, and through whom if it does not reach them.
#[derive(Clone, Copy, Default)]
struct Through<'a> {
    holders: &'a [Arc<str>],
    relays: &'a [Arc<str>],
}

impl Fetcher {
    /// Gets objects for the node at that address; who is not asked by others has none.
    pub fn new(store: Store, address: impl Into<Arc<str>>) -> Self {
        Self(Arc::new(Inner {
            store,
            address: address.into(),
            lanes: Semaphore::new(MOST_AT_ONCE),
            flights: Mutex::default(),
            channels: Mutex::default(),
            unreachable: Mutex::default(),
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
        let files = manifest.files().map(|(digest, _)| Wanted { digest, ..wanted.clone() });
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

    /// Who is asked, in order: those that have it; then those who fetch it for us; last those that cannot be reached.
    fn givers<'a>(&self, wanted: &'a Wanted) -> VecDeque<Giver<'a>> {
        let unreachable = self.unreachable();
        let avoided = |holder: &Arc<str>| unreachable.get(holder).is_some_and(|since| since.elapsed() < AVOIDED);
        let other = |address: &&Arc<str>| **address != self.0.address;
        let holders = wanted.holders.iter().filter(other).map(|address| Giver { address, tries: TRIES, through: None });
        let (last, first): (Vec<_>, Vec<_>) = holders.partition(|giver| avoided(giver.address));
        let relays = wanted.relays.iter().enumerate().filter(|(_, address)| other(address));
        let relays = relays.map(|(at, address)| {
            let through = Through { holders: &wanted.holders, relays: &wanted.relays[at + 1..] };
            Giver { address, tries: TRIES, through: Some(through) }
        });
        first.into_iter().chain(relays).chain(last).collect()
    }

    async fn transfer(&self, wanted: &Wanted) -> Result<(), Error> {
        let digest = wanted.digest;
        let _lane = self.0.lanes.acquire().await;
        let mut left = self.givers(wanted);
        let mut told: Vec<String> = Vec::new();
        while let Some(giver) = left.pop_front() {
            let (address, before) = (giver.address, self.0.store.offset(&digest));
            let status = match self.ask_one(&giver, digest).await {
                Ok(()) => return Ok(()),
                Err(Trouble::Here(error)) => return Err(error),
                Err(Trouble::There(status)) => status,
            };
            debug!(%digest, %address, %status, "a transfer did not succeed");
            match status.code() {
                Code::NotFound | Code::DataLoss | Code::Unimplemented | Code::ResourceExhausted | Code::Internal => {
                    let through = if giver.through.is_some() { "through " } else { "" };
                    let (_, why) = status.message().rsplit_once(" from any node: ").unwrap_or(("", status.message()));
                    told.push(format!("{through}{address}: {why}"));
                }
                _ if self.0.store.offset(&digest) > before => left.push_front(Giver { tries: TRIES, ..giver }),
                _ if giver.tries > 1 => {
                    left.push_back(Giver { tries: giver.tries - 1, ..giver });
                    tokio::time::sleep(PAUSE).await;
                }
                _ => told.push(format!("{address} cannot be reached")),
            }
        }
        let why = if told.is_empty() { "nobody is known to have it".into() } else { told.join("; ") };
        Err(Error::Gone { digest, why })
    }

    async fn ask_one(&self, giver: &Giver<'_>, digest: Digest) -> Result<(), Trouble> {
        let holder = giver.address;
        let mut client = FilesClient::new(self.channel(holder).await?).max_decoding_message_size(MAX_MESSAGE_BYTES);
        let offset = self.0.store.offset(&digest);
        let Through { holders, relays } = giver.through.unwrap_or_default();
        let addresses = |list: &[Arc<str>]| list.iter().map(|address| address.to_string()).collect();
        let (holders, relays) = (addresses(holders), addresses(relays));
        let request = v1::FetchRequest { digest: digest.0.to_vec(), offset, holders, relays };
        let asked = tokio::time::timeout(SILENCE, client.fetch(request)).await;
        let silent = |_| Status::unavailable("it is silent");
        let mut chunks = match asked.map_err(silent)? {
            Ok(answer) => answer.into_inner(),
            Err(status) => {
                self.forget(holder, &status);
                return Err(status.into());
            }
        };
        let first = loop {
            let first = tokio::time::timeout(SILENCE, chunks.message()).await.map_err(silent)??;
            let first = first.ok_or_else(|| Status::unavailable("it sent nothing"))?;
            if !first.coming {
                break first;
            }
        };
        let writer = match self.0.store.receive(digest, first.size)? {
            Reception::Here => return Ok(()),
            Reception::Welcome(receiving) => Writer::new(receiving),
        };
        if writer.offset != offset {
            return Err(Status::aborted("another transfer has begun").into());
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
                    return Err(status.into());
                }
            }
        }
        Ok(writer.finish().await?)
    }

    async fn channel(&self, holder: &Arc<str>) -> Result<Channel, Status> {
        if let Some(channel) = self.channels().get(holder) {
            return Ok(channel.clone());
        }
        match connect_bulk(holder).await {
            Ok(channel) => {
                self.unreachable().remove(holder);
                self.channels().insert(holder.clone(), channel.clone());
                Ok(channel)
            }
            Err(error) => {
                let mut unreachable = self.unreachable();
                unreachable.retain(|_, since| since.elapsed() < AVOIDED);
                if unreachable.len() < MOST_KNOWN {
                    unreachable.insert(holder.clone(), Instant::now());
                }
                Err(Status::unavailable(error.to_string()))
            }
        }
    }

    fn channels(&self) -> MutexGuard<'_, HashMap<Arc<str>, Channel>> {
        self.0.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unreachable(&self) -> MutexGuard<'_, HashMap<Arc<str>, Instant>> {
        self.0.unreachable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A connection that broke is made anew. So is one too many.
    fn forget(&self, holder: &Arc<str>, status: &Status) {
        let mut channels = self.channels();
        if status.code() != Code::NotFound || channels.len() > MOST_KNOWN {
            channels.remove(holder);
        }
    }
}
