//! Results that are used again, in the repository: looked for, kept, and removed when there are too many.
//!
//! | documents of the kind | under | are |
//! |---|---|---|
//! | `reuse-card` | the digest of what a result depends on | [`Card`]s |
//! | `reuse-result` | the same | the results |
//! | `reuse-verdict` | the digest of a path | [`Verdict`]s, and when they were made |
//!
//! A card is written before its results and removed after them, so nothing is left that nobody knows of.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use bytes::Bytes;
use tracing::{info, warn};
use xavantes_model::digest::Digest;
use xavantes_proto::{Message, v1};
use xavantes_repository::{Error, Store};

use crate::cache::decide::{Card, Found, Held, Index, Keep, MOST_CARDS, Removal, Sought, Verdict, Why};
use crate::convert::add_holders;
use crate::data::pinning::Keeping;
use crate::process::journal;
use crate::process::runner::unix_ms;

const CARDS: &str = "reuse-card";
const RESULTS: &str = "reuse-result";
const VERDICTS: &str = "reuse-verdict";

/// So many documents are removed at once.
const TOGETHER: usize = 256;
/// When a shared repository was given a part of its limit by this coordinator, it is looked at anew: others add to it, too.
const PART: u64 = 10;

/// A call of the repository.
pub(crate) type Call<T = ()> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// Makes calls in their order, so that they are carried out in it, and waits for all.
pub(crate) async fn all<T>(mut calls: Vec<Call<T>>) -> Vec<Result<T, Error>> {
    let mut results: Vec<Option<Result<T, Error>>> = calls.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        let mut waits = false;
        for (call, result) in calls.iter_mut().zip(&mut results).filter(|(_, result)| result.is_none()) {
            match call.as_mut().poll(context) {
                Poll::Ready(done) => *result = Some(done),
                Poll::Pending => waits = true,
            }
        }
        if waits { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    results.into_iter().flatten().collect()
}

/// What a coordinator keeps of activities that want their results to be used again.
pub(crate) struct Shelf {
    repository: Store,
    keeping: Arc<Keeping>,
    /// Others add to the repository, too.
    shared: bool,
    state: Mutex<State>,
}

struct State {
    index: Index,
    /// Bytes and cards since the repository was last looked at.
    added: (u64, u64),
}

impl Shelf {
    /// With what was kept, so many bytes at most.
    pub async fn open(repository: Store, keeping: Arc<Keeping>, options: &crate::Options) -> Result<Self, Error> {
        let state = State { index: Index::new(options.reuse_size, MOST_CARDS), added: (0, 0) };
        let shelf = Self { repository, keeping, shared: options.shared, state: Mutex::new(state) };
        let removals = shelf.read(options.reuse_size).await?;
        shelf.carry_out(removals).await;
        Ok(shelf)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of it is one call, after which it is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at everything that is kept; gives what is too much.
    async fn read(&self, limit: u64) -> Result<Vec<Removal>, Error> {
        let mut index = Index::new(limit, MOST_CARDS);
        let mut unreadable = Vec::new();
        let mut cards = Vec::new();
        for (key, bytes) in self.repository.documents(CARDS).await? {
            match (key.parse::<Digest>(), journal::read::<Card>("card", &bytes)) {
                (Ok(key), Ok(card)) => cards.push((key, card, bytes.len() as u64)),
                (Ok(key), Err(_)) => unreadable.push(Removal::Card(key)),
                (Err(_), _) => {}
            }
        }
        // The latest of an element is the one that is compared with.
        cards.sort_by_key(|(_, card, _)| card.made.at_ms);
        for (key, card, size) in &cards {
            index.add(*key, card, *size);
        }
        for (path, bytes) in self.repository.documents(VERDICTS).await? {
            match (path.parse::<Digest>(), journal::read::<(u64, Verdict)>("verdict", &bytes)) {
                (Ok(path), Ok((at_ms, _))) => index.decided(path, at_ms),
                (Ok(path), Err(_)) => unreadable.push(Removal::Verdict(path)),
                (Err(_), _) => {}
            }
        }
        let mut removals = index.excess();
        removals.append(&mut unreadable);
        *self.state() = State { index, added: (0, 0) };
        Ok(removals)
    }

    /// Looks for results that can be used again. Files among them are kept for the process from now on.
    pub async fn look(&self, process: &str, sought: &Sought) -> Result<Box<Found>, Why> {
        let unavailable = |error: Error| Why::Unavailable(error.to_string());
        let key = sought.key.to_string();
        let Some((card, size)) = self.card(&key).await.map_err(unavailable)? else {
            let nearest = self.state().index.nearest(&sought.type_name, &sought.path);
            let Some(nearest) = nearest else { return Err(Why::First) };
            let card = self.card(&nearest.to_string()).await.map_err(unavailable)?;
            return Err(card.map_or(Why::First, |(card, _)| sought.compare(&card)));
        };
        match card.held {
            Held::Kept(_) => {}
            Held::Failed => return Err(Why::Failed(card.made)),
            Held::TooLarge(size) => return Err(Why::TooLarge(card.made, size)),
            Held::Removed => return Err(Why::Removed(card.made)),
        }
        let results = self.repository.get(RESULTS, &key).await.map_err(unavailable)?;
        let completed = results.and_then(|bytes| v1::Completed::decode(&*bytes).ok());
        let Some(mut completed) = completed else { return Err(Why::Removed(card.made)) };
        if let Err(file) = self.keep_files(process, &mut completed).await {
            return Err(Why::Gone(card.made, file));
        }
        let mut state = self.state();
        if !state.index.is_kept(&sought.key) {
            // Another coordinator has kept it.
            state.index.add(sought.key, &card, size);
        }
        Ok(Box::new(Found { earlier: card.made, completed }))
    }

    async fn card(&self, key: &str) -> Result<Option<(Card, u64)>, Error> {
        let bytes = self.repository.get(CARDS, key).await?;
        Ok(bytes.and_then(|bytes| Some((journal::read("card", &bytes).ok()?, bytes.len() as u64))))
    }

    /// Makes sure that somebody has the files among results, and keeps them for the process; tells which is gone.
    async fn keep_files(&self, process: &str, completed: &mut v1::Completed) -> Result<(), String> {
        let (holders, gone) = self.keeping.keep(process, &completed.results, true).await;
        if let Some(gone) = gone.first() {
            let digest = gone.content.as_ref().and_then(|content| Digest::from_bytes(&content.digest));
            return Err(format!("{} ({})", gone.uri, digest.map_or_else(String::new, |digest| digest.short())));
        }
        completed.results.iter_mut().for_each(|value| add_holders(value, &holders));
        Ok(())
    }

    /// The calls that keep these, in order.
    pub fn calls(&self, keeps: &[Keep]) -> Vec<Call> {
        let now = unix_ms();
        let put = |kind: &'static str, key: String, bytes: Bytes| -> Call {
            let repository = self.repository.clone();
            Box::pin(async move { repository.put(kind, &key, bytes).await })
        };
        let mut calls = Vec::new();
        for keep in keeps {
            match keep {
                Keep::Result { key, card, results } => {
                    let mut card = card.clone();
                    (card.made.at_ms, card.used_ms) = (now, now);
                    let (key, bytes) = (*key, journal::write(&card));
                    let mut state = self.state();
                    if card.held == Held::Failed && state.index.is_kept(&key) {
                        // It succeeded at another time.
                        continue;
                    }
                    let size = bytes.len() as u64;
                    state.index.add(key, &card, size);
                    state.added.0 += size + results.as_ref().map_or(0, |results| results.len() as u64);
                    state.added.1 += 1;
                    calls.push(put(CARDS, key.to_string(), bytes));
                    calls.extend(results.clone().map(|results| put(RESULTS, key.to_string(), results)));
                }
                Keep::Verdict(verdict) => {
                    let path = named(&verdict.path);
                    self.state().index.decided(path, now);
                    calls.push(put(VERDICTS, path.to_string(), journal::write(&(now, verdict))));
                }
                Keep::Used(key) => {
                    if self.state().index.used(*key, now) {
                        let (repository, key) = (self.repository.clone(), key.to_string());
                        calls.push(Box::pin(async move {
                            let Some(bytes) = repository.get(CARDS, &key).await? else { return Ok(()) };
                            let Ok(card) = journal::read::<Card>("card", &bytes) else { return Ok(()) };
                            repository.put(CARDS, &key, journal::write(&Card { used_ms: now, ..card })).await
                        }));
                    }
                }
            }
        }
        calls
    }

    /// Removes what is too much, behind everybody's back.
    pub fn tidy(self: &Arc<Self>) {
        let (removals, limit) = {
            let mut state = self.state();
            let (bytes, cards) = state.added;
            let much = bytes > state.index.limit() / PART || cards > MOST_CARDS as u64 / PART;
            match self.shared && much {
                true => {
                    state.added = (0, 0);
                    (Vec::new(), Some(state.index.limit()))
                }
                false => (state.index.excess(), None),
            }
        };
        if removals.is_empty() && limit.is_none() {
            return;
        }
        let shelf = self.clone();
        tokio::spawn(async move {
            let removals = match limit {
                None => removals,
                Some(limit) => shelf.read(limit).await.unwrap_or_default(),
            };
            shelf.carry_out(removals).await;
        });
    }

    async fn carry_out(&self, removals: Vec<Removal>) {
        if !removals.is_empty() {
            info!(removals = removals.len(), "results that could be used again are removed");
        }
        for some in removals.chunks(TOGETHER) {
            let calls = some.iter().map(|removal| {
                let (repository, removal) = (self.repository.clone(), *removal);
                Box::pin(async move { remove(&repository, removal).await }) as Call
            });
            for failed in all(calls.collect()).await.into_iter().filter_map(Result::err) {
                warn!(error = %failed, "a result that could be used again is not removed");
            }
        }
    }

    /// Removes all of it.
    pub async fn clear(&self) -> Result<(), Error> {
        let limit = self.state().index.limit();
        self.read(limit).await?;
        let removals = self.state().index.clear();
        self.carry_out(removals).await;
        Ok(())
    }

    /// What was decided for an activity, and when.
    pub async fn verdict(&self, path: &str) -> Result<Option<(u64, Verdict)>, Error> {
        let bytes = self.repository.get(VERDICTS, &named(path).to_string()).await?;
        let verdict = bytes.and_then(|bytes| journal::read::<(u64, Verdict)>("verdict", &bytes).ok());
        Ok(verdict.filter(|(_, verdict)| verdict.path == path))
    }
}

async fn remove(repository: &Store, removal: Removal) -> Result<(), Error> {
    match removal {
        Removal::Results(key) => {
            let key = key.to_string();
            repository.remove(RESULTS, &key).await?;
            let Some(bytes) = repository.get(CARDS, &key).await? else { return Ok(()) };
            let Ok(card) = journal::read::<Card>("card", &bytes) else { return Ok(()) };
            repository.put(CARDS, &key, journal::write(&Card { held: Held::Removed, ..card })).await
        }
        Removal::Card(key) => {
            let key = key.to_string();
            repository.remove(RESULTS, &key).await?;
            repository.remove(CARDS, &key).await
        }
        Removal::Verdict(path) => repository.remove(VERDICTS, &path.to_string()).await,
    }
}

fn named(path: &str) -> Digest {
    Digest(*blake3::hash(path.as_bytes()).as_bytes())
}
