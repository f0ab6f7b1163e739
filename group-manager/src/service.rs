//! Nodes join and beat; everybody hears of changes; other groups ask for room. What is known and decided is in `books`.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};
use tracing::{debug, info, warn};
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::v1::group_manager_server::GroupManager;
use xavantes_proto::{question, v1};
use xavantes_repository::{Error, Store};

use crate::books::{Books, Placed};
use crate::options::Options;
use crate::{following, keeping, neighbours};

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
    repository: Store,
    /// The substance of what was kept last. Whoever has it locked keeps something.
    kept: tokio::sync::Mutex<v1::GroupState>,
}

/// How often silent nodes are looked for, and who leads.
const LOOK: Duration = Duration::from_millis(250);
/// Rosters are sent at least so often: they tell what is free.
const NEWS_EVERY: Duration = Duration::from_secs(1);

impl Service {
    /// The manager of a group, with what it knew of it.
    pub async fn open(options: Options, repository: Store) -> Result<Self, Error> {
        let kept = keeping::load(&repository, &options.group).await?;
        let age = Duration::from_millis(clock_ms().saturating_sub(kept.kept_at_ms));
        let substance = keeping::substance(&kept);
        let shared = Arc::new(Shared {
            began: Instant::now(),
            books: Mutex::new(Books::new(options.clone(), kept, age, Duration::ZERO)),
            changes: watch::channel(0).0,
            repository,
            kept: tokio::sync::Mutex::new(substance),
            options,
        });
        // One that is alone leads at once.
        shared.look();
        tokio::spawn(watch_clock(Arc::downgrade(&shared)));
        tokio::spawn(keeping::run(Arc::downgrade(&shared)));
        for address in shared.options.adjacent.clone() {
            tokio::spawn(neighbours::exchange(Arc::downgrade(&shared), address));
        }
        for (place, address) in shared.options.others() {
            let group = shared.options.group.clone();
            tokio::spawn(following::follow(Arc::downgrade(&shared), group, place, address.clone()));
        }
        Ok(Self { shared })
    }

    #[allow(clippy::result_large_err)] // A status is what gRPC answers with.
    fn leading(&self) -> Result<&Shared, Status> {
        let books = self.shared.books();
        if books.succession.leads() {
            return Ok(&self.shared);
        }
        Err(Status::failed_precondition(match books.leader(self.shared.now()) {
            Some(leader) => format!("this manager is a replica; the group is led from {leader}"),
            None => "this manager is a replica, and nobody leads the group at the moment".into(),
        }))
    }

    #[allow(clippy::result_large_err)] // A status is what gRPC answers with.
    fn manages(&self, group: &str) -> Result<(), Status> {
        match &self.shared.options.group {
            own if own == group => Ok(()),
            own => Err(Status::invalid_argument(format!("this is a manager of group {own:?}, not of {group:?}"))),
        }
    }

    #[allow(clippy::result_large_err)] // A status is what gRPC answers with.
    fn addable(&self, name: &str) -> Result<&Shared, Status> {
        let shared = self.leading()?;
        let fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
        if name.is_empty() || !name.bytes().all(fine) {
            let rule = "names of sources consist of small letters, digits, - and _";
            return Err(Status::invalid_argument(format!("{rule}; {name:?} does not")));
        }
        if shared.options.sources.contains_key(name) {
            let message = format!("source {name:?} is in the configuration of the group manager; change it there");
            return Err(Status::failed_precondition(message));
        }
        Ok(shared)
    }
}

/// Milliseconds since 1970.
fn clock_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

async fn watch_clock(shared: Weak<Shared>) {
    let mut ticks = tokio::time::interval(LOOK);
    loop {
        ticks.tick().await;
        let Some(shared) = shared.upgrade() else { return };
        shared.look();
    }
}

