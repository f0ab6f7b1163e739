//! The elements of a running process, as `show` presents them: from the engine, the pool, and other coordinators.

use std::time::Duration;

use tonic::Response;
use xavantes_engine::{CurrentBounds, ElementId, ElementState, PendingElement, Rejection, Time, View, WaitsFor};
use xavantes_model::value::Value;
use xavantes_proto::v1::process_coordinator_client::ProcessCoordinatorClient;
use xavantes_proto::{call_with_timeout, connect, receive, v1};

use crate::cache::shown_value::{shorten, show_value};
use crate::engine_messages::failure;
use crate::process::element_states::{ElementStates, LeafState, wait_reason};
use crate::process::handle::ElementSender;
use crate::process::owner::MAX_FORWARDS;
use crate::process::process_history::failed;
use crate::process::runner::Runner;
use crate::process::shortened_views::cut_failure;

/// Upper bound on the shown children of one element.
pub(crate) const MAX_SHOWN_CHILDREN: usize = 100;
/// Upper bound on the shown parameters of an element.
const MAX_SHOWN_PARAMETERS: usize = 100;
/// Upper bound on the live elements that are counted.
const MAX_COUNTED: usize = 200_000;
/// Upper bound on the bytes of a subtree at another coordinator.
const MAX_REMOTE_BYTES: usize = 64 << 20;
/// Another coordinator counts as silent after this time.
const SILENT_AFTER: Duration = Duration::from_secs(5);

impl Runner {
    /// Answers with the element at a path, completed in the background by what the pool and other coordinators know.
    pub(super) fn on_show(&self, path: &str, depth: u32, forwards: u32, answer: ElementSender) {
        let (mut element, id) = match self.find_element(path, depth) {
            Ok(found) => found,
            Err(rejection) => return drop(answer.send(Err(rejection))),
        };
        let Some(id) = id else { return drop(answer.send(Ok(element))) };
        let mut states =
            ElementStates::new(&self.id, &self.driver, self.driver.engine().live_elements(id, MAX_COUNTED));
        let whereabouts = self.pool.whereabouts(states.keys());
        tokio::spawn(async move {
            states.on_whereabouts(whereabouts.await);
            complete(&mut element, &mut states, depth, forwards).await;
            states.add_up();
            apply_states(&mut element, &states);
            let _ = answer.send(Ok(element));
        });
    }

    /// The element at a path. One that has not begun has no id.
    fn find_element(&self, path: &str, depth: u32) -> Result<(v1::Element, Option<ElementId>), Rejection> {
        let engine = self.driver.engine();
        let Some(id) = engine.find(path)? else {
            let pending =
                engine.find_pending(path).map(|pending| (describe_pending(pending, self.driver.has_workers()), None));
            return pending.ok_or_else(|| Rejection::NoSuchElement(format!("{path} has ended or not begun").into()));
        };
        let mut element = self.element(id, depth);
        let history = self.driver.history(self.status.borrow().submitted_ms);
        let is_process = *path == **engine.id();
        if is_process {
            element.usage = history.usage(engine.program());
        }
        if depth == 0 {
            let remarks = history.to_wire().remarks.into_iter();
            element.remarks = remarks.filter(|remark| is_process || remark.path == element.path).collect();
            for failure in element.remarks.iter_mut().filter_map(failed) {
                self.driver.name_files(failure);
            }
            let shown =
                engine.inputs(id).map(|(variable, value)| shown_parameter(&variable.name, value, variable.secret));
            (element.inputs, element.more_parameters) = bounded_parameters(shown);
            element.bounds = engine.bounds(id).map(wire_bounds);
        }
        Ok((element, Some(id)))
    }

    /// The recursion is bounded by the requested depth, and the size by [`MAX_SHOWN_CHILDREN`].
    fn element(&self, id: ElementId, depth: u32) -> v1::Element {
        let Some(view) = self.driver.engine().view(id) else { return v1::Element::default() };
        let mut element = self.describe(&view);
        element.element = id.bits();
        if depth > 0 {
            let shown = view.children.iter().take(MAX_SHOWN_CHILDREN);
            let shown = shown.map(|child| {
                let mut child = self.element(*child, depth - 1);
                child.failure.as_mut().map(cut_failure);
                child
            });
            element.children = shown.collect();
            let mut pending = self.driver.engine().pending(id).map(|(_, pending)| pending);
            let space = MAX_SHOWN_CHILDREN - element.children.len();
            element.children.extend(
                pending.by_ref().take(space).map(|pending| describe_pending(pending, self.driver.has_workers())),
            );
            let hidden = view.children.len().saturating_sub(MAX_SHOWN_CHILDREN) + pending.count();
            element.hidden = hidden as u32;
        }
        element
    }

