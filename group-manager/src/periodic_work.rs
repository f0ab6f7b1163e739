//! The periodic work of a manager. Each task ends when the manager is dropped.

use std::sync::Weak;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tracing::warn;

use crate::group_manager::Manager;

/// Interval at which a manager looks for lost nodes and decides whether it leads.
const TICK_INTERVAL: Duration = Duration::from_millis(250);
/// Interval at which a manager persists changes of its state.
const PERSIST_INTERVAL: Duration = Duration::from_secs(1);

/// Ticks.
pub(crate) async fn tick(manager: Weak<Manager>) {
    let mut ticks = tokio::time::interval(TICK_INTERVAL);
    loop {
        ticks.tick().await;
        let Some(manager) = manager.upgrade() else { return };
        manager.tick();
    }
}

/// Persists the state whenever its durable part has changed.
pub(crate) async fn persist(manager: Weak<Manager>) {
    let mut ticks = tokio::time::interval(PERSIST_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut warned = false;
    loop {
        ticks.tick().await;
        let Some(manager) = manager.upgrade() else { return };
        match manager.persist().await {
            Ok(()) => warned = false,
            Err(error) => {
                if !std::mem::replace(&mut warned, true) {
                    warn!(%error, "cannot persist the state of the group");
                }
            }
        }
    }
}
