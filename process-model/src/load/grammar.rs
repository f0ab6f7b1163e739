//! Which elements, attributes and texts a document may have where. The rules are tables; what else must hold between
//! parts of a document is checked where those parts are built.

use super::{Document, Report};
use crate::diagnostic::did_you_mean;
use crate::xml;

/// The elements of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Tag {
    Xavantes,
    ProcessType,
    ActivityType,
    InParameter,
    OutParameter,
    InOutParameter,
    Description,
    Code,
    Arg,
    Env,
    Requires,
    Input,
    Output,
    Body,
    Activity,
    Process,
    Block,
    Switch,
    For,
    While,
    Par,
    ParSwitch,
    ParFor,
    ParWhile,
    Iterate,
    Case,
    Default,
    Catch,
    Finally,
    PreCode,
    PostCode,
    Condition,
    ExitCondition,
    ParamGrid,
    Axis,
}

/// What an element may contain.
struct Rule {
    tag: Tag,
    name: &'static str,
    required: &'static [&'static str],
    /// Groups of further attributes.
    attributes: &'static [&'static [&'static str]],
    /// Groups of children.
    children: &'static [&'static [Tag]],
    /// Children that must not be absent.
    needed: &'static [Tag],
    text: bool,
}

const PARAMETERS: &[Tag] = &[Tag::InParameter, Tag::OutParameter, Tag::InOutParameter];
const ELEMENTS: &[Tag] = &[
    Tag::Activity,
    Tag::Process,
    Tag::Block,
    Tag::Switch,
    Tag::For,
    Tag::While,
    Tag::Par,
    Tag::ParSwitch,
    Tag::ParFor,
    Tag::ParWhile,
];
const CODE: &[Tag] = &[Tag::PreCode, Tag::PostCode];
const HANDLERS: &[Tag] = &[Tag::Catch, Tag::Finally];
const DESCRIPTION: &[Tag] = &[Tag::Description];
const CASES: &[Tag] = &[Tag::Case, Tag::Default];
const LOOP: &[Tag] = &[Tag::ParamGrid, Tag::Iterate];
const EXIT: &[Tag] = &[Tag::ExitCondition];

const POLICY: &[&str] = &["RETRIES", "RETRY_DELAY", "RETRY_BACKOFF", "TIMEOUT"];
const ELEMENT: &[&str] = &["ON_FAILURE", "AFTER"];
const DELEGATE: &[&str] = &["DELEGATE"];
const PARALLEL: &[&str] = &["EXIT_CONDITION", "JOIN", "MAX_PARALLEL"];
const COUNT: &[&str] = &["FROM", "TO", "STEP", "EACH", "COLLECT"];
const WHILE: &[&str] = &["CONDITION", "COLLECT"];
const NEEDS: &[&str] = &["CPUS", "MEMORY", "GPUS", "SCRATCH", "OPEN_FILES", "PROCESSES", "TAGS"];
/// Of code that is a program.
pub(super) const PROGRAM: &[&str] = &["IMAGE", "SUCCESS", "RETRY"];

const NONE: Rule =
    Rule { tag: Tag::Arg, name: "", required: &[], attributes: &[], children: &[], needed: &[], text: false };

const fn text(tag: Tag, name: &'static str) -> Rule {
    Rule { tag, name, text: true, ..NONE }
}

const fn parameter(tag: Tag, name: &'static str) -> Rule {
    Rule { tag, name, required: &["NAME", "TYPE"], attributes: &[&["DEFAULT", "OPTIONAL"]], ..NONE }
}

/// A parameter that the element gives a value.
const fn result(tag: Tag, name: &'static str) -> Rule {
    Rule { attributes: &[&["DEFAULT", "OPTIONAL", "FROM"]], ..parameter(tag, name) }
}

const fn element(
    tag: Tag,
    name: &'static str,
    attributes: &'static [&'static [&'static str]],
    children: &'static [&'static [Tag]],
) -> Rule {
    Rule { tag, name, required: &["NAME"], attributes, children, ..NONE }
}

