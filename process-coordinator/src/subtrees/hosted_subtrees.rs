//! Hosted subtrees: subtrees of other coordinators' processes that run here. For their parents they are attempts, like
//! activities; here they are processes like any other, with a parent. Without I/O, clock or threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use xavantes_engine::{Outcome, Root};
use xavantes_model::definition::{DefinitionNodeId, Program};
use xavantes_model::value::Value;
use xavantes_proto::{Epochs, MAX_PAYLOAD_BYTES, Message, too_large, v1, value};

use crate::engine_messages::failure;
use crate::process::process_history::ProcessHistory;
use xavantes_proto::AttemptKey;

pub use crate::engine_messages::start_from;

/// A coordinator that delegates subtrees to this one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Caller {
    /// Its group and node: `group/node`.
    pub node: Arc<str>,
    /// Realm of its processes; attempt keys are unique in a realm.
    pub realm: Arc<str>,
}

impl std::fmt::Display for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}#{}", self.node, self.realm)
    }
}

impl Caller {
    /// The coordinator that says this hello.
    pub fn of(hello: &v1::CoordinatorHello) -> Self {
        Self { node: format!("{}/{}", hello.group, hello.node).into(), realm: hello.realm.as_str().into() }
    }

    /// Parses what `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        let (node, realm) = text.rsplit_once('#')?;
        Some(Self { node: node.into(), realm: realm.into() })
    }
}

#[derive(Debug, Clone)]
struct HostedSubtree {
    /// Coordinator that gets the answer.
    caller: Caller,
    /// Process that runs, or ran, the subtree here.
    process: Arc<str>,
    state: HostedState,
}

#[derive(Debug, Clone)]
enum HostedState {
    Running,
    /// Ended; the answer waits for its acknowledgement.
    Ended(Box<v1::Answer>),
    /// Another coordinator runs it, and the parent may not know that yet. Reported to the parent as if it ran here, so
    /// that the parent does not take it for lost before it learns the new place.
    Moved,
}

/// What to do with a subtree that arrives.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrival {
    /// Start it.
    New,
    /// Nothing: it runs already, or the caller has lost the parent process.
    Known,
    /// Send its answer once more: it has ended.
    Ended(Box<v1::Answer>),
}

/// All hosted subtrees of a coordinator.
#[derive(Debug, Default)]
pub struct HostedSubtrees {
    /// By realm and attempt.
    subtrees: BTreeMap<(Arc<str>, AttemptKey), HostedSubtree>,
    /// Latest epochs of the parent processes.
    epochs: Epochs,
}

/// Id of the process that runs a subtree: its path, for people, and a hash that no other attempt has.
pub fn process_id(caller: &Caller, AttemptKey { process, element, attempt }: &AttemptKey, path: &str) -> Arc<str> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(caller.realm.as_bytes()).update(&[0]).update(process.as_bytes()).update(&[0]);
    hasher.update(&element.to_le_bytes()).update(&attempt.to_le_bytes());
    format!("{path}@{}", &hasher.finalize().to_hex()[..12]).into()
}

/// Path with which the paths of a process's elements begin: its id, or the path in the id of a subtree.
pub(crate) fn path_of(process: &str, is_subtree: bool) -> &str {
    process.rsplit_once('@').filter(|_| is_subtree).map_or(process, |(path, _)| path)
}

fn index(caller: &Caller, key: &AttemptKey) -> (Arc<str>, AttemptKey) {
    (caller.realm.clone(), key.clone())
}

impl HostedSubtrees {
    /// The attempts of a coordinator that run here, and the answers that it may have missed.
    pub fn known_to(&self, caller: &Caller) -> (Vec<v1::AttemptId>, Vec<v1::Answer>) {
        self.select(|subtree, _| subtree.caller == *caller)
    }

    /// A coordinator has taken over processes: it gets the answers of their subtrees, unless another coordinator has
    /// claimed them in a later epoch. Gives the processes that it got, their running attempts and their answers.
    pub fn claim(
        &mut self,
        caller: &Caller,
        claims: Vec<v1::Claim>,
    ) -> (Vec<String>, Vec<v1::AttemptId>, Vec<v1::Answer>) {
        let claims = claims.into_iter().filter(|it| self.epochs.claim(&caller.realm, &it.process, it.epoch));
        let processes: Vec<String> = claims.map(|claim| claim.process).collect();
        let claimed = |realm: &Arc<str>, key: &AttemptKey| {
            *realm == caller.realm && processes.iter().any(|process| **process == *key.process)
        };
        for ((realm, key), subtree) in &mut self.subtrees {
            if claimed(realm, key) {
                subtree.caller = caller.clone();
            }
        }
        let (running, answers) = self.select(|_, (realm, key)| claimed(realm, key));
        (processes, running, answers)
    }

