//! The gRPC service of a group manager. Each call is a few lines around the state of the manager.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};
use tracing::{debug, info, warn};
use xavantes_proto::message_limits::{self, InvalidField};
use xavantes_proto::v1::group_manager_client::GroupManagerClient;
use xavantes_proto::v1::group_manager_server::GroupManager;
use xavantes_proto::{call_with_timeout, first_message, page_of, v1};
use xavantes_repository::{Error, Store};
use xavantes_telemetry::{NodeCondition, SlotUse, metrics};

use crate::federation::Merged;
use crate::group_manager::{Manager, clock_ms};
use crate::group_sources::{self, SourceError};
use crate::options::Options;
use crate::state::place_request::PlaceAnswer;
use crate::{neighbours, periodic_work, replication};

/// The manager sends each node a roster at least at this interval, because rosters carry the free slots.
const ROSTER_INTERVAL: Duration = Duration::from_secs(1);

/// The manager sends a node at most one roster in this time, however often the group changes.
const MIN_ROSTER_INTERVAL: Duration = Duration::from_millis(20);

/// Rosters that wait for a slow node. The manager sends a current roster when the node has read one.
const MAX_QUEUED_ROSTERS: usize = 4;

/// The manager reads at most one heartbeat of a node in this time. Nodes send two in a second.
const MIN_HEARTBEAT_INTERVAL: Duration = Duration::from_millis(20);

/// The manager reads the summaries of a neighbour at most once in this time. Neighbours send them every second.
const MIN_SUMMARIES_INTERVAL: Duration = Duration::from_millis(200);

/// Upper bound on the neighbours that connect to this manager.
const MAX_NEIGHBOURS: usize = 64;

/// Upper bound on the managers that follow this one.
const MAX_FOLLOWERS: usize = 16;

/// Upper bound on the time in which the managers of another group must answer a request for slots.
const BORROW_TIMEOUT: Duration = Duration::from_secs(10);

/// The group manager; cheap to clone.
#[derive(Clone)]
pub struct Service {
    manager: Arc<Manager>,
    neighbours: Arc<Semaphore>,
    followers: Arc<Semaphore>,
}

impl Service {
    /// Opens the manager of a group with the state in the repository, and starts its tasks.
    pub async fn open(options: Options, repository: Store) -> Result<Self, Error> {
        let manager = Arc::new(Manager::open(options, repository).await?);
        // A manager without others leads at once.
        manager.tick();
        tokio::spawn(periodic_work::tick(Arc::downgrade(&manager)));
        tokio::spawn(periodic_work::persist(Arc::downgrade(&manager)));
        for address in manager.options.adjacent.clone() {
            tokio::spawn(neighbours::exchange(Arc::downgrade(&manager), address));
        }
        for (position, address) in manager.options.other_managers() {
            let group = manager.options.group.clone();
            tokio::spawn(replication::follow(Arc::downgrade(&manager), group, position, address.clone()));
        }
        let (neighbours, followers) = (Semaphore::new(MAX_NEIGHBOURS), Semaphore::new(MAX_FOLLOWERS));
        Ok(Self { manager, neighbours: Arc::new(neighbours), followers: Arc::new(followers) })
    }

    /// Updates the metrics that say how the group is now.
    pub fn measure(&self) {
        let (state, now) = (self.manager.state(), self.manager.now());
        let nodes = state.registry.statuses(now);
        let groups = state.federation.groups(now).len();
        drop(state);
        let slots = |node: &v1::NodeStatus| i64::from(node.node.as_ref().map_or(0, |node| node.slots));
        let is_worker = |node: &&v1::NodeStatus| {
            let roles = node.node.iter().flat_map(v1::NodeDescription::roles);
            !node.lost && roles.into_iter().any(|role| role == v1::Role::ActivityManager)
        };
        let all: i64 = nodes.iter().filter(is_worker).map(slots).sum();
        let busy: i64 = nodes.iter().filter(is_worker).map(|node| slots(node).min(node.busy.into())).sum();
        let metrics = metrics();
        let condition = |node: &v1::NodeStatus| match node {
            v1::NodeStatus { lost: true, .. } => NodeCondition::Lost,
            v1::NodeStatus { draining: true, .. } => NodeCondition::Draining,
            _ => NodeCondition::Available,
        };
        for wanted in [NodeCondition::Available, NodeCondition::Draining, NodeCondition::Lost] {
            let count = nodes.iter().filter(|node| condition(node) == wanted).count();
            metrics.group_nodes.of(wanted).set(count as i64);
        }
        metrics.group_slots.of(SlotUse::Busy).set(busy);
        metrics.group_slots.of(SlotUse::Free).set(all - busy);
        metrics.known_groups.set(groups as i64);
    }

