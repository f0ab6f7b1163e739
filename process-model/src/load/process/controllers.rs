//! Adds code to nodes: conditions, bounds, sources of loops, and the code of each kind of controller.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use super::compile::AttributeValue;
use super::forwards::Forwards;
use super::linker::Linker;
use super::nodes::{NodeDraft, Skeleton};
use super::scope::{CodePlace, CodePosition, ScopeTable, readable_summaries};
use crate::definition::{
    Axis, Bound, DefinitionNode, DefinitionNodeId, Kind, ListValues, LoopSource, Parallel, ScriptTarget,
};
use crate::load::document::ParsedDocument;
use crate::load::grammar::{self, Tag};
use crate::load::literals;
use crate::load::report::LoadReport;
use crate::load::signatures::Types;
use crate::value::{Type, Value};
use crate::xml::{self, Attribute, is_blank, trim};

/// Adds the code to the nodes of a type, in document order.
pub(super) fn link(
    document: &ParsedDocument,
    types: &Types,
    skeleton: Skeleton,
    report: &mut LoadReport,
) -> Vec<DefinitionNode> {
    let Skeleton { nodes, drafts } = skeleton;
    let (table, forwards) = (ScopeTable::default(), Forwards::default());
    let (assigned, unclear, raising) = (HashSet::new(), HashSet::new(), HashSet::new());
    let mut linker = Linker {
        document,
        types,
        report,
        nodes,
        drafts,
        table,
        forwards,
        assigned,
        unclear,
        raising,
        incomplete: false,
    };
    for index in 0..linker.nodes.len() {
        if linker.report.is_full() {
            break;
        }
        linker.node(DefinitionNodeId(index as u32));
    }
    linker.check_results();
    std::mem::take(&mut linker.forwards).add_to(&mut linker.nodes);
    linker.order_pars();
    linker.nodes
}

impl<'a> Linker<'a> {
    fn node(&mut self, id: DefinitionNodeId) {
        let NodeDraft { tag, xml, .. } = self.drafts[id.index()];
        self.table.leave(self.nodes[id.index()].parent);
        if tag.is_element() {
            // Bindings run in the scope around the element.
            self.bind(id);
        }
        if tag == Tag::Activity {
            self.estimate(id);
        }
        if matches!(tag, Tag::Activity | Tag::Process) {
            return;
        }
        self.table.enter(&self.nodes, &self.drafts, id);
        let collects = self.document.tree.element(xml).attribute("COLLECT").is_some();
        self.pre_code(id, xml);
        if let Some(child) = grammar::child(self.document, xml, Tag::PostCode) {
            let summaries = readable_summaries(tag, collects, CodePosition::PostCode);
            let script = self.statements(child, id, &summaries, CodePlace::PostCode);
            self.incomplete |= !script.as_ref().is_some_and(|(_, certain)| *certain);
            self.nodes[id.index()].post_code = script.and_then(|(script, _)| script).map(Box::new);
        }
        match tag {
            Tag::Switch | Tag::ParSwitch => self.switch(id, tag, xml),
            Tag::For | Tag::ParFor => self.for_loop(id, tag, xml),
            Tag::While | Tag::ParWhile => self.while_loop(id, tag, xml),
            Tag::Par => self.par(id, xml),
            Tag::Iterate => self.collect(id),
            _ => {}
        }
    }

    fn pre_code(&mut self, id: DefinitionNodeId, xml: xml::XmlElementId) {
        let Some(child) = grammar::child(self.document, xml, Tag::PreCode) else { return };
        match self.statements(child, id, &[], CodePlace::PreCode) {
            Some((script, certain)) => {
                self.nodes[id.index()].pre_code = script.map(Box::new);
                if !certain {
                    self.unclear.insert(id);
                }
            }
            None => drop(self.unclear.insert(id)),
        }
        self.incomplete |= self.unclear.contains(&id);
        for target in self.nodes[id.index()].pre_code.iter().flat_map(|script| &script.outputs) {
            if let ScriptTarget::Element { element, slot } = target {
                self.assigned.insert((*element, *slot));
            }
        }
    }

    fn switch(&mut self, id: DefinitionNodeId, tag: Tag, xml: xml::XmlElementId) {
        let mut conditions = Vec::new();
        for element in self.nodes[id.index()].elements.clone() {
            let NodeDraft { tag, xml, .. } = self.drafts[element.index()];
            if tag == Tag::Case {
                conditions.extend(self.condition(xml, tag, id, &[]));
            }
        }
        let parallel = (tag == Tag::ParSwitch).then(|| self.parallel(id, tag, xml));
        self.nodes[id.index()].kind = Kind::Switch { conditions, parallel: parallel.map(Box::new) };
    }

