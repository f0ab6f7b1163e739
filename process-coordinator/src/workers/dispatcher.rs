//! The pool of workers in the world: its clock, its connections, its mail.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};
use xavantes_model::digest::Digest;
use xavantes_proto::v1;

use crate::attempt::{AttemptKey, Task};
use crate::process::driver::{Incoming, Recovered};
use crate::process::journal::Placement;
use crate::workers::connection::{self as link, Context, Orders, owner};
use crate::workers::pool::{Effect, Moved, Pool, Share, Told, Vicinity, Whereabouts};

/// Documents under this kind are borrowed workers that may have something of ours.
pub(crate) const BORROWED: &str = "borrowed";

const LOOK: Duration = Duration::from_millis(100);

/// What the pool is told.
#[derive(Debug)]
pub(crate) enum PoolMail {
    Roster(v1::Roster),
    Dispatch(Vec<Task>),
    Delegate(Task),
    Hand(AttemptKey),
    Placed(AttemptKey, Option<v1::NodeDescription>),
    Moved(AttemptKey, Placement, oneshot::Sender<Moved>),
    Borrowed(v1::PlaceResponse),
    Remembered(Arc<str>),
    Recall(Arc<str>, String),
    Cancel(AttemptKey),
    Pause(AttemptKey, bool),
    Abandon(AttemptKey),
    Began(Arc<str>, u64),
    Recovered(Arc<str>, u64, Vec<Recovered>),
    Over(Arc<str>),
    Lost(Arc<str>),
    Connected(Arc<str>, v1::WorkerHello, Orders),
    Known(Arc<str>, v1::Known),
    Disconnected(Arc<str>),
    Draining(Arc<str>),
    Answered(Arc<str>, Vec<AttemptKey>),
    Refused(Arc<str>, AttemptKey, v1::Refusal),
    Holds(Arc<str>, Vec<Digest>),
    Lacks(Arc<str>, Vec<Digest>),
    Holders(Vec<Digest>, oneshot::Sender<Vec<Vec<String>>>),
    /// Who could fetch files of other groups?
    Relays(oneshot::Sender<Vec<String>>),
    /// Which parts of a process are where, at other coordinators?
    Handed(Arc<str>, oneshot::Sender<Vec<(String, String)>>),
    /// Here, and if workers may have kept something, there too.
    Release(Arc<v1::Release>, bool),
    Where(Vec<AttemptKey>, oneshot::Sender<Vec<Option<Whereabouts>>>),
    /// Where are the workers, and where the coordinators that have, or had, this part of a process?
    Vicinity(String, oneshot::Sender<Vicinity>),
}

/// To the pool. What waits in it is bounded by the attempts that are out.
pub(crate) type PoolSender = mpsc::UnboundedSender<PoolMail>;

struct Link {
    task: JoinHandle<()>,
    orders: Option<Orders>,
}

/// The task that owns the pool, so that nothing is locked.
pub(crate) struct Dispatcher {
    context: Context,
    pool: Pool,
    links: HashMap<Arc<str>, Link>,
    began: Instant,
    share: watch::Sender<Share>,
}

impl Dispatcher {
    pub fn new(context: Context) -> (Self, watch::Receiver<Share>) {
        let (share, shared) = watch::channel(Share::default());
        let (pool, links, began) = (Pool::default(), HashMap::new(), Instant::now());
        (Self { context, pool, links, began, share }, shared)
    }

