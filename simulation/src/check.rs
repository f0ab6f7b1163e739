//! The invariants of every world: what must hold whatever fails.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xavantes_activity_manager::attempts::realm_attempt::RealmAttempt;
use xavantes_proto::AttemptKey;
use xavantes_proto::v1::answer::Outcome;

use crate::worker::state::{ActivityKind, SimJob};

/// Message of activities that fail by intention.
pub const INTENDED_FAILURE: &str = "bad luck";
/// Message of activities that took too long.
pub const TIMED_OUT: &str = "took too long";

/// A coordinator with the fastest clock takes a worker for lost that is silent for this long.
const LOST_AFTER_MS: u64 = 8_500;

/// A worker that does not run for this long is not in its group any more.
const GONE_AFTER_MS: u64 = 5_000;

/// Upper bound on the time that an attempt waits in the queue of a worker.
const MAX_QUEUED_MS: u64 = 20_000;

/// An attempt that a worker began.
#[derive(Debug)]
struct Execution {
    path: String,
    worker: Arc<str>,
    node: usize,
    creation: u64,
    attempt: u32,
    began: u64,
    finished: bool,
    /// A failure puts the element on hold.
    holds: bool,
    /// With [`INTENDED_FAILURE`] or [`TIMED_OUT`], or where calls may fail.
    failed: bool,
    stopped: bool,
    kept: bool,
    recorded: bool,
    /// The journal has its failure.
    failure_recorded: bool,
    /// The worker crashed before the answer was on its disk, or stopped the attempt in order to leave.
    crashed: bool,
}

/// An attempt: the creation of its process, the element, the attempt number.
type AttemptName = (u64, u64, u32);

/// Everything that happened, as far as the invariants need it.
#[derive(Debug, Default)]
pub struct Check {
    executions: BTreeMap<u64, Execution>,
    names: BTreeMap<AttemptName, u64>,
    keys: BTreeMap<RealmAttempt, u64>,
    paths: BTreeMap<String, Vec<u64>>,
    /// Answers that are in journals.
    recorded: BTreeSet<AttemptName>,
    /// Paths that a user wanted to run again.
    pub asked: Vec<String>,
    /// Paths below which calls may fail: of held processes that were cancelled, and of processes with a budget.
    pub may_fail: Vec<String>,
    /// Paths of held elements that a user wanted to retry.
    pub retried: BTreeSet<String>,
    /// Coordinators and workers that are not connected, and since when.
    gaps: BTreeMap<(Arc<str>, Arc<str>), u64>,
    /// Coordinators and workers that are connected, and since when.
    connections: BTreeMap<(Arc<str>, Arc<str>), u64>,
    /// Workers that do not run, and since when.
    down: BTreeMap<Arc<str>, u64>,
    /// When a worker was last silent for too long.
    silent: BTreeMap<Arc<str>, u64>,
    called: BTreeSet<u64>,
    logged: BTreeSet<u64>,
}

impl Check {
    /// A coordinator is connected to a worker, or does not want to be any more.
    pub fn connected(&mut self, coordinator: &Arc<str>, worker: &str, now: u64) {
        let worker: Arc<str> = worker.into();
        self.connections.insert((coordinator.clone(), worker.clone()), now);
        if let Some(since) = self.gaps.remove(&(coordinator.clone(), worker.clone()))
            && now - since > LOST_AFTER_MS
        {
            self.silent.insert(worker, now);
        }
    }

    /// A coordinator does not want to be connected to a worker any more.
    pub fn released(&mut self, coordinator: &Arc<str>, worker: &str) {
        self.connections.remove(&(coordinator.clone(), worker.into()));
    }

    pub fn disconnected(&mut self, coordinator: &Arc<str>, worker: &str, now: u64) {
        self.connections.remove(&(coordinator.clone(), worker.into()));
        self.gaps.entry((coordinator.clone(), worker.into())).or_insert(now);
    }

    /// Since when a coordinator has been connected to a worker.
    pub fn connected_since(&self, coordinator: &Arc<str>, worker: &Arc<str>) -> Option<u64> {
        self.connections.get(&(coordinator.clone(), worker.clone())).copied()
    }

