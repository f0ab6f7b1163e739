//! Activities of a process that have not begun and may begin. Without I/O, clock or threads.

use xavantes_engine::{Engine, LivePhase, Root, View};
use xavantes_model::definition::{DefinitionNode, DefinitionNodeId, Kind, Program};

use crate::memo::memo_entry::element_path;

/// Upper bound on the live elements, and on the places, that are looked at.
const MAX_ELEMENTS: usize = 50_000;
/// Upper bound on the activities that are found.
const MAX_FOUND: usize = 10_000;
/// Upper bound on the levels below a live element that are looked at.
const MAX_DEPTH: usize = 100;

/// What an element runs: a node of a process type.
#[derive(Clone, Copy)]
struct NodePlace {
    process: usize,
    node: DefinitionNodeId,
}

/// Activities that may begin after the present ones: the number of the type, and the path without the id of the process. All
/// iterations of a loop that have not begun count as one, with the path segment `[*]`.
pub(super) fn unreached_activities(engine: &Engine, root: Root) -> Vec<(usize, String)> {
    let Some(top) = engine.root() else { return Vec::new() };
    let mut search = PlaceSearch { program: engine.program(), visited: 0, found: Vec::new() };
    for live in engine.live_elements(top, MAX_ELEMENTS) {
        if live.phase == LivePhase::Inner
            && let Some(view) = engine.view(live.id)
            && let Some(place) = search.find(root, element_path(&view.path))
        {
            let children: Vec<View> = view.children.iter().filter_map(|child| engine.view(*child)).collect();
            search.look_into(place, &view, &children);
            for (position, _) in engine.pending(live.id) {
                search.expand_element(place, position as usize, element_path(&view.path));
            }
        }
    }
    search.found
}

struct PlaceSearch<'a> {
    program: &'a Program,
    /// Number of places that were expanded.
    visited: usize,
    found: Vec<(usize, String)>,
}

impl PlaceSearch<'_> {
    fn node(&self, place: NodePlace) -> &DefinitionNode {
        self.program.node(place.process, place.node)
    }

    /// What the element at a path runs.
    fn find(&self, root: Root, path: &str) -> Option<NodePlace> {
        let mut place = NodePlace { process: root.process, node: root.node };
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let node = self.node(place);
            let mut inner = node.elements.iter().copied().chain(node.catch).chain(node.finally);
            let found = inner.find(|id| {
                let inner = self.program.node(place.process, *id);
                if inner.tag == "ITERATE" { name.starts_with('[') } else { *inner.name == *name }
            })?;
            place = self.inside(NodePlace { node: found, ..place });
        }
        Some(place)
    }

    /// The body of the process type, if the node calls one.
    fn inside(&self, place: NodePlace) -> NodePlace {
        match self.node(place).kind {
            Kind::Process { process } => NodePlace { process, node: DefinitionNodeId::BODY },
            _ => place,
        }
    }

    /// Finds what may follow in a live element that is no parallel controller with a fixed number of elements.
    fn look_into(&mut self, place: NodePlace, view: &View, children: &[View]) {
        let (path, program) = (element_path(&view.path), self.program);
        let node = program.node(place.process, place.node);
        let is_live = |id: DefinitionNodeId| {
            let name = &program.node(place.process, id).name;
            children.iter().any(|child| child.path.rsplit('/').next() == Some(&**name))
        };
        match &node.kind {
            Kind::Sequence => {
                let current = node.elements.iter().rposition(|id| is_live(*id));
                let next = current.map_or(node.elements.len(), |current| current + 1);
                for position in next..node.elements.len() {
                    self.expand_element(place, position, path);
                }
            }
            kind if kind.is_loop() => {
                let ended = view.ended.map_or(0, |it| it.completed + it.failed + it.cancelled);
                if view.total.is_none_or(|total| ended + (children.len() as u64) < total) {
                    self.expand_element(place, 0, path);
                }
            }
            _ => {}
        }
        if let Some(finally) = node.finally.filter(|finally| !is_live(*finally)) {
            self.expand(NodePlace { node: finally, ..place }, path, &mut Vec::new(), 0);
        }
    }

    fn expand_element(&mut self, place: NodePlace, position: usize, path: &str) {
        if let Some(node) = self.node(place).elements.get(position).copied() {
            self.expand(NodePlace { node, ..place }, path, &mut Vec::new(), 0);
        }
    }

    /// Finds all activities at a place that has not begun. `around` are the process types that are being expanded.
    fn expand(&mut self, place: NodePlace, path: &str, around: &mut Vec<usize>, depth: usize) {
        self.visited += 1;
        if self.visited > MAX_ELEMENTS || self.found.len() >= MAX_FOUND || depth > MAX_DEPTH {
            return;
        }
        let program = self.program;
        let node = program.node(place.process, place.node);
        let name = if node.tag == "ITERATE" { "[*]" } else { &node.name };
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
        let called = match node.kind {
            Kind::Activity { activity } => return self.found.push((activity, path)),
            // A process type that calls itself could go on without end.
            Kind::Process { process } if around.contains(&process) => return,
            Kind::Process { process } => Some(process),
            _ => None,
        };
        around.extend(called);
        let inner = self.inside(place);
        let content = program.node(inner.process, inner.node);
        for id in content.elements.iter().copied().chain(content.finally) {
            self.expand(NodePlace { node: id, ..inner }, &path, around, depth + 1);
        }
        if called.is_some() {
            around.pop();
        }
    }
}
