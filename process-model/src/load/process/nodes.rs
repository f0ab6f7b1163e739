//! The nodes of a process type with their variables and policies, before their code.

use std::collections::HashSet;
use std::sync::Arc;

use crate::definition::{DefinitionNode, DefinitionNodeId, Delegate, Direction, Kind};
use crate::load::attributes::{PolicyParts, choice, read};
use crate::load::attributes::{read_name, read_type};
use crate::load::document::ParsedDocument;
use crate::load::grammar::{self, Tag};
use crate::load::parameters::Parameters;
use crate::load::policies;
use crate::load::report::LoadReport;
use crate::load::signatures::{TypeInfo, Types};
use crate::value::Type;
use crate::xml;

/// A subtree with fewer activities is not worth the messages that its delegation costs.
const MIN_DELEGATED_ACTIVITIES: u32 = 8;
/// Names of drafts of controllers in paths, which elements cannot have.
const RESERVED: [&str; 3] = ["catch", "finally", "default"];

/// The parameters of an element that code around it can use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallSignature {
    /// Those of the controller itself.
    Own,
    /// Those of an activity type.
    Activity(usize),
    /// Those of a process type.
    Process(usize),
    /// The type does not exist.
    Unknown,
}

/// Facts about a node that only the loader needs.
pub(super) struct NodeDraft {
    pub xml: xml::XmlElementId,
    pub tag: Tag,
    pub signature: CallSignature,
    /// Variables with their positions. The node takes the variables themselves when it is built.
    pub parameters: Parameters,
    pub axes: Vec<AxisDraft>,
}

/// An axis of a parameter grid, without its values.
pub(super) struct AxisDraft {
    pub name: Arc<str>,
    pub ty: Type,
    pub xml: xml::XmlElementId,
}

/// Nodes without code.
pub(super) struct Skeleton {
    pub nodes: Vec<DefinitionNode>,
    pub drafts: Vec<NodeDraft>,
}

/// An element whose children are not all built yet.
struct OpenElement {
    id: DefinitionNodeId,
    tag: Tag,
    pending: std::vec::IntoIter<(Tag, xml::XmlElementId)>,
    position: u32,
    cases: u32,
    /// Names of the children so far.
    taken: HashSet<Arc<str>>,
}

struct Builder<'a> {
    document: &'a ParsedDocument,
    types: &'a Types,
    info: &'a TypeInfo,
    report: &'a mut LoadReport,
    nodes: Vec<DefinitionNode>,
    drafts: Vec<NodeDraft>,
    /// Value of `DELEGATE` for each node.
    delegates: Vec<Option<Delegate>>,
}

/// Builds the nodes of the process type whose `BODY` is given.
pub(super) fn build(
    document: &ParsedDocument,
    types: &Types,
    info: &TypeInfo,
    body: xml::XmlElementId,
    report: &mut LoadReport,
) -> Skeleton {
    let (nodes, drafts, delegates) = (Vec::new(), Vec::new(), Vec::new());
    let mut builder = Builder { document, types, info, report, nodes, drafts, delegates };
    let mut open = vec![builder.node(Tag::Body, body, None, 0, "body".into())];
    while let Some(frame) = open.last_mut() {
        match frame.pending.next() {
            Some((tag, node)) => {
                let child = builder.child(frame, tag, node);
                open.push(child);
            }
            None => {
                let end = DefinitionNodeId(builder.nodes.len() as u32);
                builder.nodes[frame.id.index()].end = end;
                open.pop();
            }
        }
    }
    builder.decide_delegation();
    Skeleton { nodes: builder.nodes, drafts: builder.drafts }
}

