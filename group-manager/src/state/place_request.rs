//! The answers to requests of coordinators for a worker or another coordinator.

use std::time::Duration;

use xavantes_proto::v1;

use super::ManagerState;
use crate::group_placement::{LocalCapacity, PlaceKind, PlacementOffer, choose_group};
use crate::lending::{Borrower, Granted, LOAN_DURATION};

/// The answer to a request for a place.
#[derive(Debug, PartialEq)]
pub enum PlaceAnswer {
    /// This manager answers. A response without a node means that no place is free.
    Local(Box<v1::PlaceResponse>),
    /// A manager of another group answers: the addresses of the managers of each group, in the order in which to ask the groups.
    Ask(Vec<Vec<String>>),
}

impl PlaceAnswer {
    fn local(response: v1::PlaceResponse) -> Self {
        Self::Local(Box::new(response))
    }

    fn nowhere() -> Self {
        Self::local(v1::PlaceResponse::default())
    }
}

impl ManagerState {
    /// Answers a request for a worker or a coordinator.
    pub fn place(&mut self, request: &v1::PlaceRequest, now: Duration) -> PlaceAnswer {
        let wanted = match request.what() {
            v1::place_request::What::Worker => PlaceKind::Worker,
            _ => PlaceKind::Coordinator,
        };
        if request.group != self.options.group {
            return PlaceAnswer::local(match wanted {
                PlaceKind::Worker => self.lend(request, now).unwrap_or_default(),
                // Coordinators of other groups find the coordinators of this group in its summary.
                PlaceKind::Coordinator => v1::PlaceResponse::default(),
            });
        }
        let mut groups = self.federation.groups(now);
        for group in groups.iter_mut().filter(|group| request.lenders.contains(&group.group)) {
            group.free_slots = group.free_slots.max(1);
        }
        let capacity = self.registry.capacity_for(&request.node);
        let placement = match wanted {
            PlaceKind::Worker if !request.renew.is_empty() => {
                PlacementOffer::Foreign(vec![request.renew_group.clone()])
            }
            // The roster has the workers of this group, so the coordinator asks for a worker of another group.
            PlaceKind::Worker => choose_group(wanted, LocalCapacity { free_slots: 0, ..capacity }, &groups),
            PlaceKind::Coordinator => choose_group(wanted, capacity, &groups),
        };
        match placement {
            PlacementOffer::Foreign(names) => {
                let named = |name: &String| groups.iter().find(|group| group.group == *name);
                let mut chosen = names.iter().filter_map(named);
                if wanted == PlaceKind::Worker {
                    let managers: Vec<Vec<String>> = chosen.map(|group| group.managers.clone()).collect();
                    return if managers.is_empty() { PlaceAnswer::nowhere() } else { PlaceAnswer::Ask(managers) };
                }
                chosen.next().map_or_else(PlaceAnswer::nowhere, coordinator_of)
            }
            PlacementOffer::Nowhere if wanted == PlaceKind::Worker => PlaceAnswer::nowhere(),
            // Without free slots anywhere, another coordinator of this group still shares the interpretation.
            PlacementOffer::Local | PlacementOffer::Nowhere => {
                let others = self.registry.coordinators().filter(|(node, _)| node.name != request.node);
                let node = others.min_by_key(|(_, processes)| *processes).map(|(node, _)| node.clone());
                if node.is_none() {
                    let nearest = groups.iter().filter(|group| !group.coordinators.is_empty());
                    return nearest.min_by_key(|group| group.hops).map_or_else(PlaceAnswer::nowhere, coordinator_of);
                }
                let group = self.options.group.clone();
                PlaceAnswer::local(v1::PlaceResponse { node, group, ..Default::default() })
            }
        }
    }

    /// Lends slots of a worker to a coordinator of another group.
    fn lend(&mut self, request: &v1::PlaceRequest, now: Duration) -> Option<v1::PlaceResponse> {
        if !self.options.accepts_work_of(&request.group) {
            return None;
        }
        let borrower = Borrower { group: request.group.clone(), coordinator: request.node.clone() };
        let mut workers = self.registry.lendable_workers();
        if request.renew.is_empty() && !request.needs.is_empty() {
            workers.retain(|it| {
                let node = self.registry.node(&it.worker);
                node.is_some_and(|node| request.needs.iter().any(|needs| meets(node, needs)))
            });
        }
        let limit = self.options.foreign_slots;
        let Granted { worker, slots } = if request.renew.is_empty() {
            self.lending.lend(&borrower, &workers, limit, now)?
        } else {
            let worker = workers.iter().find(|it| it.worker == request.renew)?;
            self.lending.renew(&borrower, worker, limit, now)?
        };
        Some(v1::PlaceResponse {
            node: self.registry.node(&worker).cloned(),
            group: self.options.group.clone(),
            slots,
            lease_ms: LOAN_DURATION.as_millis() as u64,
        })
    }
}

/// The coordinator of a group that runs the fewest processes.
fn coordinator_of(group: &v1::GroupSummary) -> PlaceAnswer {
    let best = group.coordinators.iter().min_by_key(|offer| offer.processes).cloned();
    let node = best.map(|offer| v1::NodeDescription { name: offer.node, address: offer.address, ..Default::default() });
    PlaceAnswer::local(v1::PlaceResponse { node, group: group.group.clone(), ..Default::default() })
}

/// Whether a worker can run an activity with these needs.
fn meets(node: &v1::NodeDescription, needs: &v1::ActivityNeeds) -> bool {
    needs.slots <= node.slots
        && needs.memory <= node.memory
        && needs.gpus <= node.gpus
        && (node.containers || !needs.container)
        && (needs.language.is_empty() || node.interpreters.contains(&needs.language))
        && needs.tags.iter().all(|tag| node.tags.contains(tag))
}
