//! The elements of a running process, as `show` presents them: from the engine, the pool, and other coordinators.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tonic::Response;
use xavantes_engine::{Condition, ElementId, Rejection, View};
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{call_with_timeout, connect, receive, v1};

use crate::engine_messages::failure;
use crate::process::handle::ElementSender;
use crate::process::owner::MAX_FORWARDS;
use crate::process::runner::Runner;
use crate::process::shortened_views::cut_failure;
use crate::workers::worker_messages::Whereabouts;
use xavantes_proto::AttemptKey;

/// Upper bound on the shown children of one element.
pub(crate) const MAX_SHOWN_CHILDREN: usize = 100;
/// Upper bound on the bytes of a subtree at another coordinator.
const MAX_REMOTE_BYTES: usize = 64 << 20;
/// Another coordinator counts as silent after this time.
const SILENT_AFTER: Duration = Duration::from_secs(5);

impl Runner {
    /// Answers with the element at a path, completed in the background by what the pool and other coordinators know.
    pub(super) fn on_show(&self, path: &str, depth: u32, forwards: u32, answer: ElementSender) {
        let mut element = match self.find_element(path, depth) {
            Ok(element) => element,
            Err(rejection) => return drop(answer.send(Err(rejection))),
        };
        let attempts = outstanding_attempts(&self.id, &element);
        let keys = attempts.iter().map(|(_, key)| key.clone()).collect();
        let whereabouts = self.pool.whereabouts(keys);
        tokio::spawn(async move {
            let places = attempts.into_iter().zip(whereabouts.await);
            let places = places.filter_map(|((path, _), place)| Some((path, place?))).collect();
            complete(&mut element, &places, depth, forwards).await;
            let _ = answer.send(Ok(element));
        });
    }

    fn find_element(&self, path: &str, depth: u32) -> Result<v1::Element, Rejection> {
        let engine = self.driver.engine();
        let ended = || Rejection::NoSuchElement(format!("{path} has ended or not begun").into());
        let mut element = self.element(engine.find(path)?.ok_or_else(ended)?, depth);
        if *path == **engine.id() {
            element.usage = self.driver.history(0).usage(engine.program());
        }
        Ok(element)
    }

    /// The recursion is bounded by the requested depth, and the size by [`MAX_SHOWN_CHILDREN`].
    fn element(&self, id: ElementId, depth: u32) -> v1::Element {
        let Some(view) = self.driver.engine().view(id) else { return v1::Element::default() };
        let mut element = describe(&view);
        element.element = id.bits();
        if depth > 0 {
            let shown = view.children.iter().take(MAX_SHOWN_CHILDREN);
            let shown = shown.map(|child| {
                let mut child = self.element(*child, depth - 1);
                child.failure.as_mut().map(cut_failure);
                child
            });
            element.children = shown.collect();
            element.hidden = view.children.len().saturating_sub(MAX_SHOWN_CHILDREN) as u32;
        }
        element
    }
}

/// Paths and keys of the outstanding attempts in an element.
fn outstanding_attempts(process: &Arc<str>, element: &v1::Element) -> Vec<(String, AttemptKey)> {
    let mut found = Vec::new();
    let mut pending = vec![element];
    while let Some(element) = pending.pop() {
        if (element.tag == "ACTIVITY" && element.condition() != v1::Condition::Ready) || element.delegated {
            found.push((element.path.clone(), AttemptKey::new(process.clone(), element.element, element.attempts)));
        }
        pending.extend(&element.children);
    }
    found
}

/// Fills in the workers that run activities, and the content of subtrees at other coordinators.
async fn complete(element: &mut v1::Element, places: &HashMap<String, Whereabouts>, depth: u32, forwards: u32) {
    let mut pending = vec![(element, depth)];
    while let Some((element, depth)) = pending.pop() {
        if let Some(Whereabouts::Waits(reason)) = places.get(&element.path) {
            element.wait_reason = Some(reason.clone());
        }
        if let Some(Whereabouts::At { name, address, silent }) = places.get(&element.path) {
            element.worker = name.to_string();
            let silent = silent.filter(|silent| element.delegated && *silent > SILENT_AFTER);
            if let Some(silent) = silent {
                element.wait_reason =
                    Some(v1::wait_reason::Kind::CoordinatorSilentMs(silent.as_millis() as u64).into());
            }
            if element.delegated
                && forwards < MAX_FORWARDS
                && silent.is_none()
                && let Some(remote) = remote_element(address, &element.path, depth, forwards + 1).await
            {
                element.children = remote.children;
                element.hidden = remote.hidden;
                element.completed = remote.completed;
                element.failed = remote.failed;
                element.cancelled = remote.cancelled;
                element.total = remote.total;
                continue;
            }
        }
        pending.extend(element.children.iter_mut().map(|child| (child, depth.saturating_sub(1))));
    }
}

async fn remote_element(address: &str, path: &str, depth: u32, forwards: u32) -> Option<v1::Element> {
    let channel = connect(address).await.ok()?;
    let client = ProcessCoordinatorClient::new(channel);
    let mut client = client.max_decoding_message_size(xavantes_proto::MAX_MESSAGE_BYTES);
    let request = v1::ShowRequest { path: path.to_owned(), depth, forwards };
    let shown = call_with_timeout(async {
        let parts = client.show(request).await?.into_inner();
        receive::<v1::ShowResponse>(parts, MAX_REMOTE_BYTES).await.map(Response::new)
    });
    shown.await.ok()?.element
}

fn describe(view: &View) -> v1::Element {
    let (condition, why) = match &view.condition {
        Condition::Absent => (v1::Condition::Absent, None),
        Condition::Ready => (v1::Condition::Ready, None),
        Condition::Running => (v1::Condition::Running, None),
        Condition::Stopping => (v1::Condition::Stopping, None),
        Condition::Waiting(_, why) => (v1::Condition::Waiting, Some(failure(why))),
        Condition::Held(why) => (v1::Condition::Held, Some(failure(why))),
    };
    v1::Element {
        path: view.path.clone(),
        tag: view.tag.into(),
        r#type: view.type_name.clone().unwrap_or_default(),
        condition: condition.into(),
        paused: view.paused,
        delegated: view.delegated,
        attempts: view.attempts,
        completed: view.ended.map(|ended| ended.completed),
        failed: view.ended.map(|ended| ended.failed),
        cancelled: view.ended.map(|ended| ended.cancelled),
        total: view.total,
        failure: why,
        ..v1::Element::default()
    }
}
