//! The task that owns the [`Pool`]: it takes mail for the pool, gives it the time, and carries its commands out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tracing::{debug, info, warn};
use xavantes_telemetry::{DelegationSide, metrics};

use crate::data::pinning::pin_owner;
use crate::process::driver_input::ProcessInput;
use crate::workers::handle::{NotHeld, Orders, PoolMail};
use crate::workers::lease_documents::{LeaseWrite, write_leases};
use crate::workers::pool::Pool;
use crate::workers::pool::pool_input::PoolInput;
use crate::workers::worker_link::{self as link, Context, Delivery};
use crate::workers::worker_messages::{Order, PoolCommand, PoolNotice, Share};

const TICK_INTERVAL: Duration = Duration::from_millis(100);
/// Upper bound on the mails that the dispatcher handles before it places queued attempts.
const MAX_MAIL_BATCH: usize = 1024;

struct PeerLink {
    task: JoinHandle<()>,
    delivery: Arc<Delivery>,
    /// State of the delivery at the last tick.
    last_delivery: u64,
    /// Present while the peer is connected.
    orders: Option<Orders>,
}

/// Owns the pool, so that no lock is needed.
pub(crate) struct Dispatcher {
    context: Context,
    pool: Pool,
    links: HashMap<Arc<str>, PeerLink>,
    began: Instant,
    share: watch::Sender<Share>,
    lease_writes: mpsc::UnboundedSender<LeaseWrite>,
}

impl Dispatcher {
    /// A dispatcher with an empty pool, and the share of each process as it changes. `stored` gets the borrowed workers whose
    /// names are stored. Must be called on a runtime.
    pub fn new(context: Context, stored: mpsc::UnboundedSender<Arc<str>>) -> (Self, watch::Receiver<Share>) {
        let (share, shared) = watch::channel(Share::default());
        let (pool, links, began) = (Pool::with_patience(context.patience), HashMap::new(), Instant::now());
        let (lease_writes, receiver) = mpsc::unbounded_channel();
        tokio::spawn(write_leases(context.clone(), receiver, stored));
        (Self { context, pool, links, began, share, lease_writes }, shared)
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
                _ = tick.tick() => self.on_tick(self.began.elapsed()),
            }
            self.pool.place_queued(self.began.elapsed());
            for command in self.pool.take_commands() {
                self.carry_out(command).await;
            }
            let share = self.pool.share();
            self.share.send_if_modified(|old| std::mem::replace(old, share) != share);
        }
    }

    fn on_tick(&mut self, now: Duration) {
        for (name, link) in &mut self.links {
            let before = std::mem::replace(&mut link.last_delivery, link.delivery.state());
            if before == link.last_delivery && Delivery::is_busy(before) {
                self.pool.on_unread_reports(name, now);
            }
        }
        self.pool.on_tick(now);
    }

    fn on_mail(&mut self, mail: PoolMail, now: Duration) {
        let pool = &mut self.pool;
        match mail {
            PoolMail::Input(input) => {
                if let PoolInput::Refused(name, key, refusal) = &input
                    && refusal.permanent
                {
                    let reason = refusal.reason.clone().unwrap_or_default();
                    warn!(worker = %name, attempt = %key, %reason, "attempt refused permanently");
                }
                pool.handle(input, now);
            }
            PoolMail::Reported { peer, answered, callers, answer } => {
                let answers = pool.on_answered(&peer, &answered, now);
                let calls = pool.not_held(&peer, &callers);
                drop(answer.send(NotHeld { answers, calls }));
            }
            PoolMail::Moved(key, place, answer) => drop(answer.send(pool.on_moved(&key, &place, now))),
            PoolMail::Connected(name, hello, orders) => {
                if let Some(link) = self.links.get_mut(&name) {
                    link.orders = Some(orders);
                    pool.on_connected(&name, hello, now);
                }
            }
            PoolMail::Disconnected(name) => {
                if let Some(link) = self.links.get_mut(&name) {
                    link.orders = None;
                }
                pool.on_disconnected(&name, now);
            }
            PoolMail::Holders(digests, answer) => {
                drop(answer.send(digests.iter().map(|digest| pool.holders(digest)).collect()));
            }
            PoolMail::Release(release, everywhere) => {
                if let Some(files) = &self.context.files {
                    let owner = pin_owner(&self.context.hello.realm, &release.process);
                    files.store().release_except(&owner, &release.files, &release.directories);
                }
                if everywhere {
                    pool.release_files(&release);
                }
            }
            PoolMail::Relays(answer) => drop(answer.send(pool.relays())),
            PoolMail::DelegatedSubtrees(process, answer) => drop(answer.send(pool.delegated_subtrees(&process))),
            PoolMail::Vicinity(path, answer) => drop(answer.send(pool.vicinity(&path))),
            PoolMail::Whereabouts(keys, answer) => drop(answer.send(pool.whereabouts(&keys))),
        }
    }

    async fn carry_out(&mut self, command: PoolCommand) {
        match command {
            PoolCommand::Connect(name, kind, address) => {
                debug!(peer = %name, address, "connecting");
                let delivery = Arc::<Delivery>::default();
                let task = tokio::spawn(link::run(self.context.clone(), kind, name.clone(), address, delivery.clone()));
                let link = PeerLink { task, delivery, last_delivery: 0, orders: None };
                if let Some(old) = self.links.insert(name, link) {
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
                    if matches!(&order, Order::Job(job) if job.subtree.is_some()) {
                        metrics().delegations.of(DelegationSide::Parent).inc();
                    }
                    let _ = orders.send(order);
                }
            }
            PoolCommand::Notify(key, notice) => {
                let Some(process) = self.context.processes.find(&key.process) else { return };
                if let PoolNotice::Lost(reason) = &notice {
                    warn!(attempt = %key, %reason, "attempt lost");
                    metrics().attempts_lost.inc();
                }
                process.notify(ProcessInput::of_notice(key, notice)).await;
            }
            PoolCommand::ReportLoad(process, load) => {
                if let Some(process) = self.context.processes.find(&process) {
                    process.set_load(load);
                }
            }
            PoolCommand::FindPlace(key, lenders) => {
                let context = self.context.clone();
                tokio::spawn(async move {
                    let place = context.find_coordinator(lenders).await;
                    context.pool.place_found(key, place.and_then(|place| place.node));
                });
            }
            PoolCommand::Borrow(needs) => {
                let context = self.context.clone();
                tokio::spawn(async move {
                    context.borrow_worker(needs).await.into_iter().for_each(|place| context.pool.borrowed(place));
                });
            }
            PoolCommand::Renew(worker) => {
                let context = self.context.clone();
                tokio::spawn(async move {
                    context.renew_lease(&worker).await.into_iter().for_each(|place| context.pool.borrowed(place));
                });
            }
            PoolCommand::StoreLease(name, address) => {
                info!(worker = %name, "borrowed a worker of another group");
                let _ = self.lease_writes.send(LeaseWrite::Store(name, address));
            }
            PoolCommand::ReportSilent(name, attempts, pause) => {
                warn!(worker = %name, attempts, "worker neither runs nor answers its attempts; it gets none for {pause:?}");
            }
            PoolCommand::DeleteLease(name) => drop(self.lease_writes.send(LeaseWrite::Delete(name))),
        }
    }
}
