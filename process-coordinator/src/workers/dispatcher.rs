//! The pool of workers in the world: its clock, its connections, its mail.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};
use xavantes_proto::v1;

use crate::data::pinning::pin_owner;
use crate::process::input::ProcessInput;
use crate::workers::connection::{self as link, Context};
use crate::workers::handle::{Orders, PoolMail};
use crate::workers::messages::{PoolNotice, Share};
use crate::workers::pool::{Effect, Pool};

/// Documents under this kind are borrowed workers that may have something of ours.
pub(crate) const BORROWED: &str = "borrowed";

const LOOK: Duration = Duration::from_millis(100);

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
            PoolMail::HandOver(key) => pool.hand(&key, now),
            PoolMail::PlaceFound(key, node) => pool.placed(key, node),
            PoolMail::Moved(key, place, answer) => drop(answer.send(pool.moved(&key, &place, now))),
            PoolMail::Borrowed(place) => pool.borrowed(place, now),
            PoolMail::LeaseStored(name) => pool.remembered(&name),
            PoolMail::LeaseRestored(name, address) => pool.recall(name, address, now),
            PoolMail::Cancel(key) => pool.cancel(key),
            PoolMail::Pause(key, paused) => pool.pause(key, paused),
            PoolMail::Abandon(key) => pool.abandon(&key),
            PoolMail::ProcessBegan(process, epoch) => pool.began(process, epoch),
            PoolMail::ProcessRecovered(process, epoch, attempts) => pool.recover(&process, epoch, attempts, now),
            PoolMail::ProcessEnded(process) => pool.over(&process),
            PoolMail::ProcessLost(process) => pool.lose(process),
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
                    let owner = pin_owner(&self.context.hello.realm, &release.process);
                    files.store().release_except(&owner, &release.files, &release.directories);
                }
                if everywhere {
                    pool.release(&release);
                }
            }
            PoolMail::Relays(answer) => drop(answer.send(pool.relays())),
            PoolMail::DelegatedParts(process, answer) => drop(answer.send(pool.handed(&process))),
            PoolMail::Vicinity(path, answer) => drop(answer.send(pool.vicinity(&path))),
            PoolMail::Whereabouts(keys, answer) => drop(answer.send(pool.whereabouts(&keys))),
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
                let input = match told {
                    PoolNotice::Answered(outcome) => ProcessInput::Answered { key, outcome, extras: None, from: None },
                    PoolNotice::Lost => ProcessInput::Lost(key),
                    PoolNotice::Placed(place) => ProcessInput::Placed(key, place),
                };
                process.notify(input).await;
            }
            Effect::FindPlace(key) => {
                let context = self.context.clone();
                tokio::spawn(async move {
                    let place = context.place(v1::place_request::What::Coordinator, None).await;
                    context.pool.place_found(key, place.and_then(|place| place.node));
                });
            }
            Effect::Borrow(again) => {
                let context = self.context.clone();
                tokio::spawn(async move {
                    if let Some(place) = context.place(v1::place_request::What::Worker, again.as_deref()).await {
                        context.pool.borrowed(place);
                    }
                });
            }
            Effect::Remember(name, address) => {
                info!(worker = %name, "borrowed a worker of another group");
                let context = self.context.clone();
                tokio::spawn(async move {
                    let address = address.into_bytes().into();
                    match context.repository.put(BORROWED, &name, address).await {
                        Ok(()) => context.pool.lease_stored(name),
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
