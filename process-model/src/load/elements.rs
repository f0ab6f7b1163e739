//! The nodes of a process type with their variables and policies, before their code.

use std::collections::HashSet;
use std::sync::Arc;

use super::attributes::{PolicyParts, choice, read};
use super::grammar::{self, Tag};
use super::parameters::{Parameters, read_name, read_type};
use super::{Document, Report, TypeInfo, Types};
use crate::definition::{Delegate, Direction, Kind, Node, NodeId};
use crate::value::Type;
use crate::xml;

/// So many activities make a subtree worth another coordinator's while.
const WORTH_DELEGATING: u32 = 8;
/// They name parts of controllers in paths.
const RESERVED: [&str; 3] = ["catch", "finally", "default"];

/// Whose parameters others see of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signature {
    /// Its own.
    Own,
    /// Those of an activity type.
    Activity(usize),
    /// Those of a process type.
    Process(usize),
    /// Of a type that does not exist.
    Unknown,
}

/// What is known of a node besides what the definition keeps.
pub(super) struct Part {
    pub xml: xml::ElementId,
    pub tag: Tag,
    pub signature: Signature,
    /// Its variables, until the node gets them, and their positions.
    pub parameters: Parameters,
    pub axes: Vec<AxisPart>,
}

/// An axis of a parameter grid, without its values.
pub(super) struct AxisPart {
    pub name: Arc<str>,
    pub ty: Type,
    pub xml: xml::ElementId,
}

/// Nodes without code.
pub(super) struct Skeleton {
    pub nodes: Vec<Node>,
    pub parts: Vec<Part>,
}

/// An element whose children are being built.
struct Frame {
    id: NodeId,
    tag: Tag,
    pending: std::vec::IntoIter<(Tag, xml::ElementId)>,
    position: u32,
    cases: u32,
    /// Names that an element in it cannot have any more.
    taken: HashSet<Arc<str>>,
}

struct Builder<'a> {
    document: &'a Document,
    types: &'a Types,
    info: &'a TypeInfo,
    report: &'a mut Report,
    nodes: Vec<Node>,
    parts: Vec<Part>,
    /// What `DELEGATE` says, if it does.
    delegates: Vec<Option<Delegate>>,
}

/// Builds the nodes of the process type whose `BODY` is given.
pub(super) fn build(
    document: &Document,
    types: &Types,
    info: &TypeInfo,
    body: xml::ElementId,
    report: &mut Report,
) -> Skeleton {
    let (nodes, parts, delegates) = (Vec::new(), Vec::new(), Vec::new());
    let mut builder = Builder { document, types, info, report, nodes, parts, delegates };
    let mut open = vec![builder.node(Tag::Body, body, None, 0, "body".into())];
    while let Some(frame) = open.last_mut() {
        match frame.pending.next() {
            Some((tag, node)) => {
                let child = builder.child(frame, tag, node);
                open.push(child);
            }
            None => {
                let end = NodeId(builder.nodes.len() as u32);
                builder.nodes[frame.id.index()].end = end;
                open.pop();
            }
        }
    }
    builder.decide_delegation();
    Skeleton { nodes: builder.nodes, parts: builder.parts }
}

