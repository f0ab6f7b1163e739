//! What must hold, whatever happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xavantes_activity_manager::attempts::key::RealmAttempt;
use xavantes_process_coordinator::attempt::AttemptKey;
use xavantes_proto::v1::answer::Outcome;

use crate::worker::Job;

/// A worker that is silent for so long may be taken for lost, by the fastest of clocks.
const SILENT: u64 = 8_500;

/// One that does not run for so long is not in the group any more.
const GONE: u64 = 5_000;

/// An attempt waits at most so long in the queue of a worker, or nearly.
const LONGEST_WAIT: u64 = 20_000;

/// An attempt that was begun by a worker.
#[derive(Debug)]
struct Execution {
    path: String,
    worker: Arc<str>,
    node: usize,
    creation: u64,
    attempt: u32,
    began: u64,
    finished: bool,
    /// By its own fault.
    failed: bool,
    stopped: bool,
    kept: bool,
    recorded: bool,
    /// Its worker crashed before its answer was kept.
    crashed: bool,
}

/// What an attempt is called: the creation of its process, the element, the attempt.
type Name = (u64, u64, u32);

/// Everything that happened, as far as it matters.
#[derive(Debug, Default)]
pub struct Check {
    executions: BTreeMap<u64, Execution>,
    names: BTreeMap<Name, u64>,
    keys: BTreeMap<RealmAttempt, u64>,
    paths: BTreeMap<String, Vec<u64>>,
    /// Answers that are in journals.
    recorded: BTreeSet<Name>,
    /// Paths that somebody wanted to run again.
    pub asked: Vec<String>,
    /// Since when coordinators are not connected to workers.
    gaps: BTreeMap<(Arc<str>, Arc<str>), u64>,
    /// Workers that do not run, and since when.
    down: BTreeMap<Arc<str>, u64>,
    /// When a worker was silent for too long last.
    silent: BTreeMap<Arc<str>, u64>,
    called: BTreeSet<u64>,
    logged: BTreeSet<u64>,
}

impl Check {
    pub fn connected(&mut self, coordinator: &Arc<str>, worker: &Arc<str>, now: u64) {
        if let Some(since) = self.gaps.remove(&(coordinator.clone(), worker.clone()))
            && now - since > SILENT
        {
            self.silent.insert(worker.clone(), now);
        }
    }

    pub fn disconnected(&mut self, coordinator: &Arc<str>, worker: &Arc<str>, now: u64) {
        self.gaps.entry((coordinator.clone(), worker.clone())).or_insert(now);
    }

    fn was_silent(&self, worker: &Arc<str>, since: u64, now: u64) -> bool {
        self.silent.get(worker).is_some_and(|last| *last >= since)
            || self.down.get(worker).is_some_and(|since| now - since > GONE)
            || self.gaps.iter().any(|((_, name), gap)| name == worker && now - gap > SILENT)
    }

    fn was_asked(&self, path: &str) -> bool {
        self.asked.iter().any(|asked| path.starts_with(&**asked))
    }