    pub async fn run(mut self, mut mail: mpsc::UnboundedReceiver<PoolMail>) {
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                count = mail.recv_many(&mut batch, 1024) => {
                    if count == 0 {
                        return;
                    }
                    let now = self.began.elapsed();
                    for mail in batch.drain(..) {
                        self.take(mail, now);
                    }
                }
                _ = look.tick() => self.pool.look(self.began.elapsed()),
            }
            self.pool.place(self.began.elapsed());
            for effect in self.pool.effects() {
                self.carry_out(effect).await;
            }
            let share = self.pool.share();
            self.share.send_if_modified(|old| std::mem::replace(old, share) != share);
        }
    }

    fn take(&mut self, mail: PoolMail, now: Duration) {
        let pool = &mut self.pool;
        match mail {
            PoolMail::Roster(roster) => pool.roster(roster, now),
            PoolMail::Dispatch(tasks) => tasks.into_iter().for_each(|task| pool.dispatch(task)),
            PoolMail::Delegate(task) => pool.delegate(task),
            PoolMail::Hand(key) => pool.hand(&key, now),
            PoolMail::Placed(key, node) => pool.placed(key, node),
            PoolMail::Moved(key, place, answer) => drop(answer.send(pool.moved(&key, &place, now))),
            PoolMail::Borrowed(place) => pool.borrowed(place, now),
            PoolMail::Remembered(name) => pool.remembered(&name),
            PoolMail::Recall(name, address) => pool.recall(name, address, now),
            PoolMail::Cancel(key) => pool.cancel(key),
            PoolMail::Pause(key, paused) => pool.pause(key, paused),
            PoolMail::Abandon(key) => pool.abandon(&key),
            PoolMail::Began(process, epoch) => pool.began(process, epoch),
            PoolMail::Recovered(process, epoch, attempts) => pool.recover(&process, epoch, attempts, now),
            PoolMail::Over(process) => pool.over(&process),
            PoolMail::Lost(process) => pool.lose(process),
            PoolMail::Connected(name, hello, orders) => {
                if let Some(link) = self.links.get_mut(&name) {
                    link.orders = Some(orders);
                    pool.connected(&name, hello, now);
                }
            }
            PoolMail::Known(name, known) => pool.known(&name, known),
            PoolMail::Disconnected(name) => {
                if let Some(link) = self.links.get_mut(&name) {
                    link.orders = None;
                }
                pool.disconnected(&name, now);
            }
            PoolMail::Draining(name) => pool.draining(&name),
            PoolMail::Answered(name, keys) => pool.answered(&name, &keys, now),
            PoolMail::Refused(name, key, refusal) => {
                if refusal.permanent {
                    warn!(worker = %name, process = %key.process, reason = %refusal.reason.clone().unwrap_or_default(), "attempt refused permanently");
                }
                pool.refused(&name, &key, refusal, now);
            }
            PoolMail::Holds(name, digests) => pool.holds(&name, digests),
            PoolMail::Lacks(name, digests) => pool.lacks(&name, &digests),
            PoolMail::Holders(digests, answer) => {
                drop(answer.send(digests.iter().map(|digest| pool.holders(digest)).collect()));
            }
            PoolMail::Release(release, everywhere) => {
                if let Some(files) = &self.context.files {
                    let owner = owner(&self.context.hello.realm, &release.process);
                    files.store().release_except(&owner, &release.files, &release.directories);
                }
                if everywhere {
                    pool.release(&release);
                }
            }
            PoolMail::Relays(answer) => drop(answer.send(pool.relays())),
            PoolMail::Handed(process, answer) => drop(answer.send(pool.handed(&process))),
            PoolMail::Vicinity(path, answer) => drop(answer.send(pool.vicinity(&path))),
            PoolMail::Where(keys, answer) => drop(answer.send(pool.whereabouts(&keys))),
        }
    }

    async fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Connect(name, peer, address) => {
                debug!(peer = %name, address, "connecting");
                let task = tokio::spawn(link::run(self.context.clone(), peer, name.clone(), address));
                if let Some(old) = self.links.insert(name, Link { task, orders: None }) {
                    old.task.abort();
                }
            }
            Effect::Disconnect(name) => {
                if let Some(link) = self.links.remove(&name) {
                    link.task.abort();
                }
            }
            Effect::Order(name, order) => {
                // A link that broke in this moment tells so.
                if let Some(orders) = self.links.get(&name).and_then(|link| link.orders.as_ref()) {
                    let _ = orders.send(order);
                }
            }
            Effect::Tell(key, told) => {
                let Some(process) = self.context.processes.find(&key.process) else { return };
                let incoming = match told {
                    Told::Answered(outcome) => Incoming::Answered { key, outcome, besides: None, from: None },
                    Told::Lost => Incoming::Lost(key),
                    Told::Placed(place) => Incoming::Placed(key, place),
                };
                let _ = process.mail.send(incoming.into()).await;
            }
            Effect::FindPlace(key) => {
                let context = self.context.clone();
                tokio::spawn(async move {
                    let place = context.place(v1::place_request::What::Coordinator, None).await;
                    let _ = context.pool.send(PoolMail::Placed(key, place.and_then(|place| place.node)));
                });
            }
            Effect::Borrow(again) => {
                let context = self.context.clone();
                tokio::spawn(async move {
                    if let Some(place) = context.place(v1::place_request::What::Worker, again.as_deref()).await {
                        let _ = context.pool.send(PoolMail::Borrowed(place));
                    }
                });
            }
            Effect::Remember(name, address) => {
                info!(worker = %name, "borrowed a worker of another group");
                let context = self.context.clone();
                tokio::spawn(async move {
                    let address = address.into_bytes().into();
                    match context.repository.put(BORROWED, &name, address).await {
                        Ok(()) => drop(context.pool.send(PoolMail::Remembered(name))),
                        Err(error) => warn!(worker = %name, %error, "a borrowed worker is not used"),
                    }
                });
            }
            Effect::Forget(name) => {
                let context = self.context.clone();
                tokio::spawn(async move {
                    if let Err(error) = context.repository.remove(BORROWED, &name).await {
                        debug!(worker = %name, %error, "still remembered");
                    }
                });
            }
        }
    }
}
