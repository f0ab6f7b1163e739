//! Lua activities: each slot has a thread with a sandbox of its own.

use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::time::Duration;

use xavantes_model::definition::ActivityCode;
use xavantes_model::script::{ErrorKind, Limits, RemoteObjects, Sandbox};
use xavantes_model::shared::Method;
use xavantes_model::value::{SharedRef, Value};
use xavantes_proto::{method_name, v1, value};

use crate::desk::{Desk, Job};

/// What one activity may use. Its time is bounded by `TIMEOUT` alone.
const LIMITS: Limits = Limits { steps: u64::MAX, memory: 512 << 20, time: Duration::MAX };

/// The threads.
pub(crate) struct Pool {
    jobs: Mutex<mpsc::Sender<Arc<Job>>>,
}

impl Pool {
    pub fn new(slots: u32, desk: Weak<Desk>) -> Self {
        let (sender, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..slots {
            let (receiver, desk) = (receiver.clone(), desk.clone());
            std::thread::spawn(move || work(&receiver, &desk));
        }
        Self { jobs: Mutex::new(sender) }
    }

    /// Begins an attempt; admission sees to it that a thread is free.
    pub fn run(&self, job: Arc<Job>) {
        // The threads end with the pool.
        let _ = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).send(job);
    }
}

fn work(jobs: &Mutex<mpsc::Receiver<Arc<Job>>>, desk: &Weak<Desk>) {
    let mut sandbox = Sandbox::new(LIMITS, true);
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let (Ok(job), Some(desk)) = (next, desk.upgrade()) else { return };
        let outcome = match &mut sandbox {
            Ok(sandbox) => attempt(sandbox, &desk, &job),
            Err(error) => v1::answer::Outcome::Failed(v1::Failure {
                kind: v1::FailureKind::Worker.into(),
                message: error.to_string(),
                worker: Some(desk.node.clone()),
                ..v1::Failure::default()
            }),
        };
        if let Some(log) = job.log.get() {
            let usage = v1::Usage { node: desk.node.clone(), ..v1::Usage::default() };
            desk.workshop.shelf.finish(log, &outcome, &usage);
        }
        desk.finish(&job, outcome, None);
    }
}

fn attempt(sandbox: &mut Sandbox, desk: &Arc<Desk>, job: &Arc<Job>) -> v1::answer::Outcome {
    use v1::answer::Outcome;
    let activity = &job.program.activities[job.activity];
    let ActivityCode::Lua { code, .. } = &activity.code else { return Outcome::Cancelled(v1::Nothing {}) };
    let mut arguments = job.parameters.clone();
    arguments.resize(activity.parameters.len(), Value::Null);
    arguments.push(Value::Int(job.key.attempt.into()));
    let link = Link { desk: desk.clone(), job: job.clone(), sequence: 0 };
    match sandbox.run_activity(code, &arguments, Box::new(link)) {
        Ok(results) => Outcome::Completed(v1::Completed { results: results.iter().map(value).collect() }),
        Err(error) if error.kind == ErrorKind::Stopped || job.stop.is_asked() => match job.over_time() {
            Some(failure) => Outcome::Failed(v1::Failure { worker: Some(desk.node.clone()), ..*failure }),
            None => Outcome::Cancelled(v1::Nothing {}),
        },
        Err(error) => Outcome::Failed(v1::Failure {
            kind: match error.kind {
                ErrorKind::Code => v1::FailureKind::Code,
                _ => v1::FailureKind::Limit,
            }
            .into(),
            message: error.message,
            line: Some(error.line),
            worker: Some(desk.node.clone()),
            ..v1::Failure::default()
        }),
    }
}

/// What a running activity has of the world.
struct Link {
    desk: Arc<Desk>,
    job: Arc<Job>,
    sequence: u64,
}

impl RemoteObjects for Link {
    fn call(&mut self, object: &SharedRef, method: Method, arguments: Vec<Value>) -> Result<Value, String> {
        let acknowledged = self.sequence;
        if method.changes() {
            self.sequence += 1;
        }
        let call = v1::SharedCall {
            id: Some(self.job.key.id()),
            sequence: self.sequence,
            acknowledged,
            object: Some(object.into()),
            method: method_name(object.kind, method).into(),
            arguments: arguments.iter().map(value).collect(),
            ticket: 0,
            caller: 0,
        };
        self.desk.call(&self.job, call)
    }

    fn print(&mut self, line: &str) {
        self.desk.print(&self.job, line);
    }

    fn stopped(&mut self) -> bool {
        self.job.stop.is_asked()
    }
}
