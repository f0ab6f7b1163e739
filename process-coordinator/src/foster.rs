//! Subtrees of other coordinators' processes that run here: the books. To their parents they are attempts, like
//! activities; here they are processes like any other, with a parent. Without I/O, clock or threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use xavantes_engine::{Outcome, Root};
use xavantes_model::definition::{NodeId, Program};
use xavantes_model::value::Value;
use xavantes_proto::{MAX_LARGE, Message, too_large, v1, value};

use crate::convert::failure;
use crate::pool::{Key, wire_id};

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
    /// Kept until it was acknowledged.
    answer: Option<Box<v1::Answer>>,
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
pub struct Books(BTreeMap<(Arc<str>, Key), Child>);

fn place(caller: &Caller, key: &Key) -> (Arc<str>, Key) {
    (caller.realm.clone(), key.clone())
}

impl Books {
    /// What runs here for a coordinator, and the answers that it may have missed.
    pub fn of(&self, caller: &Caller) -> (Vec<v1::AttemptId>, Vec<v1::Answer>) {
        self.known(|child, _| child.caller == *caller)
    }

    /// A coordinator has taken processes over: their subtrees are its own now. What is known of them.
    pub fn claim(&mut self, caller: &Caller, processes: &[String]) -> (Vec<v1::AttemptId>, Vec<v1::Answer>) {
        let claimed =
            |realm: &Arc<str>, key: &Key| *realm == caller.realm && processes.iter().any(|process| **process == *key.0);
        for ((realm, key), child) in &mut self.0 {
            if claimed(realm, key) {
                child.caller = caller.clone();
            }
        }
        self.known(|_, (realm, key)| claimed(realm, key))
    }

    fn known(&self, which: impl Fn(&Child, &(Arc<str>, Key)) -> bool) -> (Vec<v1::AttemptId>, Vec<v1::Answer>) {
        let (mut running, mut answers) = (Vec::new(), Vec::new());
        for (place, child) in self.0.iter().filter(|(place, child)| which(child, place)) {
            match &child.answer {
                None => running.push(wire_id(&place.1)),
                Some(answer) => answers.push(v1::Answer::clone(answer)),
            }
        }
        (running, answers)
    }

    /// A coordinator begins anew with nothing: what it handed over before is no longer wanted. Gives the processes that
    /// ran for it, and whether they still do.
    pub fn retire(&mut self, caller: &Caller) -> Vec<(Arc<str>, bool)> {
        let mut gone = Vec::new();
        self.0.retain(|_, child| {
            let former = child.caller.node == caller.node && child.caller.realm != caller.realm;
            if former {
                gone.push((child.process.clone(), child.answer.is_none()));
            }
            !former
        });
        gone
    }

    /// A subtree arrives.
    pub fn arrive(&mut self, caller: &Caller, key: &Key, process: &Arc<str>) -> Arrival {
        match self.0.get(&place(caller, key)) {
            None => {
                self.restore(caller, key, process, None);
                Arrival::New
            }
            Some(Child { answer: None, .. }) => Arrival::Runs,
            Some(Child { answer: Some(answer), .. }) => Arrival::Over(answer.clone()),
        }
    }

    /// One that was kept.
    pub fn restore(&mut self, caller: &Caller, key: &Key, process: &Arc<str>, answer: Option<v1::Answer>) {
        let child = Child { caller: caller.clone(), process: process.clone(), answer: answer.map(Box::new) };
        self.0.insert(place(caller, key), child);
    }

    /// The process that runs a subtree here.
    pub fn process(&self, caller: &Caller, key: &Key) -> Option<Arc<str>> {
        let child = self.0.get(&place(caller, key))?;
        child.answer.is_none().then(|| child.process.clone())
    }

    /// It is over: gives who is to hear of it, unless nobody wants the answer any more.
    pub fn finish(&mut self, caller: &Caller, key: &Key, answer: v1::Answer) -> Option<Caller> {
        let child = self.0.get_mut(&place(caller, key))?;
        child.answer = Some(Box::new(answer));
        Some(child.caller.clone())
    }

    /// Who hears of it now.
    pub fn caller(&self, caller: &Caller, key: &Key) -> Option<Caller> {
        self.0.get(&place(caller, key)).map(|child| child.caller.clone())
    }

    /// It leaves no trace, and may come again.
    pub fn remove(&mut self, caller: &Caller, key: &Key) {
        self.0.remove(&place(caller, key));
    }

    /// The parent has an answer: gives the process, which nobody needs any more.
    pub fn acknowledge(&mut self, caller: &Caller, key: &Key) -> Option<Arc<str>> {
        let place = place(caller, key);
        self.0.get(&place).filter(|child| child.answer.is_some())?;
        self.0.remove(&place).map(|child| child.process)
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

/// An answer that can be sent: one that is too large is a failure instead.
pub fn sendable(key: &Key, process: &str, outcome: v1::answer::Outcome, counts: v1::Counts) -> v1::Answer {
    let answer = v1::Answer { id: Some(wire_id(key)), outcome: Some(outcome), counts: Some(counts) };
    let size = answer.encoded_len();
    if size <= MAX_LARGE {
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