    /// The manager, if it leads the group.
    #[allow(clippy::result_large_err)] // tonic defines the size of a status.
    fn leading(&self) -> Result<&Manager, Status> {
        let state = self.manager.state();
        if state.succession.leads() {
            return Ok(&self.manager);
        }
        Err(Status::failed_precondition(match state.leader(self.manager.now()) {
            Some(leader) => format!("this manager is a replica; the group is led from {leader}"),
            None => "this manager is a replica, and no manager leads the group at the moment".into(),
        }))
    }

    #[allow(clippy::result_large_err)] // tonic defines the size of a status.
    fn check_group(&self, group: &str) -> Result<(), Status> {
        match &self.manager.options.group {
            managed if managed == group => Ok(()),
            managed => {
                Err(Status::invalid_argument(format!("this is a manager of group {managed:?}, not of {group:?}")))
            }
        }
    }

    /// The manager, if it leads the group and a source of this name may be added or removed.
    #[allow(clippy::result_large_err)] // tonic defines the size of a status.
    fn leading_for_source(&self, name: &str) -> Result<&Manager, Status> {
        let manager = self.leading()?;
        group_sources::check_name(name)?;
        if manager.options.sources.contains_key(name) {
            return Err(SourceError::Configured(name.into()).into());
        }
        Ok(manager)
    }
}

/// Sends rosters to a node until the node disconnects or this manager stops to lead. Then the node looks for the leader.
async fn send_rosters(manager: Arc<Manager>, node: String, sender: mpsc::Sender<Result<v1::Roster, Status>>) {
    let mut changes = manager.subscribe_changes();
    loop {
        changes.borrow_and_update();
        let (leads, roster) = {
            let state = manager.state();
            (state.succession.leads(), state.roster(&node, manager.now()))
        };
        if !leads || sender.send(Ok(roster)).await.is_err() {
            return;
        }
        tokio::select! {
            changed = tokio::time::timeout(ROSTER_INTERVAL, changes.changed()) => if let Ok(Err(_)) = changed { return },
            () = sender.closed() => return,
        }
        tokio::time::sleep(MIN_ROSTER_INTERVAL).await;
    }
}

/// Handles the heartbeats of a node until its stream ends. A node that sends an invalid one gets an error.
async fn receive_heartbeats(
    manager: Arc<Manager>,
    node: String,
    mut heartbeats: Streaming<v1::Heartbeat>,
    sender: mpsc::WeakSender<Result<v1::Roster, Status>>,
) {
    while let Some(Ok(heartbeat)) = heartbeats.next().await {
        let handled = match &heartbeat.node {
            Some(named) if named.name == node => manager.on_heartbeat(heartbeat).map_err(Status::from),
            _ => Err(Status::invalid_argument("a node sends heartbeats about itself only")),
        };
        if let Err(status) = handled {
            warn!(node, error = status.message(), "closed the stream of a node: it sent an invalid heartbeat");
            if let Some(sender) = sender.upgrade() {
                let _ = sender.send(Err(status)).await;
            }
            return;
        }
        tokio::time::sleep(MIN_HEARTBEAT_INTERVAL).await;
    }
}

/// Handles the summaries of a neighbour until its stream ends.
async fn receive_summaries(manager: Arc<Manager>, neighbour: String, mut summaries: Streaming<v1::GroupSummaries>) {
    let mut warned = false;
    while let Some(Ok(received)) = summaries.next().await {
        if received.group != neighbour {
            warn!(group = neighbour, "a neighbour changed its name; its further summaries are ignored");
            return;
        }
        let merged = manager.on_summaries(received);
        if merged != Merged::default() && !std::mem::replace(&mut warned, true) {
            let Merged { surplus, invalid } = merged;
            warn!(group = neighbour, surplus, invalid, "ignored summaries of a neighbour: too many, or not valid");
        }
        tokio::time::sleep(MIN_SUMMARIES_INTERVAL).await;
    }
}

fn check_place_request(request: &v1::PlaceRequest) -> Result<(), InvalidField> {
    message_limits::check_name("the node", &request.node)?;
    message_limits::check_name("the group", &request.group)?;
    message_limits::check_optional_name("the worker to renew", &request.renew)?;
    message_limits::check_optional_name("the group of the worker to renew", &request.renew_group)?;
    message_limits::check_words("the lenders", &request.lenders)?;
    message_limits::check_count("the list of needs", request.needs.len(), message_limits::MAX_WAITING_NEEDS)?;
    request.needs.iter().try_for_each(|needs| {
        message_limits::check_optional_name("the needed language", &needs.language)?;
        message_limits::check_words("the needed tags", &needs.tags)
    })
}

