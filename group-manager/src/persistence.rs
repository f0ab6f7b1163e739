//! The document of a group in the repository. A manager writes it when the durable part of its state changes.

use xavantes_proto::{Message, v1};
use xavantes_repository::{Error, Store};

/// Kind of the document. Its key is the name of the group.
const KIND: &str = "group";

/// Kind of the documents that could not be read as states. They are kept for people.
const UNREADABLE_KIND: &str = "unreadable-group";

/// Loads the state of a group. A new group has an empty state. So has one whose state cannot be read: its nodes join again,
/// and the settings of the node name the adjacent groups and the data sources. What cannot be read is kept.
pub(crate) async fn load(repository: &Store, group: &str) -> Result<v1::GroupState, Error> {
    let documents = repository.documents(KIND).await?;
    let Some((_, document)) = documents.into_iter().find(|(key, _)| key == group) else {
        return Ok(v1::GroupState::default());
    };
    match v1::GroupState::decode(document.clone()) {
        Ok(state) => Ok(state),
        Err(error) => {
            tracing::error!(group, %error, "the stored state of the group cannot be read; starting with an empty one");
            repository.put(UNREADABLE_KIND, group, document).await?;
            Ok(v1::GroupState::default())
        }
    }
}

/// Stores the state of a group.
pub(crate) async fn save(repository: &Store, group: &str, state: &v1::GroupState) -> Result<(), Error> {
    repository.put(KIND, group, state.encode_to_vec().into()).await
}

/// The part of a state whose changes must be durable. Leaves out loads, ages and loans, which change all the time.
pub(crate) fn durable_part(state: &v1::GroupState) -> v1::GroupState {
    let node = |known: &v1::KnownNode| {
        let heartbeat = known.heartbeat.as_ref();
        let heartbeat = heartbeat.map(|it| v1::Heartbeat {
            node: it.node.clone(),
            draining: it.draining,
            life: it.life,
            ..Default::default()
        });
        v1::KnownNode { heartbeat, drain: known.drain, silent_ms: 0, lost: known.lost }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_state_that_cannot_be_read_is_empty() {
        let repository = xavantes_repository::in_memory();
        repository.put(KIND, "g", vec![0xff; 9].into()).await.unwrap();
        assert_eq!(load(&repository, "g").await.unwrap(), v1::GroupState::default());
    }

    #[test]
    fn changes_of_load_and_age_are_not_durable() {
        let node = v1::NodeDescription { name: "n".into(), ..Default::default() };
        let heartbeat = v1::Heartbeat { node: Some(node), busy: 3, processes: 1, ..Default::default() };
        let known = v1::KnownNode { heartbeat: Some(heartbeat.clone()), silent_ms: 5, ..Default::default() };
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
        assert_eq!(durable_part(&state), durable_part(&later));
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
            assert_ne!(durable_part(&state), durable_part(&changed));
        }
    }
}
