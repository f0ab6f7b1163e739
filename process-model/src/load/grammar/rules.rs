//! The tables: which attributes and children each element of the language has.

use crate::load::document::ParsedDocument;
use crate::xml;

/// The elements of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::load) enum Tag {
    Xavantes,
    Import,
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
    Estimate,
    Size,
    File,
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

/// Attributes and content of an element.
pub(super) struct Rule {
    pub tag: Tag,
    pub name: &'static str,
    pub required: &'static [&'static str],
    /// Groups of further attributes.
    attributes: &'static [&'static [&'static str]],
    /// Groups of children.
    children: &'static [&'static [Tag]],
    /// Children that must be present.
    pub needed: &'static [Tag],
    /// True if the element may contain text.
    pub text: bool,
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
const ESTIMATE: &[Tag] = &[Tag::Estimate];
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
/// Attributes of code that is an external program.
pub(in crate::load) const PROGRAM_ATTRIBUTES: &[&str] = &["IMAGE", "SUCCESS", "RETRY", "STRICT"];

const NONE: Rule =
    Rule { tag: Tag::Arg, name: "", required: &[], attributes: &[], children: &[], needed: &[], text: false };

const fn text(tag: Tag, name: &'static str) -> Rule {
    Rule { tag, name, text: true, ..NONE }
}

const fn parameter(tag: Tag, name: &'static str) -> Rule {
    Rule { tag, name, required: &["NAME", "TYPE"], attributes: &[&["DEFAULT", "OPTIONAL", "SECRET"]], ..NONE }
}

/// A parameter that receives its value from the element.
const fn result(tag: Tag, name: &'static str) -> Rule {
    Rule { attributes: &[&["DEFAULT", "OPTIONAL", "SECRET", "FROM"]], ..parameter(tag, name) }
}

const fn element(
    tag: Tag,
    name: &'static str,
    attributes: &'static [&'static [&'static str]],
    children: &'static [&'static [Tag]],
) -> Rule {
    Rule { tag, name, required: &["NAME"], attributes, children, ..NONE }
}

