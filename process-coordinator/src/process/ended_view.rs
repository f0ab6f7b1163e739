//! The history of an ended process, drawn as the tree that its user wrote. Without I/O, clock or threads.

use std::collections::HashMap;

use xavantes_engine::{Root, Tally};
use xavantes_model::definition::{DefinitionNode, DefinitionNodeId, Kind, Program};
use xavantes_model::diagnostic::did_you_mean;
use xavantes_proto::v1;

use crate::definitions::definition_places::name_files;
use crate::process::process_history::{ProcessHistory, failed};

/// An ended process.
pub(crate) struct EndedView<'a> {
    pub history: &'a ProcessHistory,
    pub program: &'a Program,
    pub root: Root,
    /// Id of the process, which begins all paths.
    pub id: &'a str,
}

impl EndedView<'_> {
    /// What became of the element at a path, and of `depth` levels below it, each with at most `max_children` elements.
    pub fn element(&self, path: &str, depth: u32, max_children: usize) -> Result<v1::Element, String> {
        let (place, path) = self.find(path)?;
        let homes = Homes::new(self);
        let mut element = self.draw(&homes, place, path, depth, max_children);
        if place.site.is_none() {
            element.remarks = self.history.to_wire().remarks;
            for failure in element.remarks.iter_mut().filter_map(failed) {
                name_files(failure, self.program, self.root, self.id);
            }
            element.usage = self.history.usage(self.program);
        }
        Ok(element)
    }

    /// The place that a path names, and the path with all iterations as one.
    fn find(&self, path: &str) -> Result<(HistoryPlace, String), String> {
        let Self { program, id, .. } = *self;
        let mut place = HistoryPlace::root(self.root);
        let rest = path.strip_prefix(id).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let rest = rest.ok_or_else(|| format!("{path:?} is not in process {id:?}"))?;
        let mut parent = id.to_owned();
        for segment in rest.split('/').skip(1) {
            let all = || elements(program, place);
            let iteration = segment.starts_with('[') && segment.ends_with(']');
            let matches = |node: &&DefinitionNode| match node.tag {
                "ITERATE" => iteration,
                _ => *node.name == *segment,
            };
            let Some(node) = all().find(matches) else {
                let hint = did_you_mean(segment, all().take(1000).map(|node| &*node.name));
                let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
                return Err(format!("{parent} has no element {segment:?}{hint}"));
            };
            parent = join(&parent, node);
            place = HistoryPlace::of(place.process, node);
            if self.tally(place).is_none() {
                return Err(format!("{parent} never began"));
            }
        }
        Ok((place, parent))
    }

    /// What became of the elements at a place; the history does not count the root.
    fn tally(&self, place: HistoryPlace) -> Option<Tally> {
        place.site.and_then(|(process, node)| self.history.tally(process, node))
    }

    fn draw(&self, homes: &Homes, place: HistoryPlace, path: String, depth: u32, max_children: usize) -> v1::Element {
        let program = self.program;
        let site = place.site.map(|(process, node)| program.node(process, node));
        let tally = self.tally(place).unwrap_or_default();
        let number = |count: u64| (tally.began > 1).then_some(count);
        let kind = site.map(|site| &site.kind);
        let mut element = v1::Element {
            tag: site.map_or("PROCESS", |site| site.tag).into(),
            r#type: match kind {
                Some(Kind::Activity { activity }) => program.activities[*activity].name.to_string(),
                Some(Kind::Process { process }) => program.processes[*process].name.to_string(),
                Some(_) => String::new(),
                None => program.processes[place.process].name.to_string(),
            },
            state: state(&tally).into(),
            completed: number(tally.completed),
            failed: number(tally.failed),
            cancelled: number(tally.cancelled),
            runs: tally.began,
            retried: tally.retried,
            lost: tally.lost,
            began_ms: tally.first.0,
            ended_ms: tally.last.0,
            ..v1::Element::default()
        };
        let home = homes.0.get(&place.process).filter(|_| place.is_call());
        match home {
            Some(home) if *home != path => element.counted_at.clone_from(home),
            _ if depth == 0 => {}
            _ => {
                let inner = elements(program, place).map(|node| (HistoryPlace::of(place.process, node), node));
                let mut reached = inner.filter(|(inner, _)| self.tally(*inner).is_some());
                let shown = reached.by_ref().take(max_children);
                element.children = shown
                    .map(|(inner, node)| self.draw(homes, inner, join(&path, node), depth - 1, max_children))
                    .collect();
                element.hidden = reached.count() as u32;
            }
        }
        element.path = path;
        element
    }
}

/// A place of the definitions: the node of an element, and what the element runs.
#[derive(Debug, Clone, Copy)]
struct HistoryPlace {
    /// Process type and node of the element; none for the root of the process.
    site: Option<(usize, DefinitionNodeId)>,
    process: usize,
    node: DefinitionNodeId,
}

impl HistoryPlace {
    fn root(root: Root) -> Self {
        Self { site: None, process: root.process, node: root.node }
    }

    fn of(process: usize, node: &DefinitionNode) -> Self {
        let site = Some((process, node.id));
        match node.kind {
            Kind::Process { process } => Self { site, process, node: DefinitionNodeId::BODY },
            _ => Self { site, process, node: node.id },
        }
    }

    /// Does the element run a process type?
    fn is_call(self) -> bool {
        self.node == DefinitionNodeId::BODY
    }
}

/// Path of the first call of each process type. The history counts all calls of a type together, so the view draws the
/// content of the type there and nowhere else.
struct Homes(HashMap<usize, String>);

impl Homes {
    fn new(view: &EndedView) -> Self {
        let mut homes = HashMap::new();
        let mut pending = vec![(HistoryPlace::root(view.root), view.id.to_owned())];
        while let Some((place, path)) = pending.pop() {
            if place.is_call() && homes.contains_key(&place.process) {
                continue;
            }
            let inner: Vec<_> = elements(view.program, place)
                .map(|node| (HistoryPlace::of(place.process, node), join(&path, node)))
                .filter(|(inner, _)| view.tally(*inner).is_some())
                .collect();
            pending.extend(inner.into_iter().rev());
            if place.is_call() {
                homes.insert(place.process, path);
            }
        }
        Self(homes)
    }
}

/// The elements inside a place, with its handlers of failure and end.
fn elements(program: &Program, place: HistoryPlace) -> impl Iterator<Item = &DefinitionNode> {
    let node = program.node(place.process, place.node);
    let inner = node.elements.iter().copied().chain(node.catch).chain(node.finally);
    inner.map(move |inner| program.node(place.process, inner))
}

fn join(path: &str, node: &DefinitionNode) -> String {
    match node.tag {
        "ITERATE" => format!("{path}/[*]"),
        _ => format!("{path}/{}", node.name),
    }
}

fn state(tally: &Tally) -> v1::State {
    match (tally.completed > 0, tally.failed > 0, tally.cancelled > 0) {
        (true, false, false) => v1::State::Completed,
        (false, true, false) => v1::State::Failed,
        (false, false, true) => v1::State::Cancelled,
        _ => v1::State::Ended,
    }
}
