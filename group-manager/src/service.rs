//! Nodes join and beat; everybody hears of changes; other groups ask for room.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};
use tracing::{debug, info, warn};
use xavantes_proto::v1;
use xavantes_proto::v1::group_manager_server::GroupManager;

use crate::federation::Federation;
use crate::neighbours;
use crate::placement::{Own, Place, What, place};
use crate::registry::{LEASE, Registry};

/// How a group manager is set up.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The group.
    pub group: String,
    /// Where this manager is reached.
    pub address: String,
    /// Managers of the group that lead before this one.
    pub before: Vec<String>,
    /// Managers of adjacent groups.
    pub adjacent: Vec<String>,
    /// External data by name.
    pub sources: BTreeMap<String, String>,
    /// Groups whose work is taken; none means all.
    pub foreign_groups: Vec<String>,
    /// Slots that foreign work may use at once.
    pub foreign_slots: u32,
}

/// The group manager; cheap to clone.
#[derive(Clone)]
pub struct Service {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    options: Options,
    began: Instant,
    books: Mutex<Books>,
    /// Counts the changes that nodes must hear of.
    changes: watch::Sender<u64>,
    pub(crate) leads: AtomicBool,
    number: AtomicU64,
}

struct Books {
    registry: Registry,
    federation: Federation,
    /// When this manager began to lead.
    leading_since: Duration,
    /// Slots lent to other groups, until when.
    lent: BTreeMap<(String, String), (u32, Duration)>,
}

/// How often silent nodes are looked for.
const LOOK: Duration = Duration::from_millis(250);
/// Rosters are sent at least so often: they tell what is free.
const NEWS_EVERY: Duration = Duration::from_secs(1);
/// For how long foreign coordinators may count on slots.
const LENT_FOR: Duration = Duration::from_secs(5);

impl Service {
    /// The manager of a group without nodes yet.
    pub fn new(options: Options) -> Self {
        let leads = options.before.is_empty();
        let books = Books {
            registry: Registry::default(),
            federation: Federation::new(options.group.clone()),
            leading_since: Duration::ZERO,
            lent: BTreeMap::new(),
        };
        // Numbers of summaries grow over restarts, too.
        let number = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        let shared = Arc::new(Shared {
            began: Instant::now(),
            books: Mutex::new(books),
            changes: watch::channel(0).0,
            leads: AtomicBool::new(leads),
            number: AtomicU64::new(number),
            options,
        });
        tokio::spawn(watch_silence(Arc::downgrade(&shared)));
        for address in shared.options.adjacent.clone() {
            tokio::spawn(neighbours::exchange(Arc::downgrade(&shared), address));
        }
        if !leads {
            tokio::spawn(neighbours::stand_by(Arc::downgrade(&shared), shared.options.before.clone()));
        }
        Self { shared }
    }

    #[allow(clippy::result_large_err)] // A status is what gRPC answers with.
    fn leading(&self) -> Result<&Shared, Status> {
        if self.shared.leads.load(Ordering::Acquire) {
            return Ok(&self.shared);
        }
        let first = self.shared.options.before.first().cloned().unwrap_or_default();
        Err(Status::failed_precondition(format!("this manager is a replica; the group is led from {first}")))
    }
}

async fn watch_silence(shared: std::sync::Weak<Shared>) {
    let mut look = tokio::time::interval(LOOK);
    loop {
        look.tick().await;
        let Some(shared) = shared.upgrade() else { return };
        let now = shared.now();
        let gone = {
            let mut books = shared.books();
            books.federation.expire(now);
            books.lent.retain(|_, (_, until)| *until > now);
            books.registry.expire(now)
        };
        if !gone.is_empty() {
            warn!(nodes = gone.join(","), "nodes are silent");
            shared.changed();
        }
    }
}