    fn for_loop(&mut self, id: DefinitionNodeId, tag: Tag, xml: xml::XmlElementId) {
        let source = self.source(id, tag, xml);
        let parallel = (tag == Tag::ParFor).then(|| self.parallel(id, tag, xml));
        if let Some(source) = source {
            self.nodes[id.index()].kind = Kind::For { source, collect: None, parallel: parallel.map(Box::new) };
        }
    }

    fn while_loop(&mut self, id: DefinitionNodeId, tag: Tag, xml: xml::XmlElementId) {
        let collects = self.document.tree.element(xml).attribute("COLLECT").is_some();
        let summaries = readable_summaries(tag, collects, CodePosition::LoopCondition);
        let condition = self.condition(xml, tag, id, &summaries);
        let parallel = (tag == Tag::ParWhile).then(|| self.parallel(id, tag, xml));
        if let Some(condition) = condition {
            let (condition, parallel) = (Box::new(condition), parallel.map(Box::new));
            self.nodes[id.index()].kind = Kind::While { condition, collect: None, parallel };
        }
    }

    fn par(&mut self, id: DefinitionNodeId, xml: xml::XmlElementId) {
        let parallel = Box::new(self.parallel(id, Tag::Par, xml));
        self.nodes[id.index()].kind = Kind::Par { parallel, waits_for: Vec::new(), dependents: Vec::new() };
    }

    /// Adds `COLLECT`, which stands on the loop but runs in the scope of its `ITERATE`.
    fn collect(&mut self, id: DefinitionNodeId) {
        let Some(parent) = self.nodes[id.index()].parent else { return };
        let document = self.document;
        let Some(attribute) = document.tree.element(self.drafts[parent.index()].xml).attribute("COLLECT") else {
            return;
        };
        let script = self.expression(&attribute.value, 0..attribute.value.value.len(), id, &[]);
        if let Kind::For { collect, .. } | Kind::While { collect, .. } = &mut self.nodes[parent.index()].kind {
            *collect = script.map(Box::new);
        }
    }

    fn parallel(&mut self, id: DefinitionNodeId, tag: Tag, xml: xml::XmlElementId) -> Parallel {
        let collects = self.document.tree.element(xml).attribute("COLLECT").is_some();
        let summaries = readable_summaries(tag, collects, CodePosition::ExitCondition);
        let exit = match self.expression_text(xml, tag, Tag::ExitCondition) {
            Some(written) => {
                let mapped = written.mapped();
                self.expression(mapped, 0..mapped.value.len(), id, &summaries)
            }
            None => None,
        };
        let join = self.bound(id, xml, "JOIN", 1);
        let max = self.bound(id, xml, "MAX_PARALLEL", 1);
        Parallel { exit, join, max }
    }

    fn source(&mut self, id: DefinitionNodeId, tag: Tag, xml: xml::XmlElementId) -> Option<LoopSource> {
        let document = self.document;
        let element = document.tree.element(xml);
        let grid = grammar::child(document, xml, Tag::ParamGrid);
        let counted = ["FROM", "TO", "STEP"].into_iter().find_map(|name| element.attribute(name));
        let each = element.attribute("EACH");
        let kinds: Vec<&str> = [counted.map(|it| it.name.as_str()), each.map(|_| "EACH"), grid.map(|_| "PARAM_GRID")]
            .into_iter()
            .flatten()
            .collect();
        if kinds.len() > 1 {
            let message = format!("{} and {} exclude each other", kinds[0], kinds[1]);
            self.report.add("bad-value", document.span(&element.name_span), message, || {
                Some("a loop goes through numbers (FROM, TO, STEP), a list (EACH) or a grid (PARAM_GRID)".into())
            });
        }
        if grid.is_some() {
            return self.axes(id).map(LoopSource::Grid);
        }
        if let Some(attribute) = each {
            return match self.value(attribute)? {
                AttributeValue::Code(range) => self.list_code(attribute, range, id).map(LoopSource::Each),
                AttributeValue::Literal(text) => match Type::List.parse(&text) {
                    Ok(Value::List(items)) => Some(LoopSource::Each(ListValues::Literal(items))),
                    parsed => {
                        let problem = parsed.err().unwrap_or_else(|| "expected a list".into());
                        let help = self.names().meant_code(&text);
                        self.report.add(
                            "bad-value",
                            document.span(&attribute.value_span),
                            format!("EACH: {problem}"),
                            || {
                                help.or_else(|| {
                                    Some("write EACH=\"[1, 2, 3]\", or EACH=\"${…}\" for a list that code gives".into())
                                })
                            },
                        );
                        None
                    }
                },
            };
        }
        let from = self.bound(id, xml, "FROM", i64::MIN);
        let to = self.bound(id, xml, "TO", i64::MIN);
        let step = self.bound(id, xml, "STEP", i64::MIN);
        if let (Some(Bound::Literal(0)), Some(attribute)) = (&step, element.attribute("STEP")) {
            self.report.add("bad-value", document.span(&attribute.value_span), "STEP: must not be 0", || None);
        }
        let inputs = self.drafts[id.index()].parameters.slots.get("counterBegin").copied()?;
        if element.attribute("TO").is_none() && !self.is_bounded(id) {
            let name = self.nodes[id.index()].name.clone();
            let message = format!("the {} {name:?} has no bound", tag.name());
            self.report.add("missing-attribute", document.span(&element.name_span), message, || {
                Some(format!(
                    "write TO=\"…\" or EACH=\"${{…}}\", or set {name}.counterEnd or {name}.items in the PRE_CODE around"
                ))
            });
        }
        Some(LoopSource::Count { from, to, step, inputs })
    }

