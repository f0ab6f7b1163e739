//! How other tasks talk to the pool, and to one connected peer.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use xavantes_model::digest::Digest;
use xavantes_proto::v1;

use crate::handover::{RecoveredAttempt, SubtreePlace};
use crate::workers::pool::pool_input::PoolInput;
use crate::workers::worker_messages::{MoveOutcome, Order, Vicinity, Whereabouts};
use xavantes_proto::AttemptKey;

/// Sends orders to one connected peer. The queue is bounded by the attempts that the peer has.
pub(crate) type Orders = mpsc::UnboundedSender<Order>;

/// A part of a process that runs at another coordinator: its path, and the address of that coordinator.
pub(crate) type DelegatedSubtree = (String, String);

/// The attempts of a report that the peer does not have.
#[derive(Debug, Default)]
pub(crate) struct NotHeld {
    /// Attempts that it answered.
    pub answers: Vec<AttemptKey>,
    /// Attempts for which it calls shared objects.
    pub calls: Vec<AttemptKey>,
}

/// A message to the dispatcher, which owns the pool. Names of peers come first.
#[derive(Debug)]
pub(crate) enum PoolMail {
    Input(PoolInput),
    /// A peer answered attempts, and calls shared objects for attempts.
    Reported {
        peer: Arc<str>,
        answered: Vec<AttemptKey>,
        callers: Vec<AttemptKey>,
        answer: oneshot::Sender<NotHeld>,
    },
    Moved(AttemptKey, SubtreePlace, oneshot::Sender<MoveOutcome>),
    Connected(Arc<str>, v1::WorkerHello, Orders),
    Disconnected(Arc<str>),
    /// Releases pinned files on this node, and with `true` on all workers.
    Release(Arc<v1::Release>, bool),
    Holders(Vec<Digest>, oneshot::Sender<Vec<Vec<String>>>),
    Relays(oneshot::Sender<Vec<String>>),
    DelegatedSubtrees(Arc<str>, oneshot::Sender<Vec<DelegatedSubtree>>),
    Whereabouts(Vec<AttemptKey>, oneshot::Sender<Vec<Option<Whereabouts>>>),
    Vicinity(String, oneshot::Sender<Vicinity>),
}

/// The pool, as other tasks use it; cheap to clone. Messages are lost only when the coordinator shuts down, and questions
/// then get empty answers. The queue is bounded by the outstanding attempts.
#[derive(Debug, Clone)]
pub(crate) struct PoolHandle(mpsc::UnboundedSender<PoolMail>);

