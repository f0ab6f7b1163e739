//! The task that owns the [`Pool`]: it takes mail for the pool, gives it the time, and carries its commands out.

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
use crate::workers::messages::{MoveOutcome, PoolCommand, PoolNotice, Share, Vicinity, Whereabouts};
use crate::workers::pool::Pool;

/// Kind of the stored documents that name borrowed workers, which may have attempts of this coordinator.
pub(crate) const BORROWED: &str = "borrowed";

const TICK_INTERVAL: Duration = Duration::from_millis(100);
/// Upper bound on the mails that the dispatcher handles before it places queued attempts.
const MAX_MAIL_BATCH: usize = 1024;

/// What the pool is told.
#[derive(Debug)]
pub(crate) enum PoolMail {
    Roster(v1::Roster),
    Dispatch(Vec<Task>),
    Delegate(Task),
    Hand(AttemptKey),
    Placed(AttemptKey, Option<v1::NodeDescription>),
    Moved(AttemptKey, Placement, oneshot::Sender<MoveOutcome>),
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
    /// Present while the peer is connected.
    orders: Option<Orders>,
}

/// Owns the pool, so that no lock is needed.
pub(crate) struct Dispatcher {
    context: Context,
    pool: Pool,
    links: HashMap<Arc<str>, Link>,
    began: Instant,
    share: watch::Sender<Share>,
}

impl Dispatcher {
    /// A dispatcher with an empty pool, and the share of each process as it changes.
    pub fn new(context: Context) -> (Self, watch::Receiver<Share>) {
        let (share, shared) = watch::channel(Share::default());
        let (pool, links, began) = (Pool::default(), HashMap::new(), Instant::now());
        (Self { context, pool, links, began, share }, shared)
    }

