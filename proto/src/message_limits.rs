//! Upper bounds on what peers and users send, and the checks. Every service applies them where a message enters, so that
//! nothing behind that place is longer, more or larger.

use std::collections::BTreeSet;
use std::fmt;

pub use xavantes_model::shortened_text::{MAX_FAILURE_BYTES, shorten};

use crate::v1;

/// Upper bound on the name of a node, group, realm, owner or tag, and on an id that a client chooses.
pub const MAX_NAME_BYTES: usize = 256;
/// Upper bound on an address, `host:port`: the name of a host has at most 253 bytes.
pub const MAX_ADDRESS_BYTES: usize = 262;
/// Upper bound on the path of an element, or the id of a process.
pub const MAX_PATH_BYTES: usize = 256 << 10;
/// Upper bound on the labels of a process.
pub const MAX_LABELS: usize = 32;
/// Upper bound on the key of a label.
pub const MAX_LABEL_KEY_BYTES: usize = 64;
/// Upper bound on the value of a label.
pub const MAX_LABEL_VALUE_BYTES: usize = 256;
/// Upper bound on a URI, and on the value of a setting.
pub const MAX_URI_BYTES: usize = 4096;
/// Upper bound on a failure and the failures behind it.
pub const MAX_CAUSES: usize = 16;
/// Upper bound on the missing files that a failure names.
pub const MAX_GONE: usize = 1024;
/// Upper bound on the text that says why a worker takes no work: lists of nodes repeat it for every node.
pub const MAX_IMPAIRMENT_BYTES: usize = 256;
/// Upper bound on the files that a job or answer describes.
pub const MAX_FILES: usize = 1_000_000;
/// Upper bound on the tags of a node, and on its interpreters.
pub const MAX_WORDS: usize = 256;
/// Upper bound on the slots that a node has, or claims to have.
pub const MAX_SLOTS: u32 = 65_536;
/// Upper bound on the graphics processors that a node has, or claims to have.
pub const MAX_GPUS: u32 = 1024;
/// Upper bound on the needs in a request for a worker.
pub const MAX_WAITING_NEEDS: usize = 16;
/// Upper bound on the bytes of memory that a node has, or claims to have: one pebibyte.
pub const MAX_MEMORY_BYTES: u64 = 1 << 50;
/// Upper bound on the attempts that may wait at a node, or that it says may wait there.
pub const MAX_QUEUE: u32 = 65_536;

/// A field of a message that is too long, has too many items, or has characters that no name has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidField {
    field: &'static str,
    problem: FieldProblem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum FieldProblem {
    Missing,
    TooLong { bytes: usize, limit: usize },
    TooMany { items: usize, limit: usize },
    TooLarge { value: u64, limit: u64 },
    ControlCharacter,
    Repeated(String),
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field;
        match &self.problem {
            FieldProblem::Missing => write!(f, "{field} is missing"),
            FieldProblem::TooLong { bytes, limit } => {
                write!(f, "{field} has {bytes} bytes; at most {limit} are allowed")
            }
            FieldProblem::TooMany { items, limit } => {
                write!(f, "{field} has {items} items; at most {limit} are allowed")
            }
            FieldProblem::TooLarge { value, limit } => write!(f, "{field} is {value}; at most {limit} is allowed"),
            FieldProblem::ControlCharacter => {
                write!(f, "{field} has a control character, such as a line break; use printable characters only")
            }
            FieldProblem::Repeated(text) => write!(f, "{field} must not appear twice: {text:?}"),
        }
    }
}

impl std::error::Error for InvalidField {}

impl From<InvalidField> for tonic::Status {
    fn from(invalid: InvalidField) -> Self {
        Self::invalid_argument(invalid.to_string())
    }
}

/// Checks the length of a text.
pub fn check_length(field: &'static str, text: &str, limit: usize) -> Result<(), InvalidField> {
    match text.len() {
        bytes if bytes > limit => Err(InvalidField { field, problem: FieldProblem::TooLong { bytes, limit } }),
        _ => Ok(()),
    }
}

/// Checks the number of items of a list.
pub fn check_count(field: &'static str, items: usize, limit: usize) -> Result<(), InvalidField> {
    match items > limit {
        true => Err(InvalidField { field, problem: FieldProblem::TooMany { items, limit } }),
        false => Ok(()),
    }
}

/// Checks a number.
pub fn check_number(field: &'static str, value: u64, limit: u64) -> Result<(), InvalidField> {
    match value > limit {
        true => Err(InvalidField { field, problem: FieldProblem::TooLarge { value, limit } }),
        false => Ok(()),
    }
}