    /// The attempts of a coordinator that run here, each with the process that runs it.
    pub fn running_for(&self, caller: &Caller) -> Vec<(v1::AttemptId, Arc<str>)> {
        let own = self.subtrees.iter().filter(|(_, it)| it.caller == *caller);
        let running = own.filter(|(_, it)| matches!(it.state, HostedState::Running));
        running.map(|((_, key), it)| (key.to_wire(), it.process.clone())).collect()
    }

    fn select(
        &self,
        predicate: impl Fn(&HostedSubtree, &(Arc<str>, AttemptKey)) -> bool,
    ) -> (Vec<v1::AttemptId>, Vec<v1::Answer>) {
        let (mut running, mut answers) = (Vec::new(), Vec::new());
        for (index, subtree) in self.subtrees.iter().filter(|(index, subtree)| predicate(subtree, index)) {
            match &subtree.state {
                HostedState::Running | HostedState::Moved => running.push(index.1.to_wire()),
                HostedState::Ended(answer) => answers.push(v1::Answer::clone(answer)),
            }
        }
        (running, answers)
    }

    /// A coordinator has started with a new realm: it no longer wants the subtrees of the old one. Gives their processes,
    /// and whether they still run.
    pub fn retire(&mut self, caller: &Caller) -> Vec<(Arc<str>, bool)> {
        let mut gone = Vec::new();
        self.subtrees.retain(|_, subtree| {
            let former = subtree.caller.node == caller.node && subtree.caller.realm != caller.realm;
            match subtree.state {
                _ if !former => {}
                HostedState::Running => gone.push((subtree.process.clone(), true)),
                HostedState::Ended(_) => gone.push((subtree.process.clone(), false)),
                HostedState::Moved => {}
            }
            !former
        });
        gone
    }

    /// A subtree of a process in this epoch arrives.
    pub fn arrive(&mut self, caller: &Caller, key: &AttemptKey, process: &Arc<str>, epoch: u64) -> Arrival {
        match self.subtrees.get(&index(caller, key)) {
            // The caller has lost the parent process.
            None if !self.epochs.counts(&caller.realm, &key.process, epoch) => Arrival::Known,
            None => {
                self.restore(caller, key, process);
                Arrival::New
            }
            Some(HostedSubtree { state: HostedState::Running | HostedState::Moved, .. }) => Arrival::Known,
            Some(HostedSubtree { state: HostedState::Ended(answer), .. }) => Arrival::Ended(answer.clone()),
        }
    }

    /// A subtree runs here, perhaps after a recovery.
    pub fn restore(&mut self, caller: &Caller, key: &AttemptKey, process: &Arc<str>) {
        let state = HostedState::Running;
        let subtree = HostedSubtree { caller: caller.clone(), process: process.clone(), state };
        self.subtrees.insert(index(caller, key), subtree);
    }

    /// Another coordinator runs a subtree.
    pub fn leave(&mut self, caller: &Caller, key: &AttemptKey, process: &Arc<str>) {
        let state = HostedState::Moved;
        let subtree = HostedSubtree { caller: caller.clone(), process: process.clone(), state: state.clone() };
        self.subtrees.entry(index(caller, key)).or_insert(subtree).state = state;
    }

    /// The processes that other coordinators run, as far as this one knows.
    pub fn moved(&self) -> Vec<Arc<str>> {
        let moved = self.subtrees.values().filter(|subtree| matches!(subtree.state, HostedState::Moved));
        moved.map(|subtree| subtree.process.clone()).collect()
    }

    /// A process that moved has ended, and its journal is gone. Either its parent has the answer, and acknowledges this one,
    /// too. Or the coordinator that ran the process lost the answer, and the parent still waits: then the subtree is
    /// cancelled. Gives the coordinator of the parent and the answer for it.
    pub fn end_moved(&mut self, process: &str) -> Option<(Caller, v1::Answer)> {
        let moved = |it: &HostedSubtree| *it.process == *process && matches!(it.state, HostedState::Moved);
        let ((_, key), subtree) = self.subtrees.iter_mut().find(|(_, subtree)| moved(subtree))?;
        let (counts, history) = (v1::Counts::default(), ProcessHistory::default());
        let cancelled = v1::answer::Outcome::Cancelled(v1::Nothing {});
        let answer = answer(key, process, cancelled, counts, &history, Vec::new());
        subtree.state = HostedState::Ended(Box::new(answer.clone()));
        Some((subtree.caller.clone(), answer))
    }