impl Shared {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn books(&self) -> MutexGuard<'_, Books> {
        // The books are whole between any two statements, so a poisoned lock is as good as another.
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn look(&self) {
        let looked = self.books().look(self.now());
        match looked.leads {
            Some(true) => info!(epoch = self.books().succession.epoch(), "leading the group"),
            Some(false) => info!("a manager before this one leads again"),
            None => {}
        }
        if !looked.gone.is_empty() {
            warn!(nodes = looked.gone.join(","), "nodes are silent");
        }
        if looked.leads.is_some() || !looked.gone.is_empty() {
            self.changed();
        }
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

    pub(crate) fn summaries(&self, neighbour: &str) -> v1::GroupSummaries {
        self.books().summaries(neighbour, clock_ms(), self.now())
    }

    pub(crate) fn follow(&self, place: usize, state: v1::GroupState) {
        self.books().follow(place, state, self.now());
    }

    /// What another manager of the group is told.
    pub(crate) fn told(&self) -> v1::GroupState {
        let books = self.books();
        match books.succession.leads() {
            true => books.state(self.now()),
            false => v1::GroupState { epoch: books.succession.epoch(), ..Default::default() },
        }
    }

    /// Keeps what is known, if it has changed.
    pub(crate) async fn keep(&self) -> Result<(), Error> {
        let mut kept = self.kept.lock().await;
        let state = self.books().state(self.now());
        let substance = keeping::substance(&state);
        if *kept != substance {
            self.save(state).await?;
            *kept = substance;
        }
        Ok(())
    }

    /// Adds or removes a source; it is known when it has been kept.
    async fn set_source(&self, name: String, uri: Option<String>) -> Result<(), Error> {
        let mut kept = self.kept.lock().await;
        let mut state = self.books().state(self.now());
        match &uri {
            Some(uri) => state.sources.insert(name.clone(), uri.clone()),
            None => state.sources.remove(&name),
        };
        let substance = keeping::substance(&state);
        self.save(state).await?;
        *kept = substance;
        let sources = &mut self.books().sources;
        match uri {
            Some(uri) => sources.insert(name, uri),
            None => sources.remove(&name),
        };
        Ok(())
    }

    async fn save(&self, state: v1::GroupState) -> Result<(), Error> {
        let state = v1::GroupState { kept_at_ms: clock_ms(), ..state };
        keeping::save(&self.repository, &self.options.group, &state).await
    }
}

/// Asks the managers of another group for slots.
async fn borrow(managers: &[String], request: v1::PlaceRequest) -> v1::PlaceResponse {
    for manager in managers {
        match xavantes_proto::connect(manager).await {
            Ok(channel) => match question(GroupManagerClient::new(channel).place(request.clone())).await {
                Ok(answer) => return answer,
                Err(status) => debug!(%manager, %status, "the manager of another group does not answer"),
            },
            Err(error) => debug!(%manager, %error, "the manager of another group is not there"),
        }
    }
    v1::PlaceResponse::default()
}

/// What places of data begin with.
const PLACES: [&str; 5] = ["/", "file://", "s3://", "http://", "https://"];

fn not_kept(error: Error) -> Status {
    Status::unavailable(format!("the source is not kept: {error}"))
}

#[tonic::async_trait]
impl GroupManager for Service {
    type JoinStream = Pin<Box<dyn Stream<Item = Result<v1::Roster, Status>> + Send>>;
    type ExchangeStream = Pin<Box<dyn Stream<Item = Result<v1::GroupSummaries, Status>> + Send>>;
    type FollowStream = Pin<Box<dyn Stream<Item = Result<v1::GroupState, Status>> + Send>>;