    pub fn began(&mut self, number: u64, job: &Job, node: usize, creation: u64, now: u64) -> Option<String> {
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
            failed: false,
            stopped: false,
            kept: false,
            recorded: false,
            crashed: false,
        };
        self.executions.insert(number, execution);
        if twice.is_some() {
            return Some(format!("attempt {attempt} of {path} is executed twice"));
        }
        let others = self.paths[&path].clone();
        others.iter().filter(|other| **other != number).find_map(|other| self.again(*other, number, now))
    }

    /// Was there a reason to execute something again?
    fn again(&self, one: u64, other: u64, now: u64) -> Option<String> {
        let (mut first, mut second) = (&self.executions[&one], &self.executions[&other]);
        if first.creation == second.creation && first.attempt > second.attempt {
            (first, second) = (second, first);
        }
        if self.was_asked(&first.path) {
            return None;
        }
        if first.recorded {
            return Some(format!("{} is executed after its end was recorded", first.path));
        }
        // It may have waited for a slot since.
        let since = first.began.min(second.began).saturating_sub(LONGEST_WAIT);
        let excused = first.failed || first.crashed || self.was_silent(&first.worker, since, now);
        (!excused).then(|| {
            format!("{} is executed again without a reason: attempts {}, {}", first.path, first.attempt, second.attempt)
        })
    }

    pub fn finished(&mut self, number: u64, outcome: &Outcome) {
        if let Some(execution) = self.executions.get_mut(&number) {
            execution.finished = true;
            execution.failed = matches!(outcome, Outcome::Failed(why) if why.message == "bad luck");
            execution.stopped = matches!(outcome, Outcome::Cancelled(_));
        }
    }

    pub fn kept(&mut self, key: &RealmAttempt) {
        if let Some(execution) = self.keys.get(key).and_then(|number| self.executions.get_mut(number)) {
            execution.kept = true;
        }
    }

    pub fn coordinator_crashed(&mut self, coordinator: &Arc<str>, now: u64) {
        let silent = &mut self.silent;
        self.gaps.retain(|(name, worker), since| {
            if name == coordinator && now - *since > SILENT {
                silent.insert(worker.clone(), now);
            }
            name != coordinator
        });
    }

    pub fn frozen(&mut self, worker: &Arc<str>, now: u64, long: u64) {
        if long > SILENT {
            self.silent.insert(worker.clone(), now + long);
        }
    }

    pub fn worker_started(&mut self, worker: &Arc<str>, now: u64) {
        if self.down.remove(worker).is_some_and(|since| now - since > GONE) {
            self.silent.insert(worker.clone(), now);
        }
    }

    pub fn worker_crashed(&mut self, node: usize, worker: &Arc<str>, now: u64) {
        self.down.insert(worker.clone(), now);
        for execution in self.executions.values_mut().filter(|execution| execution.node == node && !execution.kept) {
            execution.crashed = true;
        }
    }

    pub fn called(&mut self, number: u64) {
        self.called.insert(number);
    }

    pub fn logged(&mut self, number: u64) {
        self.logged.insert(number);
    }

    /// A process takes an answer.
    pub fn applied(&self, creation: u64, key: &AttemptKey) -> Option<String> {
        let number = self.names.get(&(creation, key.element, key.attempt))?;
        let execution = &self.executions[number];
        // A subtree that is begun anew has the attempts of the former one, and workers may still have answers to those.
        let former = self.was_asked(&execution.path);
        (!execution.finished && !former).then(|| format!("an answer is taken that {} did not give", execution.path))
    }

    /// It is in the journal that an attempt was answered.
    pub fn recorded(&mut self, creation: u64, key: &AttemptKey) {
        let name = (creation, key.element, key.attempt);
        self.recorded.insert(name);
        if let Some(execution) = self.names.get(&name).and_then(|number| self.executions.get_mut(number)) {
            // One that was taken for lost may have been stopped, and its coordinator have died before it could note the loss.
            execution.recorded = !execution.failed && !execution.stopped;
        }
    }

    /// A process is recovered, and this attempt is out.
    pub fn recovered(&self, creation: u64, key: &AttemptKey) -> Option<String> {
        let lost = self.recorded.contains(&(creation, key.element, key.attempt));
        lost.then(|| format!("a recorded answer was lost: {key:?}"))
    }

    /// Did an attempt after this one begin?
    pub fn went_on(&self, path: &str, attempt: u32) -> bool {
        let found = self.paths.get(path).into_iter().flatten().map(|number| &self.executions[number]);
        found.clone().any(|execution| execution.attempt > attempt || found.clone().count() > 1)
    }

    /// The counter and the log of a process that completed.
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
            return Some(format!("a call took effect in {process} that nobody made"));
        }
        if let Some(lost) = logged.difference(&once).next() {
            return Some(format!("the call of {} is lost", self.executions[lost].path));
        }
        // Calls of a subtree that was begun anew may be made by workers that still run something of the former one.
        let again = self.asked.iter().any(|path| path.starts_with(process));
        let (least, most) = (once.len() as i64, if again { i64::MAX } else { called.len() as i64 });
        (!(least..=most).contains(&count))
            .then(|| format!("the counter of {process} is {count}, not between {least} and {most}"))
    }
}