    /// Runs until all senders of mail are gone.
    pub async fn run(mut self, mut mail: mpsc::UnboundedReceiver<PoolMail>) {
        let mut tick = tokio::time::interval(TICK_INTERVAL);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                count = mail.recv_many(&mut batch, MAX_MAIL_BATCH) => {
                    if count == 0 {
                        return;
                    }
                    let now = self.began.elapsed();
                    for mail in batch.drain(..) {
                        self.on_mail(mail, now);
                    }
                }
                _ = tick.tick() => self.pool.on_tick(self.began.elapsed()),
            }
            self.pool.place_queued(self.began.elapsed());
            for command in self.pool.take_commands() {
                self.carry_out(command).await;
            }
            let share = self.pool.share();
            self.share.send_if_modified(|old| std::mem::replace(old, share) != share);
        }
    }

    fn on_mail(&mut self, mail: PoolMail, now: Duration) {
        let pool = &mut self.pool;
        match mail {
            PoolMail::Roster(roster) => pool.on_roster(roster, now),
            PoolMail::Dispatch(tasks) => tasks.into_iter().for_each(|task| pool.dispatch(task)),
            PoolMail::Delegate(task) => pool.delegate(task),
            PoolMail::Hand(key) => pool.on_place_recorded(&key, now),
            PoolMail::Placed(key, node) => pool.on_place_found(key, node),
            PoolMail::Moved(key, place, answer) => drop(answer.send(pool.on_moved(&key, &place, now))),
            PoolMail::Borrowed(place) => pool.on_borrowed(place, now),
            PoolMail::Remembered(name) => pool.on_lease_stored(&name),
            PoolMail::Recall(name, address) => pool.restore_lease(name, address, now),
            PoolMail::Cancel(key) => pool.cancel(key),
            PoolMail::Pause(key, paused) => pool.pause(key, paused),
            PoolMail::Abandon(key) => pool.abandon(&key),
            PoolMail::Began(process, epoch) => pool.begin_process(process, epoch),
            PoolMail::Recovered(process, epoch, attempts) => pool.recover_process(&process, epoch, attempts, now),
            PoolMail::Over(process) => pool.end_process(&process),
            PoolMail::Lost(process) => pool.lose_process(process),
            PoolMail::Connected(name, hello, orders) => {
                if let Some(link) = self.links.get_mut(&name) {
                    link.orders = Some(orders);
                    pool.on_connected(&name, hello, now);
                }
            }
            PoolMail::Known(name, known) => pool.on_known(&name, known),
            PoolMail::Disconnected(name) => {
                if let Some(link) = self.links.get_mut(&name) {
                    link.orders = None;
                }
                pool.on_disconnected(&name, now);
            }
            PoolMail::Draining(name) => pool.on_draining(&name),
            PoolMail::Answered(name, keys) => pool.on_answered(&name, &keys, now),
            PoolMail::Refused(name, key, refusal) => {
                if refusal.permanent {
                    let reason = refusal.reason.clone().unwrap_or_default();
                    warn!(worker = %name, attempt = %key, %reason, "attempt refused permanently");
                }
                pool.on_refused(&name, &key, refusal, now);
            }
            PoolMail::Holds(name, digests) => pool.add_files(&name, digests),
            PoolMail::Lacks(name, digests) => pool.remove_files(&name, &digests),
            PoolMail::Holders(digests, answer) => {
                drop(answer.send(digests.iter().map(|digest| pool.holders(digest)).collect()));
            }
            PoolMail::Release(release, everywhere) => {
                if let Some(files) = &self.context.files {
                    let owner = owner(&self.context.hello.realm, &release.process);
                    files.store().release_except(&owner, &release.files, &release.directories);
                }
                if everywhere {
                    pool.release_files(&release);
                }
            }
            PoolMail::Relays(answer) => drop(answer.send(pool.relays())),
            PoolMail::Handed(process, answer) => drop(answer.send(pool.delegated_subtrees(&process))),
            PoolMail::Vicinity(path, answer) => drop(answer.send(pool.vicinity(&path))),
            PoolMail::Where(keys, answer) => drop(answer.send(pool.whereabouts(&keys))),
        }
    }

    async fn carry_out(&mut self, command: PoolCommand) {
        match command {
            PoolCommand::Connect(name, kind, address) => {
                debug!(peer = %name, address, "connecting");
                let task = tokio::spawn(link::run(self.context.clone(), kind, name.clone(), address));
                if let Some(old) = self.links.insert(name, Link { task, orders: None }) {
                    old.task.abort();
                }
            }
            PoolCommand::Disconnect(name) => {
                if let Some(link) = self.links.remove(&name) {
                    link.task.abort();
                }
            }
            PoolCommand::Send(name, order) => {
                // If the connection has just broken, its link reports so.
                if let Some(orders) = self.links.get(&name).and_then(|link| link.orders.as_ref()) {
                    let _ = orders.send(order);
                }
            }
            PoolCommand::Notify(key, notice) => {
                let Some(process) = self.context.processes.find(&key.process) else { return };
                let incoming = match notice {
                    PoolNotice::Answered(outcome) => Incoming::Answered { key, outcome, besides: None, from: None },
                    PoolNotice::Lost(reason) => {
                        warn!(attempt = %key, %reason, "attempt lost");
                        Incoming::Lost(key)
                    }
                    PoolNotice::Placed(place) => Incoming::Placed(key, place),
                };
                let _ = process.mail.send(incoming.into()).await;
            }
            PoolCommand::FindPlace(key) => {
                let context = self.context.clone();
                tokio::spawn(async move {
                    let place = context.place(v1::place_request::What::Coordinator, None).await;
                    let _ = context.pool.send(PoolMail::Placed(key, place.and_then(|place| place.node)));
                });
            }
            PoolCommand::Borrow(again) => {
                let context = self.context.clone();
                tokio::spawn(async move {
                    if let Some(place) = context.place(v1::place_request::What::Worker, again.as_deref()).await {
                        let _ = context.pool.send(PoolMail::Borrowed(place));
                    }
                });
            }
            PoolCommand::StoreLease(name, address) => {
                info!(worker = %name, "borrowed a worker of another group");
                let context = self.context.clone();
                tokio::spawn(async move {
                    let address = address.into_bytes().into();
                    match context.repository.put(BORROWED, &name, address).await {
                        Ok(()) => drop(context.pool.send(PoolMail::Remembered(name))),
                        Err(error) => {
                            warn!(worker = %name, %error, "cannot store the lease of a worker; it gets no attempts")
                        }
                    }
                });
            }
            PoolCommand::DeleteLease(name) => {
                let context = self.context.clone();
                tokio::spawn(async move {
                    if let Err(error) = context.repository.remove(BORROWED, &name).await {
                        debug!(worker = %name, %error, "cannot delete the lease of a worker");
                    }
                });
            }
        }
    }
}