    /// The process that runs a subtree of this caller here.
    pub fn process(&self, caller: &Caller, key: &AttemptKey) -> Option<Arc<str>> {
        let subtree = self.subtrees.get(&index(caller, key)).filter(|it| it.caller == *caller)?;
        matches!(subtree.state, HostedState::Running).then(|| subtree.process.clone())
    }

    /// The caller cancels a subtree: gives the process, if it runs here.
    pub fn cancel(&mut self, caller: &Caller, key: &AttemptKey) -> Option<Arc<str>> {
        let found = self.process(caller, key);
        let index = index(caller, key);
        let moved = |it: &HostedSubtree| it.caller == *caller && matches!(it.state, HostedState::Moved);
        if self.subtrees.get(&index).is_some_and(moved) {
            self.subtrees.remove(&index);
        }
        found
    }

    /// A subtree has ended: gives the coordinator that gets the answer, unless none waits for it.
    pub fn finish(&mut self, caller: &Caller, key: &AttemptKey, answer: v1::Answer) -> Option<Caller> {
        let subtree = self.subtrees.get_mut(&index(caller, key))?;
        subtree.state = HostedState::Ended(Box::new(answer));
        Some(subtree.caller.clone())
    }

    /// The coordinator that gets the answer now, if the subtree runs here, or has ended without an acknowledgement.
    pub fn caller(&self, caller: &Caller, key: &AttemptKey) -> Option<Caller> {
        let subtree = self.subtrees.get(&index(caller, key))?;
        (!matches!(subtree.state, HostedState::Moved)).then(|| subtree.caller.clone())
    }

    /// Forgets a subtree, which may arrive again. Gives its process, if that has ended.
    pub fn remove(&mut self, caller: &Caller, key: &AttemptKey) -> Option<Arc<str>> {
        let subtree = self.subtrees.remove(&index(caller, key))?;
        matches!(subtree.state, HostedState::Ended(_)).then_some(subtree.process)
    }

    /// The caller has recorded the answer: gives the process, which can be removed.
    pub fn acknowledge(&mut self, caller: &Caller, key: &AttemptKey) -> Option<Arc<str>> {
        let subtree = self.subtrees.get(&index(caller, key))?;
        if subtree.caller != *caller || !matches!(subtree.state, HostedState::Ended(_)) {
            return None;
        }
        self.remove(caller, key)
    }
}

/// The outcome that the parent gets: results in the order of the root's signature.
pub fn outcome(
    program: &Program,
    root: Root,
    outcome: &Outcome,
    results: &BTreeMap<Arc<str>, Value>,
) -> v1::answer::Outcome {
    match outcome {
        Outcome::Completed => {
            let process = &program.processes[root.process];
            let signature = if root.node == DefinitionNodeId::BODY {
                process.parameters()
            } else {
                &process.nodes[root.node.index()].variables[..]
            };
            let outs = signature.iter().filter(|variable| variable.direction.is_out());
            let null = Value::Null;
            let results = outs.map(|variable| value(results.get(&variable.name).unwrap_or(&null)));
            v1::answer::Outcome::Completed(v1::Completed { results: results.collect() })
        }
        Outcome::Failed(why) => v1::answer::Outcome::Failed(failure(why)),
        Outcome::Cancelled | Outcome::Restart => v1::answer::Outcome::Cancelled(v1::Nothing {}),
    }
}

/// The answer of a subtree with its memo, if that fits in.
pub(crate) fn with_memo(mut answer: v1::Answer, (memo, left_out): (Vec<u8>, u64)) -> v1::Answer {
    answer.memo_left_out = left_out;
    if answer.encoded_len() + memo.len() <= MAX_PAYLOAD_BYTES {
        answer.memo = memo;
    }
    answer
}

/// The answer of a subtree. One that is too large to send leaves out the recipes, or reports a failure instead.
pub fn answer(
    key: &AttemptKey,
    process: &str,
    outcome: v1::answer::Outcome,
    counts: v1::Counts,
    history: &ProcessHistory,
    recipes: Vec<v1::Recipe>,
) -> v1::Answer {
    let mut answer = v1::Answer {
        id: Some(key.to_wire()),
        outcome: Some(outcome),
        counts: Some(counts),
        history: Some(Box::new(history.to_wire())),
        recipes,
        ..v1::Answer::default()
    };
    if answer.encoded_len() > MAX_PAYLOAD_BYTES {
        answer.recipes.clear();
    }
    let size = answer.encoded_len();
    if size <= MAX_PAYLOAD_BYTES {
        return answer;
    }
    let failure = v1::Failure {
        kind: v1::FailureKind::Limit.into(),
        message: too_large("its results", size),
        path: process.to_owned(),
        ..v1::Failure::default()
    };
    v1::Answer { outcome: Some(v1::answer::Outcome::Failed(failure)), ..answer }
}