    /// True if something other than `TO` bounds the loop.
    fn is_bounded(&self, id: DefinitionNodeId) -> bool {
        let node = &self.nodes[id.index()];
        let slots = &self.drafts[id.index()].parameters.slots;
        let ends: Vec<u32> = ["counterEnd", "items"].iter().filter_map(|name| slots.get(*name).copied()).collect();
        let bindings = node.bindings.iter();
        let mut bound =
            bindings.flat_map(|it| it.targets.iter().copied().chain(it.literals.iter().map(|(slot, _)| *slot)));
        bound.any(|slot| ends.contains(&slot))
            || ends.iter().any(|slot| self.assigned.contains(&(id, *slot)))
            || node.parent.is_some_and(|parent| self.unclear.contains(&parent))
            || self.unclear.contains(&id)
            // The engine evaluates bounds after the PRE_CODE of the loop, which can set them too.
            || node.pre_code.iter().flat_map(|script| &script.outputs).any(
                |target| matches!(target, ScriptTarget::Variable { node, slot } if *node == id && ends.contains(slot)),
            )
    }

    fn axes(&mut self, id: DefinitionNodeId) -> Option<Vec<Axis>> {
        let document = self.document;
        let drafts: Vec<(Arc<str>, Type, xml::XmlElementId)> =
            self.drafts[id.index()].axes.iter().map(|axis| (axis.name.clone(), axis.ty, axis.xml)).collect();
        let mut axes = Vec::new();
        for (name, ty, xml) in drafts {
            let Some(attribute) = document.tree.element(xml).attribute("VALUES") else { continue };
            let values = match self.value(attribute) {
                Some(AttributeValue::Code(range)) => self.list_code(attribute, range, id),
                Some(AttributeValue::Literal(text)) => self.axis_literals(attribute, &text, ty),
                None => None,
            };
            axes.extend(values.map(|values| Axis { name, ty, values }));
        }
        Some(axes)
    }

    /// Compiles an expression that gives a list.
    fn list_code(&mut self, attribute: &Attribute, range: Range<usize>, id: DefinitionNodeId) -> Option<ListValues> {
        self.check_type(attribute, range.clone(), Type::List, false);
        self.expression(&attribute.value, range, id, &[]).map(|script| ListValues::Code(Box::new(script)))
    }

    fn axis_literals(&mut self, attribute: &Attribute, text: &str, ty: Type) -> Option<ListValues> {
        let values = match is_blank(text) {
            true => Err("there are no values".to_owned()),
            false => text.split(',').map(|item| ty.parse(trim(item))).collect::<Result<Vec<_>, _>>(),
        };
        match values {
            Ok(values) => Some(ListValues::Literal(Arc::new(values))),
            Err(problem) => {
                let span = self.document.span(&attribute.value_span);
                self.report.add("bad-value", span, format!("VALUES: {problem}"), || {
                    Some("write values of the axis' TYPE, separated by commas, or ${…} for a list".into())
                });
                None
            }
        }
    }

    /// Reads an attribute that is a whole number or `${…}`.
    fn bound(&mut self, id: DefinitionNodeId, xml: xml::XmlElementId, name: &str, least: i64) -> Option<Bound> {
        let document = self.document;
        let attribute = document.tree.element(xml).attribute(name)?;
        match self.value(attribute)? {
            AttributeValue::Code(range) => {
                self.check_type(attribute, range.clone(), Type::Int, false);
                self.expression(&attribute.value, range, id, &[]).map(|script| Bound::Code(Box::new(script)))
            }
            AttributeValue::Literal(text) => match literals::int(&text, least, i64::MAX) {
                Ok(number) => Some(Bound::Literal(number)),
                Err(problem) => {
                    let span = document.span(&attribute.value_span);
                    let help = self.names().meant_code(&text);
                    self.report.add("bad-value", span, format!("{name}: {problem}"), || {
                        help.or_else(|| Some("write a whole number, or an expression as ${…}".into()))
                    });
                    None
                }
            },
        }
    }
}
