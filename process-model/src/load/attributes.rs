//! Attributes with a fixed meaning: names, types, policies, choices, numbers.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::document::ParsedDocument;
use super::identifiers::check_name;
use super::literals;
use super::report::LoadReport;
use crate::definition::{OnFailure, Policy};
use crate::diagnostic::did_you_mean;
use crate::value::Type;
use crate::xml;

/// Parses an attribute if it is present. Reports an error of the parser.
pub(super) fn read<T>(
    document: &ParsedDocument,
    node: xml::XmlElementId,
    name: &str,
    report: &mut LoadReport,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Option<T> {
    let attribute = document.tree.element(node).attribute(name)?;
    match parse(&attribute.value.value) {
        Ok(value) => Some(value),
        Err(problem) => {
            report.add("bad-value", document.span(&attribute.value_span), format!("{name}: {problem}"), || None);
            None
        }
    }
}

/// Parses one of a few words.
pub(super) fn choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    choices.iter().find(|(word, _)| *word == xml::trim(text)).map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        format!("expected {}, got {text:?}", words.join(" or "))
    })
}

/// The parts of a [`Policy`] that an element or type sets.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PolicyParts {
    retries: Option<u32>,
    delay: Option<Duration>,
    backoff: Option<f64>,
    timeout: Option<Duration>,
    on_failure: Option<OnFailure>,
}

impl PolicyParts {
    /// Reads the attributes of an element or type.
    pub fn read(document: &ParsedDocument, node: xml::XmlElementId, report: &mut LoadReport) -> Self {
        if document.tree.element(node).attributes.is_empty() {
            return Self::default();
        }
        let retries = read(document, node, "RETRIES", report, |text| literals::int(text, 0, 1_000_000));
        Self {
            retries: retries.and_then(|retries| u32::try_from(retries).ok()),
            delay: read(document, node, "RETRY_DELAY", report, literals::duration),
            backoff: read(document, node, "RETRY_BACKOFF", report, literals::factor),
            timeout: read(document, node, "TIMEOUT", report, |text| match literals::duration(text)? {
                Duration::ZERO => Err("must be longer than 0".into()),
                timeout => Ok(timeout),
            }),
            on_failure: read(document, node, "ON_FAILURE", report, |text| {
                let choices = [("fail", OnFailure::Fail), ("continue", OnFailure::Continue), ("hold", OnFailure::Hold)];
                choice(text, &choices)
            }),
        }
    }

    /// Completes these parts: `fallback` stands in for absent parts, and the defaults for parts absent in both.
    pub fn or(self, fallback: PolicyParts) -> Policy {
        let default = Policy::default();
        Policy {
            retries: self.retries.or(fallback.retries).unwrap_or(default.retries),
            delay: self.delay.or(fallback.delay).unwrap_or(default.delay),
            backoff: self.backoff.or(fallback.backoff).unwrap_or(default.backoff),
            timeout: self.timeout.or(fallback.timeout).or(default.timeout),
            on_failure: self.on_failure.or(fallback.on_failure).unwrap_or(default.on_failure),
        }
    }
}

/// Reads and checks the attribute `NAME` of a parameter, element, case or axis. Returns it with its bytes.
pub(super) fn read_name(
    document: &ParsedDocument,
    node: xml::XmlElementId,
    report: &mut LoadReport,
) -> Option<(Arc<str>, Range<usize>)> {
    let attribute = document.tree.element(node).attribute("NAME")?;
    let name = attribute.value.value.as_str();
    if let Err((message, help)) = check_name(name) {
        report.add("bad-name", document.span(&attribute.value_span), message, || Some(help.into()));
        return None;
    }
    Some((name.into(), attribute.value_span.clone()))
}

/// Reads the attribute `TYPE` of a parameter or axis.
pub(super) fn read_type(document: &ParsedDocument, node: xml::XmlElementId, report: &mut LoadReport) -> Option<Type> {
    let attribute = document.tree.element(node).attribute("TYPE")?;
    let name = xml::trim(&attribute.value.value);
    let ty = Type::from_name(name);
    if ty.is_none() {
        let message = format!("there is no type {name:?}");
        report.add("bad-value", document.span(&attribute.value_span), message, || {
            let known = || Type::ALL.iter().map(|(name, _)| *name);
            did_you_mean(name, known())
                .or_else(|| Some(format!("the types are {}", known().collect::<Vec<_>>().join(", "))))
        });
    }
    ty
}
