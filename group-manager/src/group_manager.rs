//! A running manager: its state, which calls and tasks share, and the clock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tracing::{info, warn};
use xavantes_proto::v1;
use xavantes_repository::{Error, Store};

use crate::federation::Merged;
use crate::node_registry::JoinRefusal;
use crate::options::Options;
use crate::persistence;
use crate::state::{ManagerState, Tick};

/// A running manager.
pub(crate) struct Manager {
    pub(crate) options: Options,
    began: Instant,
    state: Mutex<ManagerState>,
    /// Counts the changes that all nodes must learn about.
    changes: watch::Sender<u64>,
    repository: Store,
    /// Durable part of the state that was persisted last. The lock serialises writes to the repository.
    persisted: tokio::sync::Mutex<v1::GroupState>,
}

impl Manager {
    /// Starts with the state in the repository.
    pub(crate) async fn open(options: Options, repository: Store) -> Result<Self, Error> {
        let stored = persistence::load(&repository, &options.group).await?;
        let age = Duration::from_millis(clock_ms().saturating_sub(stored.kept_at_ms));
        let persisted = persistence::durable_part(&stored);
        Ok(Self {
            began: Instant::now(),
            state: Mutex::new(ManagerState::new(options.clone(), stored, age, Duration::ZERO)),
            changes: watch::channel(0).0,
            repository,
            persisted: tokio::sync::Mutex::new(persisted),
            options,
        })
    }

    /// Time since the start of this manager.
    pub(crate) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, ManagerState> {
        self.state.lock()
    }

    pub(crate) fn subscribe_changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn notify_nodes(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Removes expired nodes, summaries and loans, and decides whether this manager leads.
    pub(crate) fn tick(&self) {
        let Tick { lost_nodes, leads } = self.state().tick(self.now());
        match leads {
            Some(true) => info!(epoch = self.state().succession.epoch(), "leading the group"),
            Some(false) => info!("an earlier manager leads the group again"),
            None => {}
        }
        if !lost_nodes.is_empty() {
            warn!(nodes = lost_nodes.join(","), "nodes lost");
        }
        if leads.is_some() || !lost_nodes.is_empty() {
            self.notify_nodes();
        }
    }

    pub(crate) fn on_heartbeat(&self, heartbeat: v1::Heartbeat) -> Result<(), JoinRefusal> {
        if self.state().on_heartbeat(heartbeat, self.now())? {
            self.notify_nodes();
        }
        Ok(())
    }

    /// An adjacent group sent its summaries.
    pub(crate) fn on_summaries(&self, summaries: v1::GroupSummaries) -> Merged {
        self.state().on_summaries(summaries, self.now())
    }

    /// The summaries for an adjacent group.
    pub(crate) fn summaries_for(&self, neighbour: &str) -> v1::GroupSummaries {
        self.state().summaries_for(neighbour, clock_ms(), self.now())
    }

    /// The manager at that position sent its state.
    pub(crate) fn on_replica_state(&self, position: usize, state: v1::GroupState) {
        self.state().on_replica_state(position, state, self.now());
    }

    /// The state for other managers of the group. A manager that does not lead sends only its epoch.
    pub(crate) fn state_for_replicas(&self) -> v1::GroupState {
        let state = self.state();
        match state.succession.leads() {
            true => state.to_wire(self.now()),
            false => v1::GroupState { epoch: state.succession.epoch(), ..Default::default() },
        }
    }

    /// Persists the state if its durable part has changed.
    pub(crate) async fn persist(&self) -> Result<(), Error> {
        let mut persisted = self.persisted.lock().await;
        let state = self.state().to_wire(self.now());
        let durable = persistence::durable_part(&state);
        if *persisted != durable {
            self.save(state).await?;
            *persisted = durable;
        }
        Ok(())
    }

    /// Adds a source, or removes it if `uri` is `None`. Other managers and nodes see the change after it is durable.
    pub(crate) async fn set_source(&self, name: String, uri: Option<String>) -> Result<(), Error> {
        let mut persisted = self.persisted.lock().await;
        let mut state = self.state().to_wire(self.now());
        match &uri {
            Some(uri) => state.sources.insert(name.clone(), uri.clone()),
            None => state.sources.remove(&name),
        };
        let durable = persistence::durable_part(&state);
        self.save(state).await?;
        *persisted = durable;
        let sources = &mut self.state().sources;
        match uri {
            Some(uri) => sources.insert(name, uri),
            None => sources.remove(&name),
        };
        Ok(())
    }

    async fn save(&self, state: v1::GroupState) -> Result<(), Error> {
        let state = v1::GroupState { kept_at_ms: clock_ms(), ..state };
        persistence::save(&self.repository, &self.options.group, &state).await
    }
}

/// Milliseconds since 1970.
pub(crate) fn clock_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
