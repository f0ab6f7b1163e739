//! Conversions between the engine's types and those of the wire.

use std::collections::HashMap;
use std::sync::Arc;

use xavantes_engine::{Answer, Delegation, ElementId, Failure, FailureKind, Root, SharedCall, Start};
use xavantes_model::definition::{DefinitionNodeId, Kind, Program, ScriptInput};
use xavantes_model::digest::Digest;
use xavantes_model::shared_objects::Method;
use xavantes_model::value::{MAX_HOLDERS, SharedRef};
use xavantes_proto::message_limits::bound_failure;
use xavantes_proto::{InvalidMessage, v1, value, value_from};

pub(crate) fn element_from(bits: u64) -> ElementId {
    ElementId { index: bits as u32, generation: (bits >> 32) as u32 }
}

pub(crate) fn failure(failure: &Failure) -> v1::Failure {
    let kind = match failure.kind {
        FailureKind::Code => v1::FailureKind::Code,
        FailureKind::Exit => v1::FailureKind::Exit,
        FailureKind::Timeout => v1::FailureKind::Timeout,
        FailureKind::Cancelled => v1::FailureKind::Cancelled,
        FailureKind::Parameter => v1::FailureKind::Parameter,
        FailureKind::Limit => v1::FailureKind::Limit,
        FailureKind::Worker => v1::FailureKind::Worker,
    };
    v1::Failure {
        kind: kind.into(),
        message: failure.message.clone(),
        path: failure.path.clone(),
        line: failure.line,
        file: None,
        worker: failure.worker.clone(),
        exit_status: failure.exit_status,
        stderr: failure.stderr.clone(),
        cause: failure.cause.as_deref().map(|cause| Box::new(self::failure(cause))),
        gone: Vec::new(),
        permanent: failure.permanent,
    }
}

/// A failure of an attempt, with its texts shortened. Workers leave path and cause empty; other coordinators fill them in.
pub(crate) fn failure_from(mut wire: v1::Failure) -> Failure {
    bound_failure(&mut wire);
    read_failure(wire)
}

fn read_failure(wire: v1::Failure) -> Failure {
    let kind = match wire.kind() {
        v1::FailureKind::Exit => FailureKind::Exit,
        v1::FailureKind::Timeout => FailureKind::Timeout,
        v1::FailureKind::Cancelled => FailureKind::Cancelled,
        v1::FailureKind::Limit => FailureKind::Limit,
        v1::FailureKind::Parameter => FailureKind::Parameter,
        v1::FailureKind::Worker => FailureKind::Worker,
        v1::FailureKind::Code | v1::FailureKind::Unspecified => FailureKind::Code,
    };
    let mut failure = Failure::new(kind, wire.message);
    failure.path = wire.path;
    failure.line = wire.line;
    failure.worker = wire.worker;
    failure.exit_status = wire.exit_status;
    failure.stderr = wire.stderr;
    failure.cause = wire.cause.map(|cause| Box::new(read_failure(*cause)));
    failure.permanent |= wire.permanent;
    failure
}

pub(crate) fn answer_from(outcome: v1::answer::Outcome) -> Answer {
    use v1::answer::Outcome;
    match outcome {
        Outcome::Completed(completed) => {
            match completed.results.into_iter().map(value_from).collect::<Result<Vec<_>, _>>() {
                Ok(values) => Answer::Completed(values),
                Err(unfit) => Answer::Failed(Box::new(Failure::new(FailureKind::Worker, unfit.0))),
            }
        }
        Outcome::Failed(failure) => Answer::Failed(Box::new(failure_from(failure))),
        Outcome::Cancelled(_) => Answer::Cancelled,
        Outcome::Refused(_) => Answer::Refused,
    }
}

/// The files and directories that a value refers to.
pub(crate) fn references(value: &v1::Value) -> Vec<&v1::FileReference> {
    use v1::value::Kind;
    let (mut found, mut pending) = (Vec::new(), vec![value]);
    while let Some(value) = pending.pop() {
        match &value.kind {
            Some(Kind::File(file)) => found.push(file),
            Some(Kind::List(list)) => pending.extend(&list.items),
            Some(Kind::Map(map)) => pending.extend(map.entries.values()),
            _ => {}
        }
    }
    found
}

/// Digests of the files and directories in a value whose content the grid stores.
pub(crate) fn stored_digests(value: &v1::Value) -> Vec<Digest> {
    let contents = references(value).into_iter().filter_map(|file| file.content.as_ref());
    contents.filter_map(|content| Digest::from_bytes(&content.digest)).collect()
}