const RULES: [Rule; 35] = [
    Rule {
        tag: Tag::Xavantes,
        name: "XAVANTES",
        required: &["VERSION"],
        children: &[&[Tag::ProcessType, Tag::ActivityType]],
        ..NONE
    },
    Rule {
        tag: Tag::ProcessType,
        name: "PROCESS_TYPE",
        required: &["NAME"],
        children: &[DESCRIPTION, PARAMETERS, &[Tag::Body]],
        needed: &[Tag::Body],
        ..NONE
    },
    Rule {
        tag: Tag::ActivityType,
        name: "ACTIVITY_TYPE",
        required: &["NAME"],
        attributes: &[POLICY, &["CACHE"]],
        children: &[DESCRIPTION, PARAMETERS, &[Tag::Env, Tag::Requires, Tag::Input, Tag::Output, Tag::Code]],
        needed: &[Tag::Code],
        ..NONE
    },
    parameter(Tag::InParameter, "IN_PARAMETER"),
    result(Tag::OutParameter, "OUT_PARAMETER"),
    result(Tag::InOutParameter, "INOUT_PARAMETER"),
    text(Tag::Description, "DESCRIPTION"),
    Rule { required: &["LANGUAGE"], attributes: &[PROGRAM], children: &[&[Tag::Arg]], ..text(Tag::Code, "CODE") },
    text(Tag::Arg, "ARG"),
    Rule { tag: Tag::Env, name: "ENV", required: &["NAME", "VALUE"], ..NONE },
    Rule { tag: Tag::Requires, name: "REQUIRES", attributes: &[NEEDS], ..NONE },
    Rule { tag: Tag::Input, name: "INPUT", required: &["PARAMETER", "PATH"], ..NONE },
    Rule { tag: Tag::Output, name: "OUTPUT", required: &["PARAMETER", "PATTERN"], attributes: &[&["TO"]], ..NONE },
    Rule { tag: Tag::Body, name: "BODY", children: &[PARAMETERS, CODE, ELEMENTS, HANDLERS], ..NONE },
    Rule { required: &["NAME", "TYPE"], ..element(Tag::Activity, "ACTIVITY", &[POLICY, ELEMENT], &[DESCRIPTION]) },
    Rule {
        required: &["NAME", "TYPE"],
        ..element(Tag::Process, "PROCESS", &[POLICY, ELEMENT, DELEGATE], &[DESCRIPTION])
    },
    element(Tag::Block, "BLOCK", &[POLICY, ELEMENT, DELEGATE], &[DESCRIPTION, PARAMETERS, CODE, HANDLERS, ELEMENTS]),
    element(Tag::Switch, "SWITCH", &[POLICY, ELEMENT, DELEGATE], &[DESCRIPTION, PARAMETERS, CODE, HANDLERS, CASES]),
    Rule {
        needed: &[Tag::Iterate],
        ..element(
            Tag::For,
            "FOR",
            &[POLICY, ELEMENT, DELEGATE, COUNT],
            &[DESCRIPTION, PARAMETERS, CODE, HANDLERS, LOOP],
        )
    },
    Rule {
        needed: &[Tag::Iterate],
        ..element(
            Tag::While,
            "WHILE",
            &[POLICY, ELEMENT, DELEGATE, WHILE],
            &[DESCRIPTION, PARAMETERS, CODE, HANDLERS, &[Tag::Condition, Tag::Iterate]],
        )
    },
    element(
        Tag::Par,
        "PAR",
        &[POLICY, ELEMENT, DELEGATE, PARALLEL],
        &[DESCRIPTION, PARAMETERS, CODE, HANDLERS, EXIT, ELEMENTS],
    ),
    element(
        Tag::ParSwitch,
        "PARSWITCH",
        &[POLICY, ELEMENT, DELEGATE, PARALLEL],
        &[DESCRIPTION, PARAMETERS, CODE, HANDLERS, EXIT, CASES],
    ),
    Rule {
        needed: &[Tag::Iterate],
        ..element(
            Tag::ParFor,
            "PARFOR",
            &[POLICY, ELEMENT, DELEGATE, COUNT, PARALLEL],
            &[DESCRIPTION, PARAMETERS, CODE, HANDLERS, EXIT, LOOP],
        )
    },
    Rule {
        needed: &[Tag::Iterate],
        ..element(
            Tag::ParWhile,
            "PARWHILE",
            &[POLICY, ELEMENT, DELEGATE, WHILE, PARALLEL],
            &[DESCRIPTION, PARAMETERS, CODE, HANDLERS, EXIT, &[Tag::Condition, Tag::Iterate]],
        )
    },
    Rule {
        tag: Tag::Iterate,
        name: "ITERATE",
        attributes: &[POLICY, &["ON_FAILURE"]],
        children: &[PARAMETERS, CODE, ELEMENTS, HANDLERS],
        ..NONE
    },
    Rule {
        tag: Tag::Case,
        name: "CASE",
        attributes: &[&["NAME", "CONDITION"]],
        children: &[&[Tag::Condition], CODE, ELEMENTS],
        ..NONE
    },
    Rule { tag: Tag::Default, name: "DEFAULT", children: &[CODE, ELEMENTS], ..NONE },
    Rule { tag: Tag::Catch, name: "CATCH", children: &[CODE, ELEMENTS], ..NONE },
    Rule { tag: Tag::Finally, name: "FINALLY", children: &[CODE, ELEMENTS], ..NONE },
    text(Tag::PreCode, "PRE_CODE"),
    text(Tag::PostCode, "POST_CODE"),
    text(Tag::Condition, "CONDITION"),
    text(Tag::ExitCondition, "EXIT_CONDITION"),
    Rule { tag: Tag::ParamGrid, name: "PARAM_GRID", children: &[&[Tag::Axis]], needed: &[Tag::Axis], ..NONE },
    Rule { tag: Tag::Axis, name: "AXIS", required: &["NAME", "TYPE", "VALUES"], ..NONE },
];

