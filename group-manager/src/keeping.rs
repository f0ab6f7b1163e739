//! What a manager keeps in the repository: a document for the group, written when it changes in substance.

use std::sync::Weak;
use std::time::Duration;

use tracing::warn;
use xavantes_proto::{Message, v1};
use xavantes_repository::{Error, Store};

use crate::service::Shared;

const KIND: &str = "group";
/// What changes is kept at most so often.
const KEEP_EVERY: Duration = Duration::from_secs(1);

/// What was kept of the group; nothing if it is new.
pub(crate) async fn load(repository: &Store, group: &str) -> Result<v1::GroupState, Error> {
    let documents = repository.documents(KIND).await?;
    let Some((_, document)) = documents.into_iter().find(|(key, _)| key == group) else {
        return Ok(v1::GroupState::default());
    };
    v1::GroupState::decode(document)
        .map_err(|error| Error::Broken(format!("what was kept of group {group:?} cannot be read: {error}")))
}

/// Keeps what is known of the group.
pub(crate) async fn save(repository: &Store, group: &str, state: &v1::GroupState) -> Result<(), Error> {
    repository.put(KIND, group, state.encode_to_vec().into()).await
}

/// What is worth to be kept: not who works how much, and since when.
pub(crate) fn substance(state: &v1::GroupState) -> v1::GroupState {
    let node = |known: &v1::KnownNode| {
        let heartbeat = known.heartbeat.as_ref();
        let heartbeat = heartbeat.map(|it| v1::Heartbeat {
            node: it.node.clone(),
            draining: it.draining,
            life: it.life,
            ..Default::default()
        });
        v1::KnownNode { heartbeat, drain: known.drain, silent_ms: 0 }
    };
    let group = |it: &v1::GroupSummary| v1::GroupSummary {
        group: it.group.clone(),
        managers: it.managers.clone(),
        ..Default::default()
    };
    v1::GroupState {
        epoch: state.epoch,
        nodes: state.nodes.iter().map(node).collect(),
        groups: state.groups.iter().map(group).collect(),
        sources: state.sources.clone(),
        adjacent: state.adjacent.clone(),
        ..Default::default()
    }
}

/// Keeps what is known whenever it has changed, for as long as this manager lives.
pub(crate) async fn run(shared: Weak<Shared>) {
    let mut ticks = tokio::time::interval(KEEP_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut warned = false;
    loop {
        ticks.tick().await;
        let Some(shared) = shared.upgrade() else { return };
        match shared.keep().await {
            Ok(()) => warned = false,
            Err(error) => {
                if !std::mem::replace(&mut warned, true) {
                    warn!(%error, "what is known of the group is not kept");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_and_age_are_not_kept_for_their_own_sake() {
        let node = v1::NodeDescription { name: "n".into(), ..Default::default() };
        let heartbeat = v1::Heartbeat { node: Some(node), busy: 3, processes: 1, ..Default::default() };
        let known = v1::KnownNode { heartbeat: Some(heartbeat.clone()), drain: false, silent_ms: 5 };
        let summary = v1::GroupSummary { group: "g".into(), number: 4, age_ms: 2, ..Default::default() };
        let state = v1::GroupState { nodes: vec![known.clone()], groups: vec![summary.clone()], ..Default::default() };

        let calmer = v1::Heartbeat { busy: 0, waiting: 2, ..heartbeat.clone() };
        let later = v1::GroupState {
            nodes: vec![v1::KnownNode { heartbeat: Some(calmer), silent_ms: 9, ..known.clone() }],
            groups: vec![v1::GroupSummary { free_slots: 9, number: 5, ..summary }],
            lent: vec![v1::Lent::default()],
            number: 7,
            ..state.clone()
        };
        assert_eq!(substance(&state), substance(&later));
        let draining = v1::Heartbeat { draining: true, ..heartbeat };
        for changed in [
            v1::GroupState { epoch: 1, ..state.clone() },
            v1::GroupState { nodes: vec![], ..state.clone() },
            v1::GroupState { nodes: vec![v1::KnownNode { drain: true, ..known.clone() }], ..state.clone() },
            v1::GroupState { nodes: vec![v1::KnownNode { heartbeat: Some(draining), ..known }], ..state.clone() },
            v1::GroupState { groups: vec![], ..state.clone() },
            v1::GroupState { sources: [("s".into(), "u".into())].into(), ..state.clone() },
            v1::GroupState { adjacent: vec![v1::AdjacentGroup::default()], ..state.clone() },
        ] {
            assert_ne!(substance(&state), substance(&changed));
        }
    }
}
