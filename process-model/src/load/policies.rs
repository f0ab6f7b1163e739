//! Warns of settings of retries that never apply: a wait or a list of exit statuses without retries, a factor without a wait.

use super::document::ParsedDocument;
use super::grammar::{self, Tag};
use super::literals;
use super::report::LoadReport;
use super::signatures::Types;
use crate::definition::{Kind, Policy, Program};
use crate::xml;

const CODE: &str = "never-applies";

/// Checks the settings of an element whose whole policy is known.
pub(super) fn check_element(
    document: &ParsedDocument,
    node: xml::XmlElementId,
    policy: &Policy,
    report: &mut LoadReport,
) {
    let element = document.tree.element(node);
    // A wrong number of retries was reported already.
    if policy.retries == 0 && element.attribute("RETRIES").is_some_and(|retries| retries.value.value.trim() != "0") {
        return;
    }
    check(document, node, policy.retries > 0, !policy.delay.is_zero(), report);
}

/// Checks the settings of activity types. The activities of a type complete its settings, so those of all of them count.
pub(super) fn check_types(documents: &[ParsedDocument], types: &Types, program: &Program, report: &mut LoadReport) {
    let mut policies: Vec<Option<Policy>> = vec![None; types.activities.len()];
    for node in program.processes.iter().flat_map(|process| &process.nodes) {
        if let Kind::Activity { activity } = node.kind {
            let known = policies[activity].get_or_insert(node.policy);
            known.retries = known.retries.max(node.policy.retries);
            known.delay = known.delay.max(node.policy.delay);
        }
    }
    for (info, policy) in types.activities.iter().zip(policies) {
        let (document, Some(policy)) = (&documents[info.document], policy) else { continue };
        check_element(document, info.node, &policy, report);
        let code = grammar::child(document, info.node, Tag::Code);
        let statuses = code.and_then(|code| document.tree.element(code).attribute("RETRY"));
        if let Some(attribute) = statuses.filter(|_| policy.retries == 0) {
            no_retries(document, attribute, report);
        }
    }
}

fn check(document: &ParsedDocument, node: xml::XmlElementId, retries: bool, waits: bool, report: &mut LoadReport) {
    let element = document.tree.element(node);
    // Wrong values were reported already.
    let delay = element.attribute("RETRY_DELAY").filter(|it| literals::duration(&it.value.value).is_ok());
    let factor = element.attribute("RETRY_BACKOFF").filter(|it| literals::factor(&it.value.value).is_ok());
    if !retries {
        delay.into_iter().chain(factor).for_each(|attribute| no_retries(document, attribute, report));
    } else if let Some(attribute) = factor.filter(|_| !waits) {
        let message = "RETRY_BACKOFF never applies: without RETRY_DELAY there is no wait that could grow";
        report.warn(CODE, document.span(&attribute.name_span), message, || {
            Some("add RETRY_DELAY=\"…\", such as 10s, or remove RETRY_BACKOFF".into())
        });
    }
}

fn no_retries(document: &ParsedDocument, attribute: &xml::Attribute, report: &mut LoadReport) {
    let name = &attribute.name;
    let message = format!("{name} never applies: there are no retries");
    let help = format!("add RETRIES=\"…\", such as 3, or remove {name}");
    report.warn(CODE, document.span(&attribute.name_span), message, || Some(help));
}