impl PoolHandle {
    /// The handle, and the mail for the dispatcher.
    pub fn new() -> (Self, mpsc::UnboundedReceiver<PoolMail>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), receiver)
    }

    fn send(&self, mail: PoolMail) {
        let _ = self.0.send(mail);
    }

    /// Sends an input to the pool.
    pub fn handle(&self, input: PoolInput) {
        self.send(PoolMail::Input(input));
    }

    /// Sends a question at once; the future waits for the answer.
    fn ask<T, F>(&self, message: F) -> impl Future<Output = Option<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce(oneshot::Sender<T>) -> PoolMail,
    {
        let (sender, receiver) = oneshot::channel();
        self.send(message(sender));
        async move { receiver.await.ok() }
    }

    /// The group, as its manager knows it now.
    pub fn set_roster(&self, roster: v1::Roster) {
        self.handle(PoolInput::Roster(roster));
    }

    /// A process began, in this epoch.
    pub fn process_began(&self, process: Arc<str>, epoch: u64) {
        self.handle(PoolInput::ProcessBegan(process, epoch));
    }

    /// A process was recovered, in this epoch, with these outstanding attempts.
    pub fn process_recovered(&self, process: Arc<str>, epoch: u64, attempts: Vec<RecoveredAttempt>) {
        self.handle(PoolInput::ProcessRecovered(process, epoch, attempts));
    }

    /// A process ended.
    pub fn process_ended(&self, process: Arc<str>) {
        self.handle(PoolInput::ProcessEnded(process));
    }

    /// Another coordinator runs a process, or no coordinator can.
    pub fn process_lost(&self, process: Arc<str>) {
        self.handle(PoolInput::ProcessLost(process));
    }

    /// Releases files that are pinned for a process, on this node and with `everywhere` on all workers.
    pub fn release(&self, release: v1::Release, everywhere: bool) {
        self.send(PoolMail::Release(release.into(), everywhere));
    }

    /// The group manager found this coordinator, or none, for a subtree.
    pub fn place_found(&self, key: AttemptKey, node: Option<v1::NodeDescription>) {
        self.handle(PoolInput::PlaceFound(key, node));
    }

    /// The group manager found a worker of another group.
    pub fn borrowed(&self, place: v1::PlaceResponse) {
        self.handle(PoolInput::Borrowed(place));
    }

    /// The repository has the name of a borrowed worker, and this coordinator has owned its processes since.
    pub fn lease_stored(&self, worker: Arc<str>) {
        self.handle(PoolInput::LeaseStored(worker));
    }

    /// This coordinator borrowed a worker before it was started.
    pub fn lease_restored(&self, worker: Arc<str>, address: String) {
        self.handle(PoolInput::LeaseRestored(worker, address));
    }

    /// A peer connected.
    pub fn connected(&self, peer: Arc<str>, hello: v1::WorkerHello, orders: Orders) {
        self.send(PoolMail::Connected(peer, hello, orders));
    }

    /// A peer answered attempts and calls shared objects for attempts. Returns the attempts among them that it does not have.
    pub async fn reported(&self, peer: Arc<str>, answered: Vec<AttemptKey>, callers: Vec<AttemptKey>) -> NotHeld {
        self.ask(|answer| PoolMail::Reported { peer, answered, callers, answer }).await.unwrap_or_default()
    }

    /// The connection to a peer broke. False if the coordinator shuts down.
    pub fn disconnected(&self, peer: Arc<str>) -> bool {
        self.0.send(PoolMail::Disconnected(peer)).is_ok()
    }

    /// A subtree runs at another coordinator now.
    pub async fn moved(&self, key: AttemptKey, place: SubtreePlace) -> MoveOutcome {
        self.ask(|answer| PoolMail::Moved(key, place, answer)).await.unwrap_or(MoveOutcome::Recording)
    }

    /// Addresses of the workers that hold each of these objects.
    pub async fn holders(&self, digests: Vec<Digest>) -> Vec<Vec<String>> {
        self.ask(|answer| PoolMail::Holders(digests, answer)).await.unwrap_or_default()
    }

    /// Addresses of coordinators that can fetch files of other groups.
    pub async fn relays(&self) -> Vec<String> {
        self.ask(PoolMail::Relays).await.unwrap_or_default()
    }

    /// The parts of a process that run at other coordinators.
    pub async fn delegated_subtrees(&self, process: Arc<str>) -> Vec<DelegatedSubtree> {
        self.ask(|answer| PoolMail::DelegatedSubtrees(process, answer)).await.unwrap_or_default()
    }

    /// Where attempts are. The question is sent before this returns, so that its order among other messages is known.
    pub fn whereabouts(&self, keys: Vec<AttemptKey>) -> impl Future<Output = Vec<Option<Whereabouts>>> + Send + use<> {
        let answer = self.ask(|answer| PoolMail::Whereabouts(keys, answer));
        async move { answer.await.unwrap_or_default() }
    }

    /// The workers, and the coordinators that run or ran the element at a path or an ancestor of it.
    pub async fn vicinity(&self, path: &str) -> Vicinity {
        self.ask(|answer| PoolMail::Vicinity(path.to_owned(), answer)).await.unwrap_or_default()
    }
}
