//! Lua activities: each slot has a thread with a sandbox of its own.

use std::sync::{Arc, Weak, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use xavantes_model::definition::ActivityCode;
use xavantes_model::script::{ErrorKind, RemoteObjects, Sandbox, ScriptLimits};
use xavantes_model::shared_objects::Method;
use xavantes_model::value::{SharedRef, Value};
use xavantes_proto::{v1, value};

use super::host::ActivityHost;
use super::shared_calls::SharedCalls;
use crate::attempts::job::Job;
use crate::logs::live_log::OutputStream;
use crate::logs::log_store::LogStore;

/// Limits of one activity. The time is that of an activity without a `TIMEOUT`; the worker watches a `TIMEOUT` itself.
const LIMITS: ScriptLimits = ScriptLimits { steps: u64::MAX, memory: 512 << 20, time: Duration::from_secs(3600) };

/// The threads that run Lua activities.
pub(crate) struct LuaPool {
    jobs: Mutex<mpsc::Sender<Arc<Job>>>,
}

/// What each thread shares with the worker.
#[derive(Clone)]
struct LuaWorker {
    node: Arc<str>,
    logs: Arc<LogStore>,
    host: Weak<dyn ActivityHost>,
}

impl LuaPool {
    pub fn new(slots: u32, node: &str, logs: Arc<LogStore>, host: Weak<dyn ActivityHost>) -> Self {
        let (sender, receiver) = mpsc::channel();
        let receiver = Arc::new(Mutex::new(receiver));
        let worker = LuaWorker { node: node.into(), logs, host };
        for _ in 0..slots {
            let (receiver, worker) = (receiver.clone(), worker.clone());
            std::thread::spawn(move || worker.run(&receiver));
        }
        Self { jobs: Mutex::new(sender) }
    }

    /// Starts an attempt. Admission guarantees that a thread is free.
    pub fn start(&self, job: Arc<Job>) {
        // The receivers live as long as the pool, so sending cannot fail.
        let _ = self.jobs.lock().send(job);
    }
}

impl LuaWorker {
    fn run(&self, jobs: &Mutex<mpsc::Receiver<Arc<Job>>>) {
        let mut sandbox = Sandbox::new(LIMITS, true);
        loop {
            let next = jobs.lock().recv();
            let (Ok(job), Some(host)) = (next, self.host.upgrade()) else { return };
            let outcome = match &mut sandbox {
                Ok(sandbox) => self.attempt(sandbox, &host, &job),
                Err(error) => v1::answer::Outcome::Failed(v1::Failure {
                    kind: v1::FailureKind::Worker.into(),
                    message: error.to_string(),
                    worker: Some(self.node.to_string()),
                    ..v1::Failure::default()
                }),
            };
            if let Some(log) = job.log.get() {
                let usage = v1::Usage { node: self.node.to_string(), ..v1::Usage::default() };
                self.logs.finish(log, &outcome, &usage);
            }
            host.on_finished(&job, outcome, None);
        }
    }

    fn attempt(&self, sandbox: &mut Sandbox, host: &Arc<dyn ActivityHost>, job: &Arc<Job>) -> v1::answer::Outcome {
        use v1::answer::Outcome;
        let activity = job.activity();
        let ActivityCode::Lua { code, .. } = &activity.code else { return Outcome::Cancelled(v1::Nothing {}) };
        let mut arguments = job.parameters.clone();
        arguments.resize(activity.parameters.len(), Value::Null);
        arguments.push(Value::Int(job.attempt.key.attempt.into()));
        let connection = HostConnection {
            host: host.clone(),
            logs: self.logs.clone(),
            job: job.clone(),
            calls: SharedCalls::default(),
        };
        let time = if job.timeout.is_some() { Duration::MAX } else { LIMITS.time };
        match sandbox.run_activity(code, &arguments, time, Box::new(connection)) {
            Ok(results) => Outcome::Completed(v1::Completed { results: results.iter().map(value).collect() }),
            Err(error) if error.kind == ErrorKind::Stopped || job.stop.is_requested() => match job.timeout_failure() {
                Some(failure) => Outcome::Failed(v1::Failure { worker: Some(self.node.to_string()), ..*failure }),
                None => Outcome::Cancelled(v1::Nothing {}),
            },
            Err(error) => Outcome::Failed(v1::Failure {
                kind: match error.kind {
                    ErrorKind::Code => v1::FailureKind::Code,
                    _ => v1::FailureKind::Limit,
                }
                .into(),
                message: match error.kind {
                    ErrorKind::Time => format!("{}; the attribute TIMEOUT allows more", error.message),
                    _ => error.message,
                },
                line: Some(error.line),
                worker: Some(self.node.to_string()),
                ..v1::Failure::default()
            }),
        }
    }
}

/// The connection of running Lua code to the worker.
struct HostConnection {
    host: Arc<dyn ActivityHost>,
    logs: Arc<LogStore>,
    job: Arc<Job>,
    calls: SharedCalls,
}

impl RemoteObjects for HostConnection {
    fn call(&mut self, object: &SharedRef, method: Method, arguments: Vec<Value>) -> Result<Value, String> {
        self.calls.call(&*self.host, &self.job, object, method, &arguments)
    }

    fn print(&mut self, line: &str) {
        let log = self.job.log.get_or_init(|| self.logs.begin(self.job.log_title()));
        log.write(OutputStream::Stdout, line.as_bytes());
        log.write(OutputStream::Stdout, b"\n");
        self.host.print(&self.job, line);
    }

    fn stopped(&mut self) -> bool {
        self.job.stop.is_requested()
    }
}
