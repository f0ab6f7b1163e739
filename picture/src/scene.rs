//! What is drawn: a tree of shapes. Elements of a controller that look alike become one shape with their number.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use xavantes_model::definition::{Bound, DefinitionNode, DefinitionNodeId, Kind, LoopSource, Program};

/// How much is drawn.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Draw every element, also those that look alike.
    pub all: bool,
}

/// A picture with more boxes is of no use to anybody, and slow to show.
const MAX_BOXES: usize = 5000;
/// Deeper controllers become one box with the number of their activities.
const MAX_DEPTH: usize = 40;
/// Controllers with more elements join those that look alike.
const MAX_ALIKE: usize = 12;
/// Longest label, in characters.
const MAX_LABEL: usize = 30;

/// The kind of a shape decides how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    Activity,
    /// A subprocess, or a controller whose content is not drawn.
    Closed,
    Controller,
    Loop,
    /// A controller without a frame: its elements stand directly in the one around it.
    Plain,
}

/// A box.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub look: Look,
    pub label: String,
    /// Second line: the type of an activity, the condition of a case, the bounds of a loop.
    pub detail: String,
    /// Elements that this one stands for.
    pub count: usize,
    /// Position of the activity type, which decides about the colour.
    pub tint: usize,
    pub content: ShapeContent,
}

/// What is in a box.
#[derive(Debug, Clone)]
pub(crate) enum ShapeContent {
    Nothing,
    /// One after the other.
    Column(Vec<Shape>),
    /// Side by side.
    Row(Vec<Shape>),
    /// Shapes with edges from earlier to later ones.
    Graph(Vec<Shape>, Vec<(usize, usize)>),
}

/// A scene with what there is to know about it.
pub(crate) struct Built {
    pub root: Shape,
    pub boxes: usize,
    pub collapsed: bool,
}

/// Builds the scene of a process type.
pub(crate) fn build(program: &Program, process: usize, options: Options) -> Built {
    let mut builder = SceneBuilder { program, process, options, boxes: 0, collapsed: false, alike: HashMap::new() };
    let root = builder.shape(DefinitionNodeId::BODY, 0);
    Built { root, boxes: builder.boxes, collapsed: builder.collapsed }
}

struct SceneBuilder<'p> {
    program: &'p Program,
    process: usize,
    options: Options,
    boxes: usize,
    collapsed: bool,
    /// Digest of what a subtree looks like, without its names.
    alike: HashMap<DefinitionNodeId, u64>,
}

