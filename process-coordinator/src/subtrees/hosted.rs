//! Subtrees of other coordinators' processes that run here: the books. To their parents they are attempts, like
//! activities; here they are processes like any other, with a parent. Without I/O, clock or threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use xavantes_engine::{Outcome, Root};
use xavantes_model::definition::{NodeId, Program};
use xavantes_model::value::Value;
use xavantes_proto::{Epochs, MAX_PAYLOAD_BYTES, Message, too_large, v1, value};

use crate::attempt::AttemptKey;
use crate::convert::failure;
use crate::process::history::Past;

pub use crate::convert::start_from;

/// A coordinator that hands subtrees over: its group and node, and the realm that its processes are kept in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Caller {
    /// `group/node`.
    pub node: Arc<str>,
    /// Keys are unique in it.
    pub realm: Arc<str>,
}

impl std::fmt::Display for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}#{}", self.node, self.realm)
    }
}

impl Caller {
    /// The caller that is written so.
    pub fn parse(text: &str) -> Option<Self> {
        let (node, realm) = text.rsplit_once('#')?;
        Some(Self { node: node.into(), realm: realm.into() })
    }
}

#[derive(Debug, Clone)]
struct Child {
    /// Who hears of it.
    caller: Caller,
    /// The process that runs, or ran, it here.
    process: Arc<str>,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Running,
    /// Kept until it was acknowledged.
    Over(Box<v1::Answer>),
    /// Another coordinator has it, and the parent may not know yet. To the parent that is as if it ran here: it is not
    /// lost, and soon the parent hears where it is.
    Away,
}

/// What becomes of a subtree that arrives.
#[derive(Debug, Clone, PartialEq)]
pub enum Arrival {
    /// It is to begin.
    New,
    /// It runs already.
    Runs,
    /// It is over: the answer, once more.
    Over(Box<v1::Answer>),
}

/// All subtrees that run here for others, by realm and attempt.
#[derive(Debug, Default)]
pub struct Books {
    children: BTreeMap<(Arc<str>, AttemptKey), Child>,
    /// Of the parents' processes.
    epochs: Epochs,
}

/// What the process is called that runs a subtree: the path, for people, and what no other attempt has.
pub fn name(caller: &Caller, AttemptKey { process, element, attempt }: &AttemptKey, path: &str) -> Arc<str> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(caller.realm.as_bytes()).update(&[0]).update(process.as_bytes()).update(&[0]);
    hasher.update(&element.to_le_bytes()).update(&attempt.to_le_bytes());
    format!("{path}@{}", &hasher.finalize().to_hex()[..12]).into()
}

/// The path in the name of a process that runs a subtree; any other process begins its paths with its id.
pub(crate) fn path(process: &str, is_subtree: bool) -> &str {
    process.rsplit_once('@').filter(|_| is_subtree).map_or(process, |(path, _)| path)
}

fn place(caller: &Caller, key: &AttemptKey) -> (Arc<str>, AttemptKey) {
    (caller.realm.clone(), key.clone())
}

impl Books {
    /// What runs here for a coordinator, and the answers that it may have missed.
    pub fn of(&self, caller: &Caller) -> (Vec<v1::AttemptId>, Vec<v1::Answer>) {
        self.known(|child, _| child.caller == *caller)
    }

