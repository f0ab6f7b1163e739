//! Nodes join and beat; everybody hears of changes.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};
use tracing::{info, warn};
use xavantes_proto::v1;
use xavantes_proto::v1::group_manager_server::GroupManager;

use crate::registry::Registry;

/// The group manager; cheap to clone.
#[derive(Clone)]
pub struct Service {
    shared: Arc<Shared>,
}

struct Shared {
    group: String,
    began: Instant,
    registry: Mutex<Registry>,
    /// Counts the changes that nodes must hear of.
    changes: watch::Sender<u64>,
}

/// How often silent nodes are looked for.
const LOOK: Duration = Duration::from_millis(250);

impl Service {
    /// The manager of a group without nodes yet.
    pub fn new(group: String) -> Self {
        let changes = watch::channel(0).0;
        let shared = Shared { group, began: Instant::now(), registry: Mutex::default(), changes };
        let service = Self { shared: Arc::new(shared) };
        tokio::spawn(watch_silence(Arc::downgrade(&service.shared)));
        service
    }
}

async fn watch_silence(shared: std::sync::Weak<Shared>) {
    let mut look = tokio::time::interval(LOOK);
    loop {
        look.tick().await;
        let Some(shared) = shared.upgrade() else { return };
        let gone = shared.registry().expire(shared.began.elapsed());
        if !gone.is_empty() {
            warn!(nodes = gone.join(","), "nodes are silent");
            shared.changed();
        }
    }
}

impl Shared {
    fn registry(&self) -> MutexGuard<'_, Registry> {
        // The registry is whole between any two statements, so a poisoned lock is as good as another.
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn beat(&self, heartbeat: v1::Heartbeat) {
        let changed = self.registry().beat(heartbeat, self.began.elapsed());
        if changed {
            self.changed();
        }
    }

    fn roster(&self, node: &str) -> v1::Roster {
        let registry = self.registry();
        v1::Roster { group: self.group.clone(), workers: registry.workers(), drain: registry.wants_drain(node) }
    }
}

#[tonic::async_trait]
impl GroupManager for Service {
    type JoinStream = Pin<Box<dyn Stream<Item = Result<v1::Roster, Status>> + Send>>;

    async fn join(&self, request: Request<Streaming<v1::Heartbeat>>) -> Result<Response<Self::JoinStream>, Status> {
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
            loop {
                changes.borrow_and_update();
                if sender.send(Ok(writer.roster(&name))).await.is_err() {
                    return;
                }
                tokio::select! {
                    changed = changes.changed() => if changed.is_err() { return },
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

    async fn list_nodes(
        &self,
        _: Request<v1::ListNodesRequest>,
    ) -> Result<Response<v1::ListNodesResponse>, Status> {
        let nodes = self.shared.registry().nodes(self.shared.began.elapsed());
        Ok(Response::new(v1::ListNodesResponse { group: self.shared.group.clone(), nodes }))
    }

    async fn drain(&self, request: Request<v1::DrainRequest>) -> Result<Response<v1::DrainResponse>, Status> {
        let name = request.into_inner().node;
        if !self.shared.registry().drain(&name) {
            return Err(Status::not_found(format!("there is no node {name:?} in group {:?}", self.shared.group)));
        }
        self.shared.changed();
        Ok(Response::new(v1::DrainResponse {}))
    }
}