/// Checks a text of one line, which may be empty.
pub fn check_line(field: &'static str, text: &str, limit: usize) -> Result<(), InvalidField> {
    check_length(field, text, limit)?;
    match text.chars().any(char::is_control) {
        true => Err(InvalidField { field, problem: FieldProblem::ControlCharacter }),
        false => Ok(()),
    }
}

/// Checks a name, which may be empty.
pub fn check_optional_name(field: &'static str, name: &str) -> Result<(), InvalidField> {
    check_line(field, name, MAX_NAME_BYTES)
}

/// Checks a name.
pub fn check_name(field: &'static str, name: &str) -> Result<(), InvalidField> {
    match name.is_empty() {
        true => Err(InvalidField { field, problem: FieldProblem::Missing }),
        false => check_optional_name(field, name),
    }
}

/// Checks an address, which may be empty.
pub fn check_address(field: &'static str, address: &str) -> Result<(), InvalidField> {
    check_line(field, address, MAX_ADDRESS_BYTES)
}

/// Checks the path of an element, or the id of a process.
pub fn check_path(field: &'static str, path: &str) -> Result<(), InvalidField> {
    check_line(field, path, MAX_PATH_BYTES)
}

/// Checks a list of short words: tags, interpreters.
pub fn check_words(field: &'static str, words: &[String]) -> Result<(), InvalidField> {
    check_count(field, words.len(), MAX_WORDS)?;
    words.iter().try_for_each(|word| check_optional_name(field, word))
}

/// Checks the labels of a process, or those that a list asks for.
pub fn check_labels(labels: &[v1::Label]) -> Result<(), InvalidField> {
    check_count("the list of labels", labels.len(), MAX_LABELS)?;
    let mut keys = BTreeSet::new();
    for v1::Label { key, value } in labels {
        let invalid = |problem| Err(InvalidField { field: "the key of a label", problem });
        check_line("the key of a label", key, MAX_LABEL_KEY_BYTES)?;
        check_line("the value of a label", value, MAX_LABEL_VALUE_BYTES)?;
        if key.is_empty() {
            return invalid(FieldProblem::Missing);
        }
        if !keys.insert(key) {
            return invalid(FieldProblem::Repeated(key.clone()));
        }
    }
    Ok(())
}

/// Checks how a node describes itself. It may claim only what a node can have.
pub fn check_node(node: &v1::NodeDescription) -> Result<(), InvalidField> {
    check_name("the name of the node", &node.name)?;
    check_address("the address of the node", &node.address)?;
    check_optional_name("the version of the node", &node.version)?;
    check_count("the roles of the node", node.roles.len(), MAX_WORDS)?;
    check_words("the tags of the node", &node.tags)?;
    check_words("the interpreters of the node", &node.interpreters)?;
    check_words("the control groups of the node", &node.cgroups)?;
    check_number("the number of slots of the node", node.slots.into(), MAX_SLOTS.into())?;
    check_number("the number of gpus of the node", node.gpus.into(), MAX_GPUS.into())?;
    check_number("the memory of the node", node.memory, MAX_MEMORY_BYTES)
}

/// Checks the hello of a coordinator.
pub fn check_coordinator_hello(hello: &v1::CoordinatorHello) -> Result<(), InvalidField> {
    check_name("the node of the coordinator", &hello.node)?;
    check_name("the group of the coordinator", &hello.group)?;
    check_name("the realm of the coordinator", &hello.realm)?;
    check_optional_name("the version of the coordinator", &hello.version)?;
    check_address("the address of the coordinator", &hello.address)
}

/// Checks the hello of a worker, or of a coordinator that runs subtrees.
pub fn check_worker_hello(hello: &v1::WorkerHello) -> Result<(), InvalidField> {
    check_name("the name of the worker", &hello.node)?;
    check_optional_name("the version of the worker", &hello.version)?;
    check_words("the tags of the worker", &hello.tags)?;
    check_words("the interpreters of the worker", &hello.interpreters)?;
    check_number("the number of slots of the worker", hello.slots.into(), MAX_SLOTS.into())?;
    check_number("the queue of the worker", hello.queue.into(), MAX_QUEUE.into())?;
    check_number("the number of gpus of the worker", hello.gpus.into(), MAX_GPUS.into())?;
    check_number("the memory of the worker", hello.memory, MAX_MEMORY_BYTES)
}

/// Checks the names in a job.
pub fn check_job(job: &v1::Job) -> Result<(), InvalidField> {
    check_path("the path of the job", &job.path)?;
    check_count("the relays of the job", job.relays.len(), MAX_WORDS)?;
    job.relays.iter().try_for_each(|address| check_address("the address of a relay", address))?;
    check_count("the files of the job", job.holdings.len(), MAX_FILES)?;
    check_count("the recipes of the job", job.recipes.len(), MAX_FILES)
}