impl Builder<'_> {
    fn child(&mut self, frame: &mut OpenElement, tag: Tag, node: xml::XmlElementId) -> OpenElement {
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

    /// Returns the name of a child in paths. An invalid name becomes empty, so that no further finding is about it.
    fn name(&mut self, frame: &mut OpenElement, tag: Tag, node: xml::XmlElementId) -> Arc<str> {
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
            let message =
                format!("{name:?} is reserved for a part of controllers and cannot be the name of an element");
            self.report.add("bad-name", span, message, || Some("choose another name".into()));
        } else if tag != Tag::Case && self.drafts[frame.id.index()].parameters.slots.contains_key(&name) {
            let message = format!("{name:?} is already a variable of this {}", frame.tag.name());
            self.report.add("duplicate-name", span, message, || Some("rename the element or the parameter".into()));
        } else if !frame.taken.insert(name.clone()) {
            let message = format!("{name:?} is already the name of another element here");
            self.report.add("duplicate-name", span, message, || {
                Some("names must be unique among the elements of a controller".into())
            });
        }
        name
    }

    fn node(
        &mut self,
        tag: Tag,
        xml: xml::XmlElementId,
        parent: Option<DefinitionNodeId>,
        position: u32,
        name: Arc<str>,
    ) -> OpenElement {
        // `MAX_NODES` of the XML reader fits in 32 bits.
        let id = DefinitionNodeId(self.nodes.len() as u32);
        let (mut kind, mut signature) = (Kind::Sequence, CallSignature::Own);
        let mut policy = PolicyParts::default();
        if matches!(tag, Tag::Activity | Tag::Process) {
            signature = CallSignature::Unknown;
            if let Some(found) = self.types.find(self.document, xml, tag, self.report) {
                (kind, signature) = match tag {
                    Tag::Activity => (Kind::Activity { activity: found }, CallSignature::Activity(found)),
                    _ => (Kind::Process { process: found }, CallSignature::Process(found)),
                };
                if tag == Tag::Activity {
                    policy = self.types.activities[found].policy;
                }
            }
        }
        let policy = match tag.is_element() || tag == Tag::Iterate {
            true => PolicyParts::read(self.document, xml, self.report).or(policy),
            false => policy.or(PolicyParts::default()),
        };
        if tag.is_element() || tag == Tag::Iterate {
            policies::check_element(self.document, xml, &policy, self.report);
        }
        let words = [("auto", Delegate::Auto), ("always", Delegate::Always), ("never", Delegate::Never)];
        let delegate = read(self.document, xml, "DELEGATE", self.report, |text| choice(text, &words));
        let axes = if matches!(tag, Tag::For | Tag::ParFor) { self.axes(xml) } else { Vec::new() };
        let mut draft = NodeDraft { xml, tag, signature, parameters: Parameters::default(), axes };
        let (locals, summary) = self.variables(&mut draft, parent);
        let node = DefinitionNode {
            id,
            name,
            tag: tag.name(),
            line: self.document.line(xml),
            parent,
            position,
            end: DefinitionNodeId(id.0 + 1),
            kind,
            variables: std::mem::take(&mut draft.parameters.variables),
            locals,
            summary,
            elements: Vec::new(),
            pre_code: None,
            post_code: None,
            catch: None,
            finally: None,
            policy,
            bindings: None,
            estimate: None,
            delegate: Delegate::Never,
            spreads: false,
            kept: false,
            forwards: Box::default(),
        };
        self.nodes.push(node);
        self.drafts.push(draft);
        self.delegates.push(delegate);
        let pending = self.children(tag, xml).into_iter();
        OpenElement { id, tag, pending, position: 0, cases: 0, taken: HashSet::new() }
    }

    /// Returns the children that become nodes, in the order of nodes.
    fn children(&mut self, tag: Tag, xml: xml::XmlElementId) -> Vec<(Tag, xml::XmlElementId)> {
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
                        self.report.add(
                            "case-after-default",
                            span,
                            "this CASE stands behind DEFAULT, so it can never run",
                            || Some("move DEFAULT behind all cases".into()),
                        );
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

    /// Fills in the variables of a node. Returns the slots at which the locals and the summary begin.
    fn variables(&mut self, draft: &mut NodeDraft, parent: Option<DefinitionNodeId>) -> (u32, u32) {
        let (document, tag, xml) = (self.document, draft.tag, draft.xml);
        if tag == Tag::Body {
            draft.parameters = self.info.parameters.clone();
        }
        let own = draft.parameters.variables.len();
        let parameters = &mut draft.parameters;
        parameters.read(document, xml, tag, self.report);
        if matches!(tag, Tag::Body | Tag::Iterate) {
            for variable in &parameters.variables[own..] {
                if variable.direction.is_in() && variable.default.is_none() && !variable.optional {
                    let slot = parameters.slots[&variable.name];
                    let message = format!(
                        "{:?} can never get a value: parameters are not passed to {}",
                        variable.name,
                        tag.name()
                    );
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
            let meaning = "an implicit parameter of every FOR and PARFOR that counts";
            for name in ["counterBegin", "counterEnd", "counterStep"] {
                parameters.add(name, int, Direction::In, meaning, document, self.report);
            }
            parameters.add("items", Some(Type::List), Direction::In, meaning, document, self.report);
        }
        let summary = parameters.next_slot();
        if tag.is_loop() || tag.is_parallel() {
            let meaning = format!("an implicit result of every {}", tag.name());
            for name in ["completed", "failed", "cancelled"] {
                parameters.add(name, int, Direction::Out, &meaning, document, self.report);
            }
            if element.attribute("COLLECT").is_some() {
                parameters.add("results", Some(Type::List), Direction::Out, &meaning, document, self.report);
            }
            parameters.reserve("running", &meaning, document, self.report);
            if matches!(tag, Tag::While | Tag::ParWhile) {
                parameters.reserve("counter", "the number of the iteration", document, self.report);
            }
        }
        let locals = parameters.next_slot();
        match (tag, parent.map(|parent| &self.drafts[parent.index()])) {
            (Tag::Catch, _) => {
                let meaning = "the error that is handled";
                parameters.add("error", Some(Type::Map), Direction::Local, meaning, document, self.report);
            }
            (Tag::Iterate, Some(parent)) => {
                let meaning = "the number of the iteration";
                parameters.add("counter", int, Direction::Local, meaning, document, self.report);
                for axis in &parent.axes {
                    let meaning = "an axis of the grid";
                    parameters.add(&axis.name, Some(axis.ty), Direction::Local, meaning, document, self.report);
                }
                if matches!(parent.tag, Tag::For | Tag::ParFor) && parent.axes.is_empty() {
                    let meaning = "the item of the iteration";
                    parameters.add("item", None, Direction::Local, meaning, document, self.report);
                }
            }
            _ => {}
        }
        (locals, summary)
    }

    fn axes(&mut self, xml: xml::XmlElementId) -> Vec<AxisDraft> {
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
            axes.push(AxisDraft { name, ty: ty.unwrap_or(Type::String), xml: node });
        }
        axes
    }

    /// Decides which subtrees may be delegated. Small ones are not worth it, unless their author asks for it.
    fn decide_delegation(&mut self) {
        let mut activities: Vec<u32> = vec![0; self.nodes.len()];
        let mut worth = vec![false; self.nodes.len()];
        // Children stand behind their parents, so in reverse order a node comes after all its children.
        for index in (0..self.nodes.len()).rev() {
            let tag = self.drafts[index].tag;
            activities[index] += (tag == Tag::Activity) as u32;
            worth[index] |= tag.is_loop()
                || tag.is_parallel()
                || tag == Tag::Process
                || activities[index] >= MIN_DELEGATED_ACTIVITIES;
            if tag.is_element() && tag != Tag::Activity {
                self.nodes[index].delegate = match self.delegates[index] {
                    None | Some(Delegate::Auto) if worth[index] => Delegate::Auto,
                    None | Some(Delegate::Auto) => Delegate::Never,
                    Some(written) => written,
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

/// True for a loop over numbers, or over the implicit parameter `items`.
fn counts(document: &ParsedDocument, xml: xml::XmlElementId) -> bool {
    document.tree.element(xml).attribute("EACH").is_none() && grammar::child(document, xml, Tag::ParamGrid).is_none()
}