impl Shared {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        // The books are whole between any two statements, so a poisoned lock is as good as another.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    pub(crate) fn lead(&self, leads: bool) {
        self.books().leading_since = self.now();
        self.leads.store(leads, Ordering::Release);
        self.changed();
    }

    fn beat(&self, heartbeat: v1::Heartbeat) {
        let changed = self.books().registry.beat(heartbeat, self.now());
        if changed {
            self.changed();
        }
    }

    pub(crate) fn hear(&self, news: v1::GroupSummaries) {
        self.books().federation.hear(news, self.now());
    }

    fn roster(&self, node: &str) -> v1::Roster {
        let books = self.books();
        let own = books.registry.own(node);
        let groups = books.federation.groups(self.now());
        v1::Roster {
            group: self.options.group.clone(),
            workers: books.registry.workers(),
            draining: books.registry.draining(),
            drain: books.registry.wants_drain(node),
            settling: self.now().saturating_sub(books.leading_since) < LEASE * 2,
            free_slots: own.free_slots,
            other_coordinators: own.coordinators,
            foreign_free_slots: groups.iter().map(|group| group.free_slots).sum(),
            foreign_coordinators: groups.iter().map(|group| group.coordinators.len() as u32).sum(),
        }
    }

    /// What the group offers to others.
    fn own_summary(&self) -> v1::GroupSummary {
        let books = self.books();
        let workers = books.registry.workers();
        let lent: u32 = books.lent.values().map(|(slots, _)| *slots).sum();
        let lendable = self.options.foreign_slots.saturating_sub(lent);
        let managers = std::iter::once(&self.options.address).chain(&self.options.before);
        v1::GroupSummary {
            group: self.options.group.clone(),
            managers: managers.cloned().collect(),
            hops: 0,
            age_ms: 0,
            workers: workers.len() as u32,
            slots: workers.iter().map(|worker| worker.slots).sum(),
            free_slots: books.registry.free_slots().min(lendable),
            coordinators: books
                .registry
                .coordinators()
                .map(|(node, processes)| v1::CoordinatorOffer {
                    node: node.name.clone(),
                    address: node.address.clone(),
                    processes,
                })
                .collect(),
            number: self.number.fetch_add(1, Ordering::Relaxed),
        }
    }

    pub(crate) fn summaries(&self, neighbour: &str) -> v1::GroupSummaries {
        if !self.leads.load(Ordering::Acquire) {
            return v1::GroupSummaries { group: self.options.group.clone(), summaries: Vec::new() };
        }
        let mut own = self.own_summary();
        if !self.takes(neighbour) {
            own.free_slots = 0;
            own.coordinators.clear();
        }
        self.books().federation.tell(neighbour, own, self.now())
    }

    /// Does the administrator take work of that group? A neighbour that has not said its name is none that is known.
    fn takes(&self, group: &str) -> bool {
        let known = &self.options.foreign_groups;
        known.is_empty() || known.iter().any(|known| known == group)
    }

    /// Lends slots of a worker to a coordinator of another group.
    fn lend(&self, asker: &v1::PlaceRequest) -> v1::PlaceResponse {
        let mut books = self.books();
        let now = self.now();
        let key = (asker.group.clone(), asker.node.clone());
        let others: u32 = books.lent.iter().filter(|(other, _)| **other != key).map(|(_, (slots, _))| *slots).sum();
        let most = self.options.foreign_slots.saturating_sub(others);
        let Some((worker, free)) = books.registry.freest_worker() else { return v1::PlaceResponse::default() };
        let slots = free.min(most);
        if slots == 0 || !self.takes(&asker.group) {
            return v1::PlaceResponse::default();
        }
        let node = Some(worker.clone());
        books.lent.insert(key, (slots, now + LENT_FOR));
        v1::PlaceResponse { node, group: self.options.group.clone(), slots, lease_ms: LENT_FOR.as_millis() as u64 }
    }

    fn own_coordinator(&self, asker: &str) -> Option<v1::NodeDescription> {
        let books = self.books();
        let others = books.registry.coordinators().filter(|(node, _)| node.name != asker);
        others.min_by_key(|(_, processes)| *processes).map(|(node, _)| node.clone())
    }

    async fn place(&self, request: v1::PlaceRequest) -> v1::PlaceResponse {
        let what = match request.what() {
            v1::place_request::What::Worker => What::Worker,
            _ => What::Coordinator,
        };
        if request.group != self.options.group {
            return match what {
                What::Worker => self.lend(&request),
                // Foreign coordinators find ours in our summary.
                What::Coordinator => v1::PlaceResponse::default(),
            };
        }
        let (own, groups) = {
            let books = self.books();
            (books.registry.own(&request.node), books.federation.groups(self.now()))
        };
        // Workers of the own group are in the roster; whoever asks needs one from elsewhere.
        let own = if what == What::Worker { Own { free_slots: 0, ..own } } else { own };
        match place(what, own, &groups) {
            Place::Own => {
                let node = self.own_coordinator(&request.node);
                v1::PlaceResponse { node, group: self.options.group.clone(), ..Default::default() }
            }
            Place::Wait if what == What::Coordinator => {
                // Nothing is free anywhere; a neighbour in the own group still shares the work of interpreting.
                let node = self.own_coordinator(&request.node);
                v1::PlaceResponse { node, group: self.options.group.clone(), ..Default::default() }
            }
            Place::Wait => v1::PlaceResponse::default(),
            Place::Foreign(name) => {
                let Some(group) = groups.into_iter().find(|group| group.group == name) else {
                    return v1::PlaceResponse::default();
                };
                match what {
                    What::Coordinator => {
                        let best = group.coordinators.into_iter().min_by_key(|offer| offer.processes);
                        let node = best.map(|offer| v1::NodeDescription {
                            name: offer.node,
                            address: offer.address,
                            ..Default::default()
                        });
                        v1::PlaceResponse { node, group: name, ..Default::default() }
                    }
                    What::Worker => borrow(&group.managers, request).await,
                }
            }
        }
    }
}