pub(super) const RULES: [Rule; 39] = [
    Rule {
        tag: Tag::Xavantes,
        name: "XAVANTES",
        required: &["VERSION"],
        children: &[&[Tag::Import, Tag::ProcessType, Tag::ActivityType]],
        ..NONE
    },
    Rule { tag: Tag::Import, name: "IMPORT", required: &["TYPE", "HASH"], ..NONE },
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
        children: &[DESCRIPTION, PARAMETERS, ESTIMATE, &[Tag::Env, Tag::Requires, Tag::Input, Tag::Output, Tag::Code]],
        needed: &[Tag::Code],
        ..NONE
    },
    parameter(Tag::InParameter, "IN_PARAMETER"),
    result(Tag::OutParameter, "OUT_PARAMETER"),
    result(Tag::InOutParameter, "INOUT_PARAMETER"),
    text(Tag::Description, "DESCRIPTION"),
    Rule {
        required: &["LANGUAGE"],
        attributes: &[PROGRAM_ATTRIBUTES],
        children: &[&[Tag::Arg]],
        ..text(Tag::Code, "CODE")
    },
    text(Tag::Arg, "ARG"),
    Rule { tag: Tag::Env, name: "ENV", required: &["NAME", "VALUE"], ..NONE },
    Rule { tag: Tag::Requires, name: "REQUIRES", attributes: &[NEEDS], ..NONE },
    Rule { tag: Tag::Input, name: "INPUT", required: &["PARAMETER", "PATH"], ..NONE },
    Rule { tag: Tag::Output, name: "OUTPUT", required: &["PARAMETER", "PATTERN"], attributes: &[&["TO"]], ..NONE },
    Rule {
        tag: Tag::Estimate,
        name: "ESTIMATE",
        attributes: &[&["SECONDS", "GPU_SECONDS"]],
        children: &[&[Tag::Size, Tag::File]],
        ..NONE
    },
    Rule { tag: Tag::Size, name: "SIZE", required: &["PARAMETER", "BYTES"], ..NONE },
    Rule { tag: Tag::File, name: "FILE", required: &["NAME", "USE"], attributes: &[&["BYTES"]], ..NONE },
    Rule { tag: Tag::Body, name: "BODY", children: &[PARAMETERS, CODE, ELEMENTS, HANDLERS], ..NONE },
    Rule {
        required: &["NAME", "TYPE"],
        ..element(Tag::Activity, "ACTIVITY", &[POLICY, ELEMENT], &[DESCRIPTION, ESTIMATE])
    },
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
    /// Returns the tag called `name`.
    pub fn from_name(name: &str) -> Option<Tag> {
        RULES.iter().find(|rule| rule.name == name).map(|rule| rule.tag)
    }

    pub(super) fn rule(self) -> &'static Rule {
        // The rules are in the order of the tags; a test checks that.
        &RULES[self as usize]
    }

    /// Returns the name in documents.
    pub fn name(self) -> &'static str {
        self.rule().name
    }

    /// True for `ACTIVITY`, `PROCESS` and the controllers.
    pub fn is_element(self) -> bool {
        ELEMENTS.contains(&self)
    }

    /// True for `IN_PARAMETER`, `OUT_PARAMETER` and `INOUT_PARAMETER`.
    pub fn is_parameter(self) -> bool {
        PARAMETERS.contains(&self)
    }

    /// True for `FOR`, `WHILE`, `PARFOR` and `PARWHILE`.
    pub fn is_loop(self) -> bool {
        matches!(self, Tag::For | Tag::While | Tag::ParFor | Tag::ParWhile)
    }

    /// True for scopes that run their elements one after the other.
    pub fn is_sequence(self) -> bool {
        use Tag::{Block, Body, Case, Catch, Default, Finally, Iterate};
        matches!(self, Body | Block | Iterate | Case | Default | Catch | Finally)
    }

    /// True for the parallel controllers.
    pub fn is_parallel(self) -> bool {
        matches!(self, Tag::Par | Tag::ParSwitch | Tag::ParFor | Tag::ParWhile)
    }

    /// True if `child` may stand directly in this element.
    pub fn holds(self, child: Tag) -> bool {
        self.rule().children.iter().any(|group| group.contains(&child))
    }

    /// True if an element may contain at most one child with this tag.
    pub(super) fn is_single(self) -> bool {
        !(self.is_element()
            || self.is_parameter()
            || matches!(
                self,
                Tag::Import
                    | Tag::ProcessType
                    | Tag::ActivityType
                    | Tag::Arg
                    | Tag::Env
                    | Tag::Input
                    | Tag::Output
                    | Tag::Size
                    | Tag::File
                    | Tag::Case
                    | Tag::Axis
            ))
    }

    pub(super) fn attributes(self) -> impl Iterator<Item = &'static str> {
        self.rule().required.iter().chain(self.rule().attributes.iter().copied().flatten()).copied()
    }

    pub(super) fn child_names(self) -> impl Iterator<Item = &'static str> {
        self.rule().children.iter().copied().flatten().map(|tag| tag.name())
    }
}

/// Iterates over the children of an element that its rule allows.
pub(in crate::load) fn children<'d>(
    document: &'d ParsedDocument,
    node: xml::XmlElementId,
    tag: Tag,
) -> impl Iterator<Item = (Tag, xml::XmlElementId)> + 'd {
    document.tree.children(node).filter_map(move |(child, element)| {
        let known = Tag::from_name(&element.name)?;
        tag.holds(known).then_some((known, child))
    })
}

/// Returns the first child with that tag.
pub(in crate::load) fn child(
    document: &ParsedDocument,
    node: xml::XmlElementId,
    tag: Tag,
) -> Option<xml::XmlElementId> {
    document.tree.children(node).find(|(_, element)| element.name == tag.name()).map(|(child, _)| child)
}

/// True if the attribute sets a parameter instead of being part of the language.
pub(in crate::load) fn is_binding(attribute: &xml::Attribute) -> bool {
    attribute.name.starts_with(|c: char| c.is_ascii_lowercase())
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