    fn was_silent(&self, worker: &Arc<str>, since: u64, now: u64) -> bool {
        self.silent.get(worker).is_some_and(|last| *last >= since)
            || self.down.get(worker).is_some_and(|since| now - since > GONE_AFTER_MS)
            || self.gaps.iter().any(|((_, name), gap)| name == worker && now - gap > LOST_AFTER_MS)
    }

    /// Did a user want the element at this path, or an element around it, to run again?
    pub fn was_asked(&self, path: &str) -> bool {
        self.asked.iter().any(|asked| path.starts_with(&**asked))
    }

    pub fn began(&mut self, number: u64, job: &SimJob, node: usize, creation: u64, now: u64) -> Option<String> {
        let (path, attempt) = (job.path.clone(), job.key.key.attempt);
        let name = (creation, job.key.key.element, attempt);
        let others = self.paths.entry(path.clone()).or_default();
        others.push(number);
        let twice = self.names.insert(name, number);
        self.keys.insert(job.key.clone(), number);
        let execution = Execution {
            path: path.clone(),
            worker: format!("w{node}").into(),
            node,
            creation,
            attempt,
            began: now,
            finished: false,
            holds: job.kind == ActivityKind::Fragile,
            failed: false,
            stopped: false,
            kept: false,
            recorded: false,
            failure_recorded: false,
            crashed: false,
        };
        self.executions.insert(number, execution);
        if twice.is_some() {
            return Some(format!("attempt {attempt} of {path} is executed twice"));
        }
        let others = self.paths[&path].clone();
        others.iter().filter(|other| **other != number).find_map(|other| self.again(*other, number, now))
    }

    /// Checks that there was a reason to execute an element again. Gives the problem.
    fn again(&self, one: u64, other: u64, now: u64) -> Option<String> {
        let (mut first, mut second) = (&self.executions[&one], &self.executions[&other]);
        if first.creation == second.creation && first.attempt > second.attempt {
            (first, second) = (second, first);
        }
        if self.was_asked(&first.path) {
            return None;
        }
        if first.failure_recorded && first.holds && !self.retried.contains(&first.path) {
            return Some(format!("{} is held, and executed again", first.path));
        }
        if first.recorded {
            return Some(format!("{} is executed after its end was recorded", first.path));
        }
        // The attempt may have waited for a slot since.
        let since = first.began.min(second.began).saturating_sub(MAX_QUEUED_MS);
        let stopped = first.stopped && self.retried.contains(&first.path);
        let excused = first.failed || first.crashed || stopped || self.was_silent(&first.worker, since, now);
        (!excused).then(|| {
            format!("{} is executed again without a reason: attempts {}, {}", first.path, first.attempt, second.attempt)
        })
    }

    pub fn finished(&mut self, number: u64, outcome: &Outcome) {
        if let Some(execution) = self.executions.get_mut(&number) {
            execution.finished = true;
            let expected = |message: &str| [INTENDED_FAILURE, TIMED_OUT].contains(&message);
            let may_fail = self.may_fail.iter().any(|path| execution.path.starts_with(&**path));
            execution.failed = matches!(outcome, Outcome::Failed(why) if may_fail || expected(&why.message));
            execution.stopped = matches!(outcome, Outcome::Cancelled(_));
        }
    }

    pub fn kept(&mut self, key: &RealmAttempt) {
        if let Some(execution) = self.keys.get(key).and_then(|number| self.executions.get_mut(number)) {
            execution.kept = true;
        }
    }

    pub fn coordinator_crashed(&mut self, coordinator: &Arc<str>, now: u64) {
        self.connections.retain(|(name, _), _| name != coordinator);
        let silent = &mut self.silent;
        self.gaps.retain(|(name, worker), since| {
            if name == coordinator && now - *since > LOST_AFTER_MS {
                silent.insert(worker.clone(), now);
            }
            name != coordinator
        });
    }

    pub fn frozen(&mut self, worker: &Arc<str>, now: u64, long: u64) {
        if long > LOST_AFTER_MS {
            self.silent.insert(worker.clone(), now + long);
        }
    }

    pub fn worker_started(&mut self, worker: &Arc<str>, now: u64) {
        if self.down.remove(worker).is_some_and(|since| now - since > GONE_AFTER_MS) {
            self.silent.insert(worker.clone(), now);
        }
    }