impl Tag {
    /// The tag of that name.
    pub fn from_name(name: &str) -> Option<Tag> {
        RULES.iter().find(|rule| rule.name == name).map(|rule| rule.tag)
    }

    fn rule(self) -> &'static Rule {
        // The rules stand in the order of the tags; a test holds them to it.
        &RULES[self as usize]
    }

    /// As written in documents.
    pub fn name(self) -> &'static str {
        self.rule().name
    }

    /// `ACTIVITY`, `PROCESS` and the controllers: what is named, bound and run.
    pub fn is_element(self) -> bool {
        ELEMENTS.contains(&self)
    }

    /// `IN_PARAMETER`, `OUT_PARAMETER`, `INOUT_PARAMETER`.
    pub fn is_parameter(self) -> bool {
        PARAMETERS.contains(&self)
    }

    /// `FOR`, `WHILE` and their parallel kin.
    pub fn is_loop(self) -> bool {
        matches!(self, Tag::For | Tag::While | Tag::ParFor | Tag::ParWhile)
    }

    /// The parallel controllers.
    pub fn is_parallel(self) -> bool {
        matches!(self, Tag::Par | Tag::ParSwitch | Tag::ParFor | Tag::ParWhile)
    }

    /// May `child` stand directly in it?
    pub fn holds(self, child: Tag) -> bool {
        self.rule().children.iter().any(|group| group.contains(&child))
    }

    /// At most one of them stands in an element.
    fn is_single(self) -> bool {
        !(self.is_element()
            || self.is_parameter()
            || matches!(
                self,
                Tag::ProcessType
                    | Tag::ActivityType
                    | Tag::Arg
                    | Tag::Env
                    | Tag::Input
                    | Tag::Output
                    | Tag::Case
                    | Tag::Axis
            ))
    }

    fn attributes(self) -> impl Iterator<Item = &'static str> {
        self.rule().required.iter().chain(self.rule().attributes.iter().copied().flatten()).copied()
    }

    fn child_names(self) -> impl Iterator<Item = &'static str> {
        self.rule().children.iter().copied().flatten().map(|tag| tag.name())
    }
}

/// The children of an element that may stand in it.
pub(super) fn children<'d>(
    document: &'d Document,
    node: xml::ElementId,
    tag: Tag,
) -> impl Iterator<Item = (Tag, xml::ElementId)> + 'd {
    document.tree.children(node).filter_map(move |(child, element)| {
        let known = Tag::from_name(&element.name)?;
        tag.holds(known).then_some((known, child))
    })
}

/// The first child with that tag.
pub(super) fn child(document: &Document, node: xml::ElementId, tag: Tag) -> Option<xml::ElementId> {
    document.tree.children(node).find(|(_, element)| element.name == tag.name()).map(|(child, _)| child)
}

/// True if the attribute sets a parameter rather than being one of the language.
pub(super) fn is_binding(attribute: &xml::Attribute) -> bool {
    attribute.name.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Checks a whole document against the tables. False if its root is not one of a Xavantes document.
pub(super) fn check(document: &Document, report: &mut Report) -> bool {
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
    // Depth first with an own stack: documents nest deeper than ours.
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

fn check_attributes(document: &Document, report: &mut Report, tag: Tag, parent: Option<Tag>, node: xml::ElementId) {
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

fn check_text(document: &Document, report: &mut Report, tag: Tag, node: xml::ElementId) {
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

fn is_command(document: &Document, node: xml::ElementId) -> bool {
    document.tree.element(node).attribute("LANGUAGE").is_some_and(|language| language.value.value == "command")
}

fn check_children(
    document: &Document,
    report: &mut Report,
    tag: Tag,
    node: xml::ElementId,
    open: &mut Vec<(Tag, Option<Tag>, xml::ElementId)>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_stand_in_the_order_of_tags() {
        for (index, rule) in RULES.iter().enumerate() {
            assert_eq!(rule.tag as usize, index, "{}", rule.name);
        }
    }
}