/// Asks the managers of another group for slots.
async fn borrow(managers: &[String], request: v1::PlaceRequest) -> v1::PlaceResponse {
    for manager in managers {
        match neighbours::connect(manager).await {
            Ok(mut client) => {
                if let Ok(answer) = client.place(request.clone()).await {
                    return answer.into_inner();
                }
            }
            Err(error) => debug!(%manager, %error, "the manager of another group is not there"),
        }
    }
    v1::PlaceResponse::default()
}

#[tonic::async_trait]
impl GroupManager for Service {
    type JoinStream = Pin<Box<dyn Stream<Item = Result<v1::Roster, Status>> + Send>>;
    type ExchangeStream = Pin<Box<dyn Stream<Item = Result<v1::GroupSummaries, Status>> + Send>>;

    async fn join(&self, request: Request<Streaming<v1::Heartbeat>>) -> Result<Response<Self::JoinStream>, Status> {
        self.leading()?;
        let mut beats = request.into_inner();
        let first = beats.message().await?.ok_or_else(|| Status::invalid_argument("no first heartbeat"))?;
        let name = first.node.as_ref().map(|node| node.name.clone()).unwrap_or_default();
        if name.is_empty() {
            return Err(Status::invalid_argument("a node needs a name"));
        }
        info!(node = name, "node joined");
        let shared = self.shared.clone();
        shared.beat(first);
        let (sender, receiver) = mpsc::channel(4);
        let mut changes = shared.changes.subscribe();
        let writer = shared.clone();
        tokio::spawn(async move {
            // Who no longer leads lets go, so that the nodes find the one who does.
            while writer.leads.load(Ordering::Acquire) {
                changes.borrow_and_update();
                if sender.send(Ok(writer.roster(&name))).await.is_err() {
                    return;
                }
                tokio::select! {
                    changed = tokio::time::timeout(NEWS_EVERY, changes.changed()) => if let Ok(Err(_)) = changed { return },
                    () = sender.closed() => return,
                }
            }
        });
        tokio::spawn(async move {
            while let Some(Ok(beat)) = beats.next().await {
                shared.beat(beat);
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn exchange(
        &self,
        request: Request<Streaming<v1::GroupSummaries>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        let mut news = request.into_inner();
        let first = news.message().await?.ok_or_else(|| Status::invalid_argument("no first summary"))?;
        let neighbour = first.group.clone();
        info!(group = neighbour, "adjacent group connected");
        self.shared.hear(first);
        let (sender, receiver) = mpsc::channel(1);
        let named = watch::channel(neighbour).1;
        tokio::spawn(neighbours::tell(Arc::downgrade(&self.shared), named, sender));
        let shared = self.shared.clone();
        tokio::spawn(async move {
            while let Some(Ok(heard)) = news.next().await {
                shared.hear(heard);
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver).map(Ok))))
    }

    async fn place(&self, request: Request<v1::PlaceRequest>) -> Result<Response<v1::PlaceResponse>, Status> {
        let shared = self.leading()?;
        Ok(Response::new(shared.place(request.into_inner()).await))
    }

    async fn list_groups(&self, _: Request<v1::ListGroupsRequest>) -> Result<Response<v1::ListGroupsResponse>, Status> {
        let shared = self.leading()?;
        let mut groups = vec![shared.own_summary()];
        groups.extend(shared.books().federation.groups(shared.now()));
        Ok(Response::new(v1::ListGroupsResponse { groups }))
    }

    async fn list_sources(
        &self,
        _: Request<v1::ListSourcesRequest>,
    ) -> Result<Response<v1::ListSourcesResponse>, Status> {
        let sources = self.shared.options.sources.clone().into_iter().collect();
        Ok(Response::new(v1::ListSourcesResponse { sources }))
    }

    async fn list_nodes(&self, _: Request<v1::ListNodesRequest>) -> Result<Response<v1::ListNodesResponse>, Status> {
        let shared = self.leading()?;
        let nodes = shared.books().registry.nodes(shared.now());
        Ok(Response::new(v1::ListNodesResponse { group: shared.options.group.clone(), nodes }))
    }

    async fn drain(&self, request: Request<v1::DrainRequest>) -> Result<Response<v1::DrainResponse>, Status> {
        let shared = self.leading()?;
        let name = request.into_inner().node;
        if !shared.books().registry.drain(&name) {
            return Err(Status::not_found(format!("there is no node {name:?} in group {:?}", shared.options.group)));
        }
        shared.changed();
        Ok(Response::new(v1::DrainResponse {}))
    }
}