    pub fn worker_crashed(&mut self, node: usize, worker: &Arc<str>, now: u64) {
        self.down.insert(worker.clone(), now);
        for execution in self.executions.values_mut().filter(|execution| execution.node == node && !execution.kept) {
            execution.crashed = true;
        }
    }

    /// A worker does nothing with its attempts any more.
    pub fn silenced(&mut self, node: usize) {
        self.interrupted(node);
    }

    /// A worker that leaves stops its activities.
    pub fn interrupted(&mut self, node: usize) {
        for execution in self.executions.values_mut().filter(|execution| execution.node == node && !execution.finished)
        {
            execution.crashed = true;
        }
    }

    /// A worker has left its group; it keeps its answers.
    pub fn worker_left(&mut self, worker: &Arc<str>, now: u64) {
        self.down.insert(worker.clone(), now);
    }

    pub fn called(&mut self, number: u64) {
        self.called.insert(number);
    }

    pub fn logged(&mut self, number: u64) {
        self.logged.insert(number);
    }

    /// A process takes an answer. Gives the problem if the attempt did not give one.
    pub fn applied(&self, creation: u64, key: &AttemptKey) -> Option<String> {
        let number = self.names.get(&(creation, key.element, key.attempt))?;
        let execution = &self.executions[number];
        // A subtree that starts again has the attempt keys of the former one, and workers may still have answers to those.
        let former = self.was_asked(&execution.path);
        (!execution.finished && !former)
            .then(|| format!("a process takes an answer that {} did not give", execution.path))
    }

    /// The journal has the answer of an attempt.
    pub fn recorded(&mut self, creation: u64, key: &AttemptKey) {
        let name = (creation, key.element, key.attempt);
        self.recorded.insert(name);
        if let Some(execution) = self.names.get(&name).and_then(|number| self.executions.get_mut(number)) {
            // A coordinator may have stopped an attempt that it took for lost, and crashed before it recorded the loss.
            execution.recorded = !execution.failed && !execution.stopped;
            execution.failure_recorded = execution.failed;
        }
    }

    /// A process is recovered, and this attempt is outstanding. Gives the problem if its answer was recorded.
    pub fn recovered(&self, creation: u64, key: &AttemptKey) -> Option<String> {
        let lost = self.recorded.contains(&(creation, key.element, key.attempt));
        lost.then(|| format!("a recorded answer was lost: {key:?}"))
    }

    /// Did an attempt after this one begin?
    pub fn went_on(&self, path: &str, attempt: u32) -> bool {
        let found = self.paths.get(path).into_iter().flatten().map(|number| &self.executions[number]);
        found.clone().any(|execution| execution.attempt > attempt || found.clone().count() > 1)
    }

    /// Checks the counter and the log of a completed process. Gives the problem.
    pub fn shared(&self, process: &str, count: i64, log: &[i64]) -> Option<String> {
        let own = |number: &u64| {
            let path = &self.executions[number].path;
            path.strip_prefix(process).is_some_and(|rest| rest.starts_with('/'))
        };
        let called: BTreeSet<u64> = self.called.iter().copied().filter(own).collect();
        let logged: BTreeSet<u64> = self.logged.iter().copied().filter(own).collect();
        let log: Vec<u64> = log.iter().map(|number| *number as u64).collect();
        let once: BTreeSet<u64> = log.iter().copied().collect();
        if once.len() != log.len() {
            return Some(format!("a call took effect twice in {process}"));
        }
        if !once.is_subset(&called) {
            return Some(format!("a call took effect in {process} that no activity made"));
        }
        if let Some(lost) = logged.difference(&once).next() {
            return Some(format!("the call of {} is lost", self.executions[lost].path));
        }
        // Workers may still run activities of a subtree that started again, and call its objects.
        let again = self.asked.iter().any(|path| path.starts_with(process));
        // An attempt that takes the place of a lost one counts nothing again.
        let counted: BTreeSet<&str> = once.iter().map(|number| &*self.executions[number].path).collect();
        let (least, most) = (counted.len() as i64, if again { i64::MAX } else { called.len() as i64 });
        (!(least..=most).contains(&count))
            .then(|| format!("the counter of {process} is {count}, not between {least} and {most}"))
    }
}