/// Asks other groups for slots, one after another until one lends some.
async fn borrow(groups: &[Vec<String>], request: &v1::PlaceRequest) -> v1::PlaceResponse {
    for managers in groups {
        match borrow_from(managers, request).await {
            Some(answer) if answer.node.is_some() => return answer,
            _ => {}
        }
    }
    v1::PlaceResponse::default()
}

/// Asks the managers of another group for slots, one after another until one answers.
async fn borrow_from(managers: &[String], request: &v1::PlaceRequest) -> Option<v1::PlaceResponse> {
    for manager in managers {
        match xavantes_proto::connect(manager).await {
            Ok(channel) => match call_with_timeout(GroupManagerClient::new(channel).place(request.clone())).await {
                Ok(answer) => return Some(answer),
                Err(status) => {
                    let error = xavantes_proto::status_text(&status);
                    debug!(%manager, %error, "a manager of another group refused a request for slots");
                }
            },
            Err(error) => debug!(%manager, %error, "cannot reach a manager of another group"),
        }
    }
    None
}

#[tonic::async_trait]
impl GroupManager for Service {
    type JoinStream = Pin<Box<dyn Stream<Item = Result<v1::Roster, Status>> + Send>>;
    type ExchangeStream = Pin<Box<dyn Stream<Item = Result<v1::GroupSummaries, Status>> + Send>>;
    type FollowStream = Pin<Box<dyn Stream<Item = Result<v1::GroupState, Status>> + Send>>;