impl Builder<'_> {
    fn child(&mut self, frame: &mut Frame, tag: Tag, node: xml::ElementId) -> Frame {
        let name = self.name(frame, tag, node);
        let position = frame.position;
        frame.position += 1;
        let child = self.node(tag, node, Some(frame.id), position, name);
        let parent = &mut self.nodes[frame.id.index()];
        match tag {
            Tag::Catch => parent.catch = Some(child.id),
            Tag::Finally => parent.finally = Some(child.id),
            _ => parent.elements.push(child.id),
        }
        child
    }

    /// The name of a child in paths. One that cannot be used is empty, so that nothing is said about it again.
    fn name(&mut self, frame: &mut Frame, tag: Tag, node: xml::ElementId) -> Arc<str> {
        match tag {
            Tag::Iterate => return "iterate".into(),
            Tag::Default => return "default".into(),
            Tag::Catch => return "catch".into(),
            Tag::Finally => return "finally".into(),
            Tag::Case => frame.cases += 1,
            _ => {}
        }
        let element = self.document.tree.element(node);
        let (name, span) = match (read_name(self.document, node, self.report), tag) {
            (Some(named), _) => named,
            (None, Tag::Case) if element.attribute("NAME").is_none() => {
                (format!("case{}", frame.cases).into(), element.name_span.clone())
            }
            _ => return "".into(),
        };
        let span = self.document.span(&span);
        if RESERVED.contains(&&*name) {
            let message = format!("{name:?} names a part of a controller and cannot be the name of an element");
            self.report.add("bad-name", span, message, || Some("choose another name".into()));
        } else if tag != Tag::Case && self.parts[frame.id.index()].parameters.slots.contains_key(&name) {
            let message = format!("{name:?} is already a variable of this {}", frame.tag.name());
            self.report.add("duplicate-name", span, message, || Some("rename the element or the parameter".into()));
        } else if !frame.taken.insert(name.clone()) {
            let message = format!("{name:?} is already the name of another element here");
            self.report.add("duplicate-name", span, message, || Some("names are unique among neighbours".into()));
        }
        name
    }

    fn node(&mut self, tag: Tag, xml: xml::ElementId, parent: Option<NodeId>, position: u32, name: Arc<str>) -> Frame {
        // A document has at most a million elements.
        let id = NodeId(self.nodes.len() as u32);
        let (mut kind, mut signature) = (Kind::Sequence, Signature::Own);
        let mut policy = PolicyParts::default();
        if matches!(tag, Tag::Activity | Tag::Process) {
            signature = Signature::Unknown;
            if let Some(found) = self.types.find(self.document, xml, tag, self.report) {
                (kind, signature) = match tag {
                    Tag::Activity => (Kind::Activity { activity: found }, Signature::Activity(found)),
                    _ => (Kind::Process { process: found }, Signature::Process(found)),
                };
                if tag == Tag::Activity {
                    policy = self.types.activities[found].policy;
                }
            }
        }
        let policy = match tag.is_element() || tag == Tag::Iterate {
            true => PolicyParts::read(self.document, xml, self.report).over(policy),
            false => policy.over(PolicyParts::default()),
        };
        let words = [("auto", Delegate::Auto), ("always", Delegate::Always), ("never", Delegate::Never)];
        let delegate = read(self.document, xml, "DELEGATE", self.report, |text| choice(text, &words));
        let axes = if matches!(tag, Tag::For | Tag::ParFor) { self.axes(xml) } else { Vec::new() };
        let mut part = Part { xml, tag, signature, parameters: Parameters::default(), axes };
        let (locals, summary) = self.variables(&mut part, parent);
        let node = Node {
            id,
            name,
            tag: tag.name(),
            line: self.document.line(xml),
            parent,
            position,
            end: NodeId(id.0 + 1),
            kind,
            variables: std::mem::take(&mut part.parameters.variables),
            locals,
            summary,
            elements: Vec::new(),
            pre_code: None,
            post_code: None,
            catch: None,
            finally: None,
            policy,
            bindings: None,
            delegate: Delegate::Never,
            spreads: false,
            kept: false,
        };
        self.nodes.push(node);
        self.parts.push(part);
        self.delegates.push(delegate);
        let pending = self.children(tag, xml).into_iter();
        Frame { id, tag, pending, position: 0, cases: 0, taken: HashSet::new() }
    }

    /// The children that become nodes, in the order of nodes.
    fn children(&mut self, tag: Tag, xml: xml::ElementId) -> Vec<(Tag, xml::ElementId)> {
        let mut children = Vec::new();
        let (mut iterate, mut default, mut catch, mut finally) = (None, None, None, None);
        for (child_tag, child) in grammar::children(self.document, xml, tag) {
            match child_tag {
                Tag::Iterate => drop(iterate.get_or_insert((child_tag, child))),
                Tag::Default => drop(default.get_or_insert((child_tag, child))),
                Tag::Catch => drop(catch.get_or_insert((child_tag, child))),
                Tag::Finally => drop(finally.get_or_insert((child_tag, child))),
                Tag::Case => {
                    if default.is_some() {
                        let span = self.document.span(&self.document.tree.element(child).name_span);
                        self.report.add("case-after-default", span, "a CASE behind DEFAULT is never reached", || {
                            Some("move DEFAULT behind all cases".into())
                        });
                    }
                    children.push((child_tag, child));
                }
                _ if child_tag.is_element() => children.push((child_tag, child)),
                _ => {}
            }
        }
        children.extend([iterate, default, catch, finally].into_iter().flatten());
        children
    }

    /// Fills in the variables of a node; tells where the locals and the summary begin.
    fn variables(&mut self, part: &mut Part, parent: Option<NodeId>) -> (u32, u32) {
        let (document, tag, xml) = (self.document, part.tag, part.xml);
        if tag == Tag::Body {
            part.parameters = self.info.parameters.clone();
        }
        let own = part.parameters.variables.len();
        let parameters = &mut part.parameters;
        parameters.read(document, xml, tag, self.report);
        if matches!(tag, Tag::Body | Tag::Iterate) {
            for variable in &parameters.variables[own..] {
                if variable.direction.is_in() && variable.default.is_none() && !variable.optional {
                    let slot = parameters.slots[&variable.name];
                    let message = format!("nobody can give {:?} a value: {} has no starter", variable.name, tag.name());
                    let span = document.span(parameters.span(slot));
                    self.report.add("missing-parameter", span, message, || {
                        Some("give it a DEFAULT, write OPTIONAL=\"true\", or declare it as OUT_PARAMETER".into())
                    });
                }
            }
        }
        let element = document.tree.element(xml);
        let int = Some(Type::Int);
        if matches!(tag, Tag::For | Tag::ParFor) && counts(document, xml) {
            let what = "set by whoever starts the loop";
            for name in ["counterBegin", "counterEnd", "counterStep"] {
                parameters.add(name, int, Direction::In, what, document, self.report);
            }
            parameters.add("items", Some(Type::List), Direction::In, what, document, self.report);
        }
        let summary = parameters.next_slot();
        if tag.is_loop() || tag.is_parallel() {
            let what = format!("what every {} tells about itself", tag.name());
            for name in ["completed", "failed", "cancelled"] {
                parameters.add(name, int, Direction::Out, &what, document, self.report);
            }
            if element.attribute("COLLECT").is_some() {
                parameters.add("results", Some(Type::List), Direction::Out, &what, document, self.report);
            }
            parameters.reserve("running", &what, document, self.report);
            if matches!(tag, Tag::While | Tag::ParWhile) {
                parameters.reserve("counter", "the number of the iteration", document, self.report);
            }
        }
        let locals = parameters.next_slot();
        match (tag, parent.map(|parent| &self.parts[parent.index()])) {
            (Tag::Catch, _) => {
                let what = "the error that is handled";
                parameters.add("error", Some(Type::Map), Direction::Local, what, document, self.report);
            }
            (Tag::Iterate, Some(parent)) => {
                let what = "the number of the iteration";
                parameters.add("counter", int, Direction::Local, what, document, self.report);
                for axis in &parent.axes {
                    let what = "an axis of the grid";
                    parameters.add(&axis.name, Some(axis.ty), Direction::Local, what, document, self.report);
                }
                if matches!(parent.tag, Tag::For | Tag::ParFor) && parent.axes.is_empty() {
                    let what = "the item of the iteration";
                    parameters.add("item", None, Direction::Local, what, document, self.report);
                }
            }
            _ => {}
        }
        (locals, summary)
    }

    fn axes(&mut self, xml: xml::ElementId) -> Vec<AxisPart> {
        let Some(grid) = grammar::child(self.document, xml, Tag::ParamGrid) else { return Vec::new() };
        let mut axes = Vec::new();
        let mut taken: HashSet<Arc<str>> = HashSet::from(["counter".into()]);
        for (_, node) in grammar::children(self.document, grid, Tag::ParamGrid) {
            let ty = read_type(self.document, node, self.report);
            let simple = [Type::Int, Type::Float, Type::Boolean, Type::String];
            if let (Some(ty), Some(attribute)) = (ty, self.document.tree.element(node).attribute("TYPE"))
                && !simple.contains(&ty)
            {
                let message = format!("an axis has values of type int, float, boolean or string, not {}", ty.name());
                self.report.add("bad-value", self.document.span(&attribute.value_span), message, || None);
            }
            let Some((name, span)) = read_name(self.document, node, self.report) else { continue };
            if !taken.insert(name.clone()) {
                let message = format!("{name:?} is already the name of another axis, or of the counter");
                let span = self.document.span(&span);
                self.report.add("duplicate-name", span, message, || Some("choose another name".into()));
                continue;
            }
            axes.push(AxisPart { name, ty: ty.unwrap_or(Type::String), xml: node });
        }
        axes
    }

    /// Small controllers are not worth moving, unless their author says so.
    fn decide_delegation(&mut self) {
        let mut activities: Vec<u32> = vec![0; self.nodes.len()];
        let mut worth = vec![false; self.nodes.len()];
        // Children stand behind their parents, so backwards each is complete when its turn comes.
        for index in (0..self.nodes.len()).rev() {
            let tag = self.parts[index].tag;
            activities[index] += (tag == Tag::Activity) as u32;
            worth[index] |=
                tag.is_loop() || tag.is_parallel() || tag == Tag::Process || activities[index] >= WORTH_DELEGATING;
            if tag.is_element() && tag != Tag::Activity {
                self.nodes[index].delegate = match self.delegates[index] {
                    None | Some(Delegate::Auto) if worth[index] => Delegate::Auto,
                    None | Some(Delegate::Auto) => Delegate::Never,
                    Some(said) => said,
                };
            }
            if let Some(parent) = self.nodes[index].parent {
                activities[parent.index()] += activities[index];
                worth[parent.index()] |= worth[index];
                let goes = self.nodes[index].spreads || self.nodes[index].delegate != Delegate::Never;
                self.nodes[parent.index()].spreads |= goes;
            }
        }
    }
}

/// True for a loop over numbers, or over what the code around it sets.
fn counts(document: &Document, xml: xml::ElementId) -> bool {
    document.tree.element(xml).attribute("EACH").is_none() && grammar::child(document, xml, Tag::ParamGrid).is_none()
}
