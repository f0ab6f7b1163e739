//! A checker of the order of events, which does not use the engine's state.

use std::collections::{BTreeMap, BTreeSet};

use xavantes_engine::{ElementId, Event, StopReason};
use xavantes_model::definition::{DefinitionNodeId, Kind, Program};

/// What the checker knows about a live element, from events alone.
#[derive(Debug, Clone)]
pub struct LiveElement {
    pub parent: Option<ElementId>,
    process: usize,
    node: DefinitionNodeId,
    site: (usize, DefinitionNodeId),
    handler: bool,
    finally: bool,
    cancelled: bool,
    ended: BTreeSet<u32>,
}

/// The live elements, from events alone.
#[derive(Debug, Default)]
pub struct Checker {
    pub live: BTreeMap<ElementId, LiveElement>,
    /// The root has ended.
    finished: bool,
    /// A user reopened the process. The events do not say which elements came back to life, so the checker stops.
    reopened: bool,
}

impl Checker {
    pub fn on_event(&mut self, program: &Program, event: &Event) {
        if self.reopened {
            return;
        }
        match event {
            Event::Reopened { .. } => {
                assert!(self.finished, "a running process was reopened");
                self.reopened = true;
            }
            Event::Started { root_process, root, .. } => {
                let id = ElementId { index: 0, generation: 0 };
                let (process, node) = (*root_process as usize, *root);
                self.live.insert(
                    id,
                    LiveElement {
                        parent: None,
                        process,
                        node,
                        site: (process, node),
                        handler: false,
                        finally: false,
                        cancelled: false,
                        ended: BTreeSet::new(),
                    },
                );
            }
            Event::Entered { id, parent, site, .. } => {
                self.on_start(*parent, Some(program), Some(*site));
                let around = &self.live[parent];
                let process = around.process;
                let (controller, node) = (program.node(process, around.node), program.node(process, *site));
                let handler = Some(*site) == controller.catch || Some(*site) == controller.finally;
                if !handler {
                    match &controller.kind {
                        Kind::Sequence => {
                            let before: BTreeSet<u32> = (0..node.position).collect();
                            assert_eq!(around.ended, before, "{} began out of order", node.name);
                        }
                        Kind::Par { dependents, .. } => {
                            for (other, waiting) in dependents.iter().enumerate() {
                                let waits = waiting.contains(&node.position);
                                assert!(!waits || around.ended.contains(&(other as u32)), "{} did not wait", node.name);
                            }
                        }
                        _ => {}
                    }
                }
                let (inner, body) = match node.kind {
                    Kind::Process { process } => (process, DefinitionNodeId::BODY),
                    _ => (process, *site),
                };
                let element = LiveElement {
                    parent: Some(*parent),
                    process: inner,
                    node: body,
                    site: (process, *site),
                    handler,
                    finally: Some(*site) == controller.finally,
                    cancelled: false,
                    ended: BTreeSet::new(),
                };
                assert!(self.live.insert(*id, element).is_none(), "an id was used twice");
            }
            Event::Sent { id, .. } => self.on_start(*id, None, None),
            Event::Stopping { id, stop: StopReason::Cancelled } => {
                self.live.get_mut(id).expect("the element is live").cancelled = true;
            }
            Event::Restarted { id, .. } => {
                self.on_start(*id, None, None);
                self.live.get_mut(id).expect("the element is live").ended.clear();
            }
            Event::Ended { id, .. } => {
                assert!(
                    !self.live.values().any(|other| other.parent == Some(*id)),
                    "an element ended before its children"
                );
                let ended = self.live.remove(id).expect("the element is live");
                match ended.parent {
                    Some(parent) if !ended.handler => {
                        let position = program.node(ended.site.0, ended.site.1).position;
                        self.live.get_mut(&parent).expect("the parent is live").ended.insert(position);
                    }
                    Some(_) => {}
                    None => self.finished = true,
                }
            }
            _ => {}
        }
    }

    /// Something starts in `id`. No scope around it may have been cancelled, unless it starts in a `FINALLY`.
    fn on_start(&self, id: ElementId, program: Option<&Program>, site: Option<DefinitionNodeId>) {
        assert!(!self.finished, "an element starts after the end of the process");
        let mut in_handler = match (program, site) {
            (Some(program), Some(site)) => {
                let around = &self.live[&id];
                program.node(around.process, around.node).finally == Some(site)
            }
            _ => false,
        };
        let mut next = Some(id);
        while let Some(id) = next {
            let element = &self.live[&id];
            assert!(!element.cancelled || in_handler, "an element starts in {id} after its cancellation");
            in_handler |= element.finally;
            next = element.parent;
        }
    }
}