/// What nodes may release when a process has ended: all files pinned for it except for these results.
pub(crate) fn release_except<'a>(process: &str, results: impl Iterator<Item = &'a v1::Value>) -> v1::Release {
    let mut release = v1::Release { process: process.to_owned(), ..v1::Release::default() };
    for file in results.flat_map(references) {
        let list = if file.directory { &mut release.directories } else { &mut release.files };
        list.extend(file.content.as_ref().map(|content| content.digest.clone()));
    }
    release
}

/// Puts the current holders of a value's files in front of those that the references name.
pub(crate) fn add_holders(value: &mut v1::Value, holders: &HashMap<Digest, Vec<String>>) {
    use v1::value::Kind;
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match &mut value.kind {
            Some(Kind::File(v1::FileReference { content: Some(content), .. })) => {
                let known = Digest::from_bytes(&content.digest).and_then(|digest| holders.get(&digest));
                let mut now = known.cloned().unwrap_or_default();
                now.extend(content.holders.iter().filter(|before| !now.contains(before)).cloned().collect::<Vec<_>>());
                now.truncate(MAX_HOLDERS);
                content.holders = now;
            }
            Some(Kind::List(list)) => pending.extend(&mut list.items),
            Some(Kind::Map(map)) => pending.extend(map.entries.values_mut()),
            _ => {}
        }
    }
}

pub(crate) fn call_from(call: v1::SharedCall) -> Result<SharedCall, InvalidMessage> {
    let id = call.id.ok_or(InvalidMessage("a call names no attempt"))?;
    let object: SharedRef = call.object.ok_or(InvalidMessage("a call names no shared object"))?.try_into()?;
    let method = Method::find(object.kind, &call.method).ok_or(InvalidMessage("a shared object has no such method"))?;
    Ok(SharedCall {
        element: element_from(id.element),
        attempt: id.attempt,
        caller: call.caller,
        sequence: call.sequence,
        acknowledged: call.acknowledged,
        object,
        method,
        arguments: call.arguments.into_iter().map(value_from).collect::<Result<_, _>>()?,
    })
}

/// The subtree of a delegation, for another coordinator.
pub(crate) fn subtree(delegation: &Delegation) -> v1::Subtree {
    let captured = delegation.captured.iter().filter_map(|(input, captured)| {
        let (scope, element, slot) = match input {
            ScriptInput::Variable { node, slot } => (node.0, None, *slot),
            ScriptInput::Element { scope, element, slot } => (scope.0, Some(element.0), *slot),
            ScriptInput::LoopSummary(_) => return None,
        };
        Some(v1::Captured { scope, element, slot, value: Some(value(captured)) })
    });
    v1::Subtree {
        process: delegation.process as u32,
        node: delegation.node.0,
        captured: captured.collect(),
        call_depth: delegation.call_depth,
        no_reuse: false,
    }
}

/// The start of a subtree that another coordinator sent, if it fits the program.
pub fn start_from(
    program: &Program,
    id: Arc<str>,
    variables: Vec<v1::Value>,
    subtree: v1::Subtree,
) -> Result<Start, InvalidMessage> {
    let process = program.processes.get(subtree.process as usize).ok_or(InvalidMessage("no such process type"))?;
    let node = DefinitionNodeId(subtree.node);
    let root = process.nodes.get(node.index()).ok_or(InvalidMessage("no such node"))?;
    if matches!(root.kind, Kind::Activity { .. } | Kind::Process { .. }) || variables.len() > root.variables.len() {
        return Err(InvalidMessage("this is not the root of a subtree"));
    }
    let captured = subtree.captured.into_iter().map(|captured| {
        let scope = DefinitionNodeId(captured.scope);
        let input = match captured.element {
            None => ScriptInput::Variable { node: scope, slot: captured.slot },
            Some(element) => ScriptInput::Element { scope, element: DefinitionNodeId(element), slot: captured.slot },
        };
        Ok((input, value_from(captured.value.unwrap_or_default())?))
    });
    Ok(Start {
        id,
        root: Root { process: subtree.process as usize, node },
        parameters: Vec::new(),
        variables: Some(variables.into_iter().map(value_from).collect::<Result<_, _>>()?),
        captured: captured.collect::<Result<_, InvalidMessage>>()?,
        call_depth: subtree.call_depth,
    })
}