impl<'p> SceneBuilder<'p> {
    fn node(&self, id: DefinitionNodeId) -> &'p DefinitionNode {
        self.program.node(self.process, id)
    }

    // `MAX_DEPTH` bounds the recursion.
    fn shape(&mut self, id: DefinitionNodeId, depth: usize) -> Shape {
        let node = self.node(id);
        self.boxes += 1;
        let mut shape = Shape {
            look: Look::Controller,
            label: shortened(&format!("{} {}", node.tag, node.name)),
            detail: String::new(),
            count: 1,
            tint: 0,
            content: ShapeContent::Nothing,
        };
        match &node.kind {
            Kind::Activity { activity } => {
                shape.look = Look::Activity;
                shape.label = shortened(&node.name);
                let name = &self.program.activities[*activity].name;
                shape.detail = shortened(name);
                shape.tint = *activity;
                return shape;
            }
            Kind::Process { process } => {
                shape.look = Look::Closed;
                shape.detail = shortened(&self.program.processes[*process].name);
                return shape;
            }
            _ => {}
        }
        if depth >= MAX_DEPTH || self.boxes >= MAX_BOXES {
            let range = &self.program.processes[self.process].nodes[id.index()..node.end.index()];
            let activities = range.iter().filter(|node| node.kind.is_activity()).count();
            self.collapsed = true;
            shape.look = Look::Closed;
            shape.detail = format!("{activities} activities");
            return shape;
        }
        match &node.kind {
            Kind::Sequence => {
                // The tag of these says all that their name says.
                if matches!(node.tag, "BODY" | "ITERATE" | "DEFAULT" | "CATCH" | "FINALLY") {
                    shape.label = node.tag.into();
                }
                if matches!(node.tag, "BODY" | "ITERATE") {
                    shape.look = Look::Plain;
                }
                shape.content = self.column(&node.elements, depth);
            }
            Kind::Switch { .. } => shape.content = self.row(&node.elements, depth, false),
            Kind::For { source, .. } => {
                shape.look = Look::Loop;
                shape.detail = shortened(&bounds(source));
                shape.content = self.column(&node.elements, depth);
            }
            Kind::While { .. } => {
                shape.look = Look::Loop;
                shape.content = self.column(&node.elements, depth);
            }
            Kind::Par { waits_for, dependents, .. } => {
                shape.content = match waits_for.iter().all(|waits| *waits == 0) {
                    true => self.row(&node.elements, depth, true),
                    false => self.graph(&node.elements, dependents, depth),
                };
            }
            _ => {}
        }
        let handlers: Vec<DefinitionNodeId> = [node.catch, node.finally].into_iter().flatten().collect();
        if !handlers.is_empty() {
            let content = std::mem::replace(&mut shape.content, ShapeContent::Nothing);
            let main =
                Shape { look: Look::Plain, label: String::new(), detail: String::new(), content, ..shape.clone() };
            let mut all = vec![main];
            all.extend(handlers.into_iter().map(|handler| self.shape(handler, depth + 1)));
            shape.content = ShapeContent::Row(all);
        }
        shape
    }

    fn column(&mut self, elements: &[DefinitionNodeId], depth: usize) -> ShapeContent {
        let mut shapes = Vec::new();
        for element in elements {
            if self.boxes >= MAX_BOXES {
                shapes.push(self.rest(elements.len() - shapes.len()));
                break;
            }
            shapes.push(self.shape(*element, depth + 1));
        }
        ShapeContent::Column(shapes)
    }

    fn row(&mut self, elements: &[DefinitionNodeId], depth: usize, join: bool) -> ShapeContent {
        let groups = self.groups(elements, &vec![0; elements.len()], join);
        let shapes = groups.iter().map(|group| self.group(elements, group, depth)).collect();
        ShapeContent::Row(shapes)
    }

    fn graph(&mut self, elements: &[DefinitionNodeId], dependents: &[Vec<u32>], depth: usize) -> ShapeContent {
        let mut level = vec![0; elements.len()];
        let mut waits = vec![0usize; elements.len()];
        dependents.iter().flatten().for_each(|dependent| waits[*dependent as usize] += 1);
        let mut ready: Vec<usize> = (0..elements.len()).filter(|element| waits[*element] == 0).collect();
        while let Some(element) = ready.pop() {
            for dependent in dependents[element].iter().map(|dependent| *dependent as usize) {
                level[dependent] = level[dependent].max(level[element] + 1);
                waits[dependent] -= 1;
                if waits[dependent] == 0 {
                    ready.push(dependent);
                }
            }
        }
        let groups = self.groups(elements, &level, true);
        let mut of = vec![0; elements.len()];
        for (number, group) in groups.iter().enumerate() {
            group.iter().for_each(|element| of[*element] = number);
        }
        let mut edges: Vec<(usize, usize)> = dependents
            .iter()
            .enumerate()
            .flat_map(|(from, to)| to.iter().map(move |to| (from, *to as usize)))
            .map(|(from, to)| (of[from], of[to]))
            .collect();
        edges.sort_unstable();
        edges.dedup();
        let shapes = groups.iter().map(|group| self.group(elements, group, depth)).collect();
        ShapeContent::Graph(shapes, edges)
    }

    /// Groups elements of the same level that look alike, if there are too many to draw each.
    fn groups(&mut self, elements: &[DefinitionNodeId], level: &[usize], join: bool) -> Vec<Vec<usize>> {
        let crowded = elements.len() > MAX_ALIKE && join && !self.options.all;
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut known: HashMap<(usize, u64), usize> = HashMap::new();
        for (place, element) in elements.iter().enumerate() {
            let key = (level[place], if crowded { self.likeness(*element) } else { place as u64 });
            match known.get(&key) {
                Some(group) => groups[*group].push(place),
                None => {
                    known.insert(key, groups.len());
                    groups.push(vec![place]);
                }
            }
        }
        groups
    }

    /// One shape for a group of elements that look alike.
    fn group(&mut self, elements: &[DefinitionNodeId], group: &[usize], depth: usize) -> Shape {
        if self.boxes >= MAX_BOXES {
            return self.rest(group.len());
        }
        let mut shape = self.shape(elements[group[0]], depth + 1);
        if group.len() > 1 {
            self.collapsed = true;
            shape.count = group.len();
            if shape.look == Look::Activity {
                shape.label = std::mem::take(&mut shape.detail);
            }
        }
        shape
    }

    fn rest(&mut self, count: usize) -> Shape {
        self.collapsed = true;
        let (label, detail) = (format!("{count} more"), String::new());
        Shape { look: Look::Closed, label, detail, count: 1, tint: 0, content: ShapeContent::Nothing }
    }

    /// A digest that is equal for subtrees that look alike. Nodes stand behind those that contain them, so the digests of
    /// a subtree are computed from its end.
    fn likeness(&mut self, id: DefinitionNodeId) -> u64 {
        if let Some(known) = self.alike.get(&id) {
            return *known;
        }
        for number in (id.0..self.node(id).end.0).rev() {
            let node = self.node(DefinitionNodeId(number));
            let inner: Vec<u64> = node.elements.iter().map(|element| self.alike[element]).collect();
            let links = match &node.kind {
                Kind::Activity { activity } => vec![vec![*activity as u32]],
                Kind::Process { process } => vec![vec![*process as u32]],
                Kind::Par { dependents, .. } => dependents.clone(),
                _ => Vec::new(),
            };
            self.alike.insert(DefinitionNodeId(number), digest(&(node.tag, inner, links)));
        }
        self.alike[&id]
    }
}

fn digest(what: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

fn bounds(source: &LoopSource) -> String {
    let number = |bound: &Option<Bound>, default: &str| match bound {
        None => default.to_owned(),
        Some(Bound::Literal(number)) => number.to_string(),
        Some(Bound::Code(_)) => "…".into(),
    };
    match source {
        LoopSource::Count { from, to, .. } => format!("{} to {}", number(from, "1"), number(to, "…")),
        LoopSource::Each(_) => "each item".into(),
        LoopSource::Grid(axes) => axes.iter().map(|axis| axis.name.to_string()).collect::<Vec<_>>().join(" × "),
    }
}

fn shortened(text: &str) -> String {
    match text.chars().count() {
        // Long names differ at their ends more often than at their beginnings.
        count if count > MAX_LABEL => {
            let end = text.chars().skip(count - (MAX_LABEL - 9));
            text.chars().take(8).chain(['…']).chain(end).collect()
        }
        _ => text.to_owned(),
    }
}