    fn describe(&self, view: &View) -> v1::Element {
        let (state, wait_reason, mut failure) = wire_state(&view.state, self.driver.now(), self.driver.has_workers());
        if let Some(failure) = &mut failure {
            self.driver.name_files(failure);
        }
        let started_ms = self.status.borrow().submitted_ms;
        v1::Element {
            path: view.path.clone(),
            tag: view.tag.into(),
            r#type: view.type_name.clone().unwrap_or_default(),
            state: state.into(),
            wait_reason,
            paused: view.paused,
            delegated: view.delegated,
            attempts: view.attempts,
            began_ms: started_ms.saturating_add(view.began.0),
            completed: view.ended.map(|ended| ended.completed),
            failed: view.ended.map(|ended| ended.failed),
            cancelled: view.ended.map(|ended| ended.cancelled),
            total: view.total,
            failure,
            ..v1::Element::default()
        }
    }
}

/// Fills in the content of subtrees at other coordinators.
async fn complete(element: &mut v1::Element, states: &mut ElementStates, depth: u32, forwards: u32) {
    let mut pending = vec![(element, depth)];
    while let Some((element, depth)) = pending.pop() {
        if let Some(address) = states.subtree_address(element.element, SILENT_AFTER).map(str::to_owned)
            && element.delegated
            && forwards < MAX_FORWARDS
            && let Some(remote) = remote_element(&address, &element.path, depth, forwards + 1).await
        {
            let reported = LeafState { state: remote.state(), wait_reason: remote.wait_reason, ..LeafState::default() };
            states.set(element.element, reported, remote.live.unwrap_or_default());
            element.children = remote.children;
            element.hidden = remote.hidden;
            element.completed = remote.completed;
            element.failed = remote.failed;
            element.cancelled = remote.cancelled;
            element.total = remote.total;
            element.failure = element.failure.take().or(remote.failure);
            // The other coordinator has counted them.
            continue;
        }
        pending.extend(element.children.iter_mut().map(|child| (child, depth.saturating_sub(1))));
    }
}

/// Writes states, counts and places into the elements of this coordinator.
fn apply_states(element: &mut v1::Element, states: &ElementStates) {
    let mut pending = vec![element];
    while let Some(element) = pending.pop() {
        states.apply(element);
        if !element.delegated {
            pending.extend(&mut element.children);
        }
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

/// The state of an element as the engine knows it, what it waits for, and why it failed.
fn wire_state(
    state: &ElementState,
    now: Time,
    has_workers: bool,
) -> (v1::State, Option<v1::WaitReason>, Option<v1::Failure>) {
    match state {
        ElementState::Waiting(waits_for) => {
            let failed = match waits_for {
                WaitsFor::Retry(_, why) => Some(failure(why)),
                _ => None,
            };
            (v1::State::Waiting, Some(wait_reason(waits_for, now, has_workers)), failed)
        }
        ElementState::Outstanding | ElementState::Running => (v1::State::Running, None, None),
        ElementState::Paused => (v1::State::Paused, None, None),
        ElementState::Held(why) => (v1::State::Held, None, Some(failure(why))),
        ElementState::Stopping => (v1::State::Stopping, None, None),
    }
}

fn wire_bounds(bounds: CurrentBounds) -> v1::CurrentBounds {
    v1::CurrentBounds {
        from: bounds.counter.map(|(from, ..)| from),
        to: bounds.counter.map(|(_, to, _)| to),
        step: bounds.counter.map(|(.., step)| step),
        max_parallel: bounds.max_parallel,
        join: bounds.join,
        exit_condition: bounds.exit_condition.map(|text| shorten(&text)).unwrap_or_default(),
    }
}

/// A parameter as people see it.
pub(crate) fn shown_parameter(name: &str, value: &Value, secret: bool) -> v1::ShownParameter {
    let text = if secret { String::new() } else { show_value(value) };
    v1::ShownParameter { name: name.to_owned(), text, hidden: secret }
}

/// As many parameters as are shown, and the number of the others.
pub(crate) fn bounded_parameters(
    mut parameters: impl Iterator<Item = v1::ShownParameter>,
) -> (Vec<v1::ShownParameter>, u32) {
    let shown = parameters.by_ref().take(MAX_SHOWN_PARAMETERS).collect();
    (shown, parameters.count() as u32)
}

fn describe_pending(pending: PendingElement, has_workers: bool) -> v1::Element {
    v1::Element {
        path: pending.path,
        tag: pending.tag.into(),
        r#type: pending.type_name.unwrap_or_default(),
        state: v1::State::Waiting.into(),
        wait_reason: Some(wait_reason(&pending.waits_for, Time(0), has_workers)),
        element: NOT_BEGUN,
        ..v1::Element::default()
    }
}

/// The number of an element that has none yet.
const NOT_BEGUN: u64 = u64::MAX;