    async fn join(&self, request: Request<Streaming<v1::Heartbeat>>) -> Result<Response<Self::JoinStream>, Status> {
        self.leading()?;
        let mut beats = request.into_inner();
        let first = beats.message().await?.ok_or_else(|| Status::invalid_argument("no first heartbeat"))?;
        self.manages(&first.group)?;
        let node = first.node.clone().unwrap_or_default();
        if node.name.is_empty() {
            return Err(Status::invalid_argument("a node needs a name"));
        }
        if let Some(address) = self.shared.books().registry.taken(&node, self.shared.now()) {
            let taken =
                format!("the name {:?} is taken by the node at {address}: choose another with --name", node.name);
            return Err(Status::already_exists(taken));
        }
        let name = node.name;
        info!(node = name, "node joined");
        let shared = self.shared.clone();
        shared.beat(first);
        let (sender, receiver) = mpsc::channel(4);
        let mut changes = shared.changes.subscribe();
        let writer = shared.clone();
        tokio::spawn(async move {
            loop {
                changes.borrow_and_update();
                let (leads, roster) = {
                    let books = writer.books();
                    (books.succession.leads(), books.roster(&name, writer.now()))
                };
                // Who no longer leads lets go, so that the nodes find the one who does.
                if !leads || sender.send(Ok(roster)).await.is_err() {
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

    async fn follow(&self, request: Request<v1::FollowRequest>) -> Result<Response<Self::FollowStream>, Status> {
        self.manages(&request.into_inner().group)?;
        let (sender, receiver) = mpsc::channel(1);
        tokio::spawn(following::tell(Arc::downgrade(&self.shared), sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver).map(Ok))))
    }

    async fn place(&self, request: Request<v1::PlaceRequest>) -> Result<Response<v1::PlaceResponse>, Status> {
        let shared = self.leading()?;
        let request = request.into_inner();
        let placed = shared.books().place(&request, shared.now());
        Ok(Response::new(match placed {
            Placed::Here(answer) => *answer,
            Placed::Ask(managers) => borrow(&managers, request).await,
        }))
    }

    async fn list_groups(&self, _: Request<v1::ListGroupsRequest>) -> Result<Response<v1::ListGroupsResponse>, Status> {
        let mut books = self.shared.books();
        let mut groups = vec![books.own_summary(clock_ms())];
        groups.extend(books.federation.groups(self.shared.now()));
        Ok(Response::new(v1::ListGroupsResponse { groups }))
    }

    async fn list_sources(
        &self,
        _: Request<v1::ListSourcesRequest>,
    ) -> Result<Response<v1::ListSourcesResponse>, Status> {
        let mut sources = self.shared.books().sources.clone();
        sources.extend(self.shared.options.sources.clone());
        Ok(Response::new(v1::ListSourcesResponse { sources: sources.into_iter().collect() }))
    }

    async fn add_source(
        &self,
        request: Request<v1::AddSourceRequest>,
    ) -> Result<Response<v1::AddSourceResponse>, Status> {
        let v1::AddSourceRequest { name, uri } = request.into_inner();
        let shared = self.addable(&name)?;
        if uri.trim().is_empty() {
            return Err(Status::invalid_argument(format!("source {name:?} needs a URI")));
        }
        if !PLACES.iter().any(|begin| uri.starts_with(begin)) {
            return Err(Status::invalid_argument(format!(
                "source {name:?}: {uri:?} is no place; a place is /path, file:///path, s3://bucket/prefix, http://host/path \
                 or https://host/path"
            )));
        }
        shared.set_source(name, Some(uri)).await.map_err(not_kept)?;
        Ok(Response::new(v1::AddSourceResponse {}))
    }

    async fn remove_source(
        &self,
        request: Request<v1::RemoveSourceRequest>,
    ) -> Result<Response<v1::RemoveSourceResponse>, Status> {
        let name = request.into_inner().name;
        let shared = self.addable(&name)?;
        if !shared.books().sources.contains_key(&name) {
            let group = &shared.options.group;
            return Err(Status::not_found(format!("there is no source {name:?} in group {group:?}")));
        }
        shared.set_source(name, None).await.map_err(not_kept)?;
        Ok(Response::new(v1::RemoveSourceResponse {}))
    }

    async fn list_nodes(&self, _: Request<v1::ListNodesRequest>) -> Result<Response<v1::ListNodesResponse>, Status> {
        let books = self.shared.books();
        Ok(Response::new(v1::ListNodesResponse {
            group: self.shared.options.group.clone(),
            nodes: books.registry.nodes(self.shared.now()),
            leads: books.succession.leads(),
            epoch: books.succession.epoch(),
        }))
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