/// Shortens the texts of a failure, and cuts off the causes behind [`MAX_CAUSES`].
pub fn bound_failure(failure: &mut v1::Failure) {
    let mut next = Some(failure);
    for kept in 1.. {
        let Some(failure) = next else { return };
        failure.message = shorten(std::mem::take(&mut failure.message), MAX_FAILURE_BYTES);
        failure.stderr = failure.stderr.take().map(|stderr| shorten(stderr, MAX_FAILURE_BYTES));
        failure.worker = failure.worker.take().map(|worker| shorten(worker, MAX_NAME_BYTES));
        failure.path = shorten(std::mem::take(&mut failure.path), MAX_PATH_BYTES);
        failure.gone.truncate(MAX_GONE);
        if kept == MAX_CAUSES {
            failure.cause = None;
        }
        next = failure.cause.as_deref_mut();
    }
}

/// Shortens the text of an impairment.
pub fn bound_impairment(reason: &mut v1::ImpairmentReason) {
    if let Some(v1::impairment_reason::Kind::AnswersUnwritable(error)) = &mut reason.kind {
        *error = shorten(std::mem::take(error), MAX_IMPAIRMENT_BYTES);
    }
}

/// Shortens the texts of a refusal.
pub fn bound_refusal(refusal: &mut v1::Refusal) {
    use v1::{refusal_reason::Kind, requirement::Kind as Required};
    match refusal.reason.as_mut().and_then(|reason| reason.kind.as_mut()) {
        Some(Kind::InvalidJob(text) | Kind::NotRecorded(text)) => {
            *text = shorten(std::mem::take(text), MAX_FAILURE_BYTES);
        }
        Some(Kind::Impaired(reason)) => bound_impairment(reason),
        Some(Kind::Unmet(v1::Requirement { kind: Some(Required::Interpreter(name) | Required::Tag(name)) })) => {
            *name = shorten(std::mem::take(name), MAX_NAME_BYTES);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_names_the_field_the_length_and_the_limit() {
        let refused = check_name("the name of the node", &"n".repeat(100_000)).unwrap_err();
        assert_eq!(refused.to_string(), "the name of the node has 100000 bytes; at most 256 are allowed");
        assert_eq!(check_name("it", "").unwrap_err().to_string(), "it is missing");
        assert!(check_optional_name("it", "").is_ok() && check_name("it", "Größe 1").is_ok());
        for wrong in ["a\nb", "a\u{1b}[2J", "\0", "\u{9b}"] {
            assert!(check_name("it", wrong).unwrap_err().to_string().contains("control character"), "{wrong:?}");
        }
        assert!(check_count("it", 3, 2).is_err() && check_number("it", 3, 2).is_err());
    }

    #[test]
    fn a_node_claims_only_what_a_node_can_have() {
        let node = v1::NodeDescription { name: "n".into(), slots: MAX_SLOTS, ..Default::default() };
        assert!(check_node(&node).is_ok());
        for wrong in [
            v1::NodeDescription { slots: u32::MAX, ..node.clone() },
            v1::NodeDescription { gpus: u32::MAX, ..node.clone() },
            v1::NodeDescription { memory: u64::MAX, ..node.clone() },
            v1::NodeDescription { tags: vec!["t".into(); MAX_WORDS + 1], ..node.clone() },
            v1::NodeDescription { tags: vec!["t".repeat(MAX_NAME_BYTES + 1)], ..node.clone() },
            v1::NodeDescription { address: "a".repeat(MAX_ADDRESS_BYTES + 1), ..node.clone() },
            v1::NodeDescription { name: String::new(), ..node.clone() },
        ] {
            assert!(check_node(&wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn failures_are_shortened_with_all_their_causes() {
        let long =
            || v1::Failure { message: "m".repeat(1 << 20), stderr: Some("e".repeat(1 << 20)), ..Default::default() };
        let mut failure = long();
        for _ in 0..100 {
            failure = v1::Failure { cause: Some(Box::new(failure)), ..long() };
        }
        bound_failure(&mut failure);
        let (mut count, mut next) = (0, Some(&failure));
        while let Some(failure) = next {
            assert!(failure.message.len() <= MAX_FAILURE_BYTES && failure.message.contains("left out"));
            assert!(failure.stderr.as_ref().is_some_and(|stderr| stderr.len() <= MAX_FAILURE_BYTES));
            (count, next) = (count + 1, failure.cause.as_deref());
        }
        assert_eq!(count, MAX_CAUSES);
    }
}