    async fn join(&self, request: Request<Streaming<v1::Heartbeat>>) -> Result<Response<Self::JoinStream>, Status> {
        self.leading()?;
        let mut heartbeats = request.into_inner();
        let first = first_message(&mut heartbeats, "heartbeat").await?;
        message_limits::check_name("the group of the node", &first.group)?;
        self.check_group(&first.group)?;
        let node = first.node.clone().unwrap_or_default();
        message_limits::check_node(&node)?;
        if let Some(address) = self.manager.state().registry.conflicting_address(&node, self.manager.now()) {
            let taken =
                format!("the name {:?} is taken by the node at {address}: choose another with --name", node.name);
            return Err(Status::already_exists(taken));
        }
        self.manager.on_heartbeat(first)?;
        info!(node = node.name, "node joined");
        let (sender, receiver) = mpsc::channel(MAX_QUEUED_ROSTERS);
        tokio::spawn(receive_heartbeats(self.manager.clone(), node.name.clone(), heartbeats, sender.downgrade()));
        tokio::spawn(send_rosters(self.manager.clone(), node.name, sender));
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn exchange(
        &self,
        request: Request<Streaming<v1::GroupSummaries>>,
    ) -> Result<Response<Self::ExchangeStream>, Status> {
        let Ok(permit) = self.neighbours.clone().try_acquire_owned() else {
            warn!("refused a neighbour: {MAX_NEIGHBOURS} are connected");
            return Err(Status::resource_exhausted(format!("this manager has {MAX_NEIGHBOURS} neighbours already")));
        };
        let mut summaries = request.into_inner();
        let first = first_message(&mut summaries, "summary").await?;
        message_limits::check_name("the group of the neighbour", &first.group)?;
        let neighbour = first.group.clone();
        info!(group = neighbour, "adjacent group connected");
        let (sender, receiver) = mpsc::channel(1);
        let named = watch::channel(neighbour.clone()).1;
        self.manager.on_summaries(first);
        tokio::spawn(receive_summaries(self.manager.clone(), neighbour, summaries));
        let manager = Arc::downgrade(&self.manager);
        tokio::spawn(async move {
            let _permit = permit;
            neighbours::send_summaries(manager, named, sender).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver).map(Ok))))
    }

    async fn follow(&self, request: Request<v1::FollowRequest>) -> Result<Response<Self::FollowStream>, Status> {
        let group = request.into_inner().group;
        message_limits::check_name("the group", &group)?;
        self.check_group(&group)?;
        let Ok(permit) = self.followers.clone().try_acquire_owned() else {
            warn!("refused a follower: {MAX_FOLLOWERS} managers follow this one");
            return Err(Status::resource_exhausted(format!("{MAX_FOLLOWERS} managers follow this one already")));
        };
        let (sender, receiver) = mpsc::channel(1);
        let manager = Arc::downgrade(&self.manager);
        tokio::spawn(async move {
            let _permit = permit;
            replication::send_states(manager, sender).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver).map(Ok))))
    }

    async fn place(&self, request: Request<v1::PlaceRequest>) -> Result<Response<v1::PlaceResponse>, Status> {
        let manager = self.leading()?;
        let request = request.into_inner();
        check_place_request(&request)?;
        let answer = manager.state().place(&request, manager.now());
        Ok(Response::new(match answer {
            PlaceAnswer::Local(response) => *response,
            PlaceAnswer::Ask(groups) => {
                tokio::time::timeout(BORROW_TIMEOUT, borrow(&groups, &request)).await.unwrap_or_default()
            }
        }))
    }

    async fn list_groups(
        &self,
        request: Request<v1::ListGroupsRequest>,
    ) -> Result<Response<v1::ListGroupsResponse>, Status> {
        let mut state = self.manager.state();
        let mut groups = vec![state.local_summary(clock_ms())];
        groups.extend(state.federation.groups(self.manager.now()));
        // The local group is first: its distance is 0.
        let groups = groups.into_iter().map(|group| (format!("{:010}/{}", group.hops, group.group), group));
        let (groups, next_page) = page_of(groups, &request.into_inner().page);
        Ok(Response::new(v1::ListGroupsResponse { groups, next_page }))
    }

    async fn list_sources(
        &self,
        request: Request<v1::ListSourcesRequest>,
    ) -> Result<Response<v1::ListSourcesResponse>, Status> {
        let mut sources = self.manager.state().sources.clone();
        sources.extend(self.manager.options.sources.clone());
        let v1::ListSourcesRequest { page, name } = request.into_inner();
        let wanted = sources.into_iter().filter(|(source, _)| name.is_empty() || *source == name);
        let wanted: BTreeMap<String, String> = wanted.collect();
        let wanted = wanted.into_iter().map(|(name, uri)| (name.clone(), v1::AddSourceRequest { name, uri }));
        let (sources, next_page) = page_of(wanted, &page);
        let sources = sources.into_iter().map(|source| (source.name, source.uri)).collect();
        Ok(Response::new(v1::ListSourcesResponse { sources, next_page }))
    }

    async fn add_source(
        &self,
        request: Request<v1::AddSourceRequest>,
    ) -> Result<Response<v1::AddSourceResponse>, Status> {
        let v1::AddSourceRequest { name, uri } = request.into_inner();
        let manager = self.leading_for_source(&name)?;
        group_sources::check_uri(&name, &uri)?;
        group_sources::check_count(&name, &manager.state().sources)?;
        manager.set_source(name, Some(uri)).await.map_err(SourceError::NotStored)?;
        Ok(Response::new(v1::AddSourceResponse {}))
    }

    async fn remove_source(
        &self,
        request: Request<v1::RemoveSourceRequest>,
    ) -> Result<Response<v1::RemoveSourceResponse>, Status> {
        let name = request.into_inner().name;
        let manager = self.leading_for_source(&name)?;
        if !manager.state().sources.contains_key(&name) {
            return Err(SourceError::Unknown { name, group: manager.options.group.clone() }.into());
        }
        manager.set_source(name, None).await.map_err(SourceError::NotStored)?;
        Ok(Response::new(v1::RemoveSourceResponse {}))
    }

    async fn list_nodes(
        &self,
        request: Request<v1::ListNodesRequest>,
    ) -> Result<Response<v1::ListNodesResponse>, Status> {
        let state = self.manager.state();
        let nodes = state.registry.statuses(self.manager.now()).into_iter();
        let named =
            nodes.map(|status| (status.node.as_ref().map_or_else(String::new, |node| node.name.clone()), status));
        let (nodes, next_page) = page_of(named, &request.into_inner().page);
        Ok(Response::new(v1::ListNodesResponse {
            group: self.manager.options.group.clone(),
            nodes,
            next_page,
            leads: state.succession.leads(),
            epoch: state.succession.epoch(),
        }))
    }

    async fn drain(&self, request: Request<v1::DrainRequest>) -> Result<Response<v1::DrainResponse>, Status> {
        let manager = self.leading()?;
        let name = request.into_inner().node;
        message_limits::check_name("the name of the node", &name)?;
        if !manager.state().registry.drain(&name) {
            return Err(Status::not_found(format!("there is no node {name:?} in group {:?}", manager.options.group)));
        }
        manager.notify_nodes();
        Ok(Response::new(v1::DrainResponse {}))
    }
}