    /// A coordinator has taken processes over: their subtrees are its own now, unless another one has taken them since.
    /// Gives the processes for which that holds, and what is known of them.
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
        for ((realm, key), child) in &mut self.children {
            if claimed(realm, key) {
                child.caller = caller.clone();
            }
        }
        let (running, answers) = self.known(|_, (realm, key)| claimed(realm, key));
        (processes, running, answers)
    }

    fn known(&self, which: impl Fn(&Child, &(Arc<str>, AttemptKey)) -> bool) -> (Vec<v1::AttemptId>, Vec<v1::Answer>) {
        let (mut running, mut answers) = (Vec::new(), Vec::new());
        for (place, child) in self.children.iter().filter(|(place, child)| which(child, place)) {
            match &child.state {
                State::Running | State::Away => running.push(place.1.to_wire()),
                State::Over(answer) => answers.push(v1::Answer::clone(answer)),
            }
        }
        (running, answers)
    }

    /// A coordinator begins anew with nothing: what it handed over before is no longer wanted. Gives the processes that
    /// ran for it, and whether they still do.
    pub fn retire(&mut self, caller: &Caller) -> Vec<(Arc<str>, bool)> {
        let mut gone = Vec::new();
        self.children.retain(|_, child| {
            let former = child.caller.node == caller.node && child.caller.realm != caller.realm;
            match child.state {
                _ if !former => {}
                State::Running => gone.push((child.process.clone(), true)),
                State::Over(_) => gone.push((child.process.clone(), false)),
                State::Away => {}
            }
            !former
        });
        gone
    }

    /// A subtree arrives, from a process in that epoch.
    pub fn arrive(&mut self, caller: &Caller, key: &AttemptKey, process: &Arc<str>, epoch: u64) -> Arrival {
        match self.children.get(&place(caller, key)) {
            // Of a coordinator that has lost the parent.
            None if !self.epochs.counts(&caller.realm, &key.process, epoch) => Arrival::Runs,
            None => {
                self.restore(caller, key, process);
                Arrival::New
            }
            Some(Child { state: State::Running | State::Away, .. }) => Arrival::Runs,
            Some(Child { state: State::Over(answer), .. }) => Arrival::Over(answer.clone()),
        }
    }

    /// One that was kept, and goes on here.
    pub fn restore(&mut self, caller: &Caller, key: &AttemptKey, process: &Arc<str>) {
        let child = Child { caller: caller.clone(), process: process.clone(), state: State::Running };
        self.children.insert(place(caller, key), child);
    }

    /// One that another coordinator has.
    pub fn leave(&mut self, caller: &Caller, key: &AttemptKey, process: &Arc<str>) {
        let child = Child { caller: caller.clone(), process: process.clone(), state: State::Away };
        self.children.entry(place(caller, key)).or_insert(child).state = State::Away;
    }

    /// A parent wants something of the process that runs a subtree here, if it does.
    pub fn process(&self, caller: &Caller, key: &AttemptKey) -> Option<Arc<str>> {
        let child = self.children.get(&place(caller, key)).filter(|child| child.caller == *caller)?;
        matches!(child.state, State::Running).then(|| child.process.clone())
    }

    /// A parent wants a subtree to stop: gives the process, if it runs here.
    pub fn cancel(&mut self, caller: &Caller, key: &AttemptKey) -> Option<Arc<str>> {
        let found = self.process(caller, key);
        let place = place(caller, key);
        if self.children.get(&place).is_some_and(|it| it.caller == *caller && matches!(it.state, State::Away)) {
            self.children.remove(&place);
        }
        found
    }

    /// It is over: gives who is to hear of it, unless nobody wants the answer any more.
    pub fn finish(&mut self, caller: &Caller, key: &AttemptKey, answer: v1::Answer) -> Option<Caller> {
        let child = self.children.get_mut(&place(caller, key))?;
        child.state = State::Over(Box::new(answer));
        Some(child.caller.clone())
    }

    /// Who hears of it now, if it runs here, or is over and the answer was not acknowledged.
    pub fn caller(&self, caller: &Caller, key: &AttemptKey) -> Option<Caller> {
        let child = self.children.get(&place(caller, key))?;
        (!matches!(child.state, State::Away)).then(|| child.caller.clone())
    }

    /// It leaves no trace, and may come again. Gives the process that is over.
    pub fn remove(&mut self, caller: &Caller, key: &AttemptKey) -> Option<Arc<str>> {
        let child = self.children.remove(&place(caller, key))?;
        matches!(child.state, State::Over(_)).then_some(child.process)
    }

    /// The parent has an answer: gives the process, which nobody needs any more.
    pub fn acknowledge(&mut self, caller: &Caller, key: &AttemptKey) -> Option<Arc<str>> {
        let child = self.children.get(&place(caller, key))?;
        if child.caller != *caller || !matches!(child.state, State::Over(_)) {
            return None;
        }
        self.remove(caller, key)
    }
}

/// What a parent hears of the end: results in the order of the root's signature.
pub fn answer(
    program: &Program,
    root: Root,
    outcome: &Outcome,
    results: &BTreeMap<Arc<str>, Value>,
) -> v1::answer::Outcome {
    match outcome {
        Outcome::Completed => {
            let process = &program.processes[root.process];
            let signature = if root.node == NodeId::BODY {
                process.parameters()
            } else {
                &process.nodes[root.node.index()].variables[..]
            };
            let outs = signature.iter().filter(|variable| variable.direction.is_out());
            let nothing = Value::Null;
            let results = outs.map(|variable| value(results.get(&variable.name).unwrap_or(&nothing)));
            v1::answer::Outcome::Completed(v1::Completed { results: results.collect() })
        }
        Outcome::Failed(why) => v1::answer::Outcome::Failed(failure(why)),
        Outcome::Cancelled | Outcome::Restart => v1::answer::Outcome::Cancelled(v1::Nothing {}),
    }
}

/// An answer that can be sent: one that is too large leaves out how files were made, or is a failure instead.
pub fn sendable(
    key: &AttemptKey,
    process: &str,
    outcome: v1::answer::Outcome,
    counts: v1::Counts,
    past: &Past,
    recipes: Vec<v1::Recipe>,
) -> v1::Answer {
    let mut answer = v1::Answer {
        id: Some(key.to_wire()),
        outcome: Some(outcome),
        counts: Some(counts),
        history: Some(Box::new(past.to_wire())),
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
