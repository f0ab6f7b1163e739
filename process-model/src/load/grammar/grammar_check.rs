//! Checks a document against the tables.

use super::rules::{RULES, Tag, is_binding};
use crate::diagnostic::did_you_mean;
use crate::load::document::ParsedDocument;
use crate::load::report::LoadReport;
use crate::xml;

/// Checks a whole document. Returns false if the root is not the root of a Xavantes document.
pub(in crate::load) fn check(document: &ParsedDocument, report: &mut LoadReport) -> bool {
    let root = document.tree.root();
    let element = document.tree.element(root);
    if element.name != Tag::Xavantes.name() {
        let message = format!("the outermost element must be XAVANTES, not {}", element.name);
        let help = "write <XAVANTES VERSION=\"1\"> around the types".to_owned();
        report.add("unknown-element", document.span(&element.name_span), message, || Some(help));
        return false;
    }
    if let Some(version) = element.attribute("VERSION").filter(|version| version.value.value != "1") {
        let message = format!("VERSION {:?} of the language is not known", version.value.value);
        report.add("bad-value", document.span(&version.value_span), message, || Some("write VERSION=\"1\"".into()));
    }
    // Depth first with a stack of its own, because documents may nest deeper than the call stack allows.
    let mut open = vec![(Tag::Xavantes, None, root)];
    while let Some((tag, parent, node)) = open.pop() {
        if report.is_full() {
            break;
        }
        check_attributes(document, report, tag, parent, node);
        check_text(document, report, tag, node);
        let first = open.len();
        check_children(document, report, tag, node, &mut open);
        open[first..].reverse();
    }
    true
}

fn check_attributes(
    document: &ParsedDocument,
    report: &mut LoadReport,
    tag: Tag,
    parent: Option<Tag>,
    node: xml::XmlElementId,
) {
    let element = document.tree.element(node);
    for required in tag.rule().required {
        if element.attribute(required).is_none() {
            let message = format!("{} needs the attribute {required}", tag.name());
            report.add("missing-attribute", document.span(&element.name_span), message, || None);
        }
    }
    for attribute in &element.attributes {
        if tag.is_element() && is_binding(attribute) {
            continue;
        }
        let name = attribute.name.as_str();
        if !tag.attributes().any(|known| known == name) {
            let message = format!("{} has no attribute {name:?}", tag.name());
            report.add("unknown-attribute", document.span(&attribute.name_span), message, || {
                did_you_mean(name, tag.attributes()).or_else(|| attribute_help(tag))
            });
        } else if name == "AFTER" && parent != Some(Tag::Par) {
            let message = "AFTER is only for elements that stand directly in a PAR";
            let help = "put the elements into a PAR, or remove AFTER: other controllers fix the order".to_owned();
            report.add("unknown-attribute", document.span(&attribute.name_span), message, || Some(help));
        } else if name == "FROM" && tag.is_parameter() && parent != Some(Tag::ActivityType) {
            let message = "FROM is only for the results of activity types";
            let help = "remove it: code gives the parameters of everything else their values".to_owned();
            report.add("unknown-attribute", document.span(&attribute.name_span), message, || Some(help));
        }
    }
}

fn attribute_help(tag: Tag) -> Option<String> {
    let known: Vec<&str> = tag.attributes().collect();
    let parameters =
        if tag.is_element() { "; parameters that begin with an upper-case letter are set by code" } else { "" };
    Some(match known.is_empty() {
        true => format!("{} takes no attributes", tag.name()),
        false => format!("{} takes {}{parameters}", tag.name(), known.join(", ")),
    })
}

fn check_text(document: &ParsedDocument, report: &mut LoadReport, tag: Tag, node: xml::XmlElementId) {
    let command = tag == Tag::Code && is_command(document, node);
    if tag.rule().text && !command {
        return;
    }
    let mut texts = document.tree.element(node).texts();
    if let Some(text) = texts.find(|text| !xml::is_blank(&text.value.value)) {
        let value = &text.value.value;
        let shown = xml::trim(value);
        let start = value.find(shown).unwrap_or(0);
        let span = text.value.source_range(start..start + shown.len());
        let (message, help) = match command {
            true => ("a command has no text of its own", "write each argument as <ARG>…</ARG>"),
            false => ("text is not allowed here", "remove it, or make it a comment: <!-- … -->"),
        };
        report.add("unexpected-text", document.span(&span), message, || Some(help.into()));
    }
}

fn is_command(document: &ParsedDocument, node: xml::XmlElementId) -> bool {
    document.tree.element(node).attribute("LANGUAGE").is_some_and(|language| language.value.value == "command")
}

fn check_children(
    document: &ParsedDocument,
    report: &mut LoadReport,
    tag: Tag,
    node: xml::XmlElementId,
    open: &mut Vec<(Tag, Option<Tag>, xml::XmlElementId)>,
) {
    let mut seen: Vec<Tag> = Vec::new();
    for (child, element) in document.tree.children(node) {
        let span = document.span(&element.name_span);
        let Some(known) = Tag::from_name(&element.name) else {
            let message = format!("there is no element {:?}", element.name);
            report.add("unknown-element", span, message, || {
                did_you_mean(&element.name, tag.child_names())
                    .or_else(|| did_you_mean(&element.name, RULES.iter().map(|rule| rule.name)))
            });
            continue;
        };
        open.push((known, Some(tag), child));
        if !tag.holds(known) {
            let message = format!("{} cannot stand in {}", known.name(), tag.name());
            report.add("misplaced-element", span, message, || {
                let places: Vec<&str> =
                    RULES.iter().filter(|rule| rule.tag.holds(known)).map(|rule| rule.name).collect();
                Some(match places.is_empty() {
                    true => format!("{} is the outermost element", known.name()),
                    false => format!("{} belongs in {}", known.name(), places.join(", ")),
                })
            });
        } else if known == Tag::Arg && !is_command(document, node) {
            let help = "write LANGUAGE=\"command\", or give the code as text".to_owned();
            report.add("misplaced-element", span, "ARG is only for commands", || Some(help));
        } else if !seen.contains(&known) {
            seen.push(known);
        } else if known.is_single() {
            let message = format!("{} has more than one {}", tag.name(), known.name());
            report.add("duplicate-element", span, message, || Some("keep one of them".into()));
        }
    }
    for needed in tag.rule().needed.iter().filter(|needed| !seen.contains(needed)) {
        let message = format!("{} has no {}", tag.name(), needed.name());
        let span = document.span(&document.tree.element(node).name_span);
        report.add("missing-element", span, message, || Some(format!("add <{}> to it", needed.name())));
    }
}
