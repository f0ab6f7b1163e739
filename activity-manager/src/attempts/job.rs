//! The work of one attempt, and the signal that stops it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use xavantes_model::definition::{ActivityCode, ActivityType, Program};
use xavantes_model::value::Value;
use xavantes_proto::v1;

use super::realm_attempt::RealmAttempt;
use crate::attempt_failure::{AttemptFailure, failure};
use crate::logs::live_log::AttemptLog;
use crate::logs::log_entry::LogTitle;

/// An attempt that this worker is able to run.
pub(crate) struct Job {
    pub attempt: RealmAttempt,
    pub program: Arc<Program>,
    /// The number of the activity type in the program.
    pub activity: usize,
    pub parameters: Vec<Value>,
    /// Nodes that hold the files of the parameters.
    pub holdings: Vec<v1::Holding>,
    /// Nodes that fetch files for this worker if it cannot reach the holders.
    pub relays: Vec<Arc<str>>,
    /// The path of the element.
    pub path: Arc<str>,
    pub stop: StopSignal,
    /// When the job arrived, and when it started.
    pub arrived: Instant,
    pub started: OnceLock<Instant>,
    /// The longest time that the attempt may run.
    pub timeout: Option<Duration>,
    /// The log of a Lua activity, from its first printed line on.
    pub log: OnceLock<Arc<AttemptLog>>,
}

impl Job {
    pub fn activity(&self) -> &ActivityType {
        &self.program.activities[self.activity]
    }

    pub fn code(&self) -> &ActivityCode {
        &self.activity().code
    }

    /// For how long it has run, in milliseconds.
    pub fn running_ms(&self) -> u64 {
        self.started.get().map_or(0, |started| started.elapsed().as_millis() as u64)
    }

    /// The name of the attempt's log.
    pub fn log_title(&self) -> LogTitle {
        let (realm, path) = (self.attempt.realm.to_string(), self.path.to_string());
        LogTitle { realm, path, attempt: self.attempt.key.attempt }
    }

    /// The failure of an attempt that was stopped because its time was up.
    pub fn timeout_failure(&self) -> Option<AttemptFailure> {
        let limit = self.timeout.filter(|_| self.stop.is_requested() && !self.stop.is_cancelled())?;
        let message = format!("took longer than its TIMEOUT of {limit:?}");
        Some(failure(v1::FailureKind::Timeout, message))
    }

    /// The failure of an attempt that was asked to stop.
    pub fn stop_failure(&self) -> AttemptFailure {
        self.timeout_failure().unwrap_or_else(|| failure(v1::FailureKind::Cancelled, "stopped"))
    }
}

/// Asks an attempt to stop, because a coordinator cancelled it or because its time is up.
#[derive(Default)]
pub(crate) struct StopSignal {
    requested: CancellationToken,
    cancelled: AtomicBool,
    /// Notified when the attempt has ended.
    ended: Notify,
}

impl StopSignal {
    /// No coordinator wants the result any more.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
        self.requested.cancel();
    }

    /// True if the attempt was cancelled or its time is up.
    pub fn is_requested(&self) -> bool {
        self.requested.is_cancelled()
    }

    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Returns when the attempt was cancelled or its time is up.
    pub async fn requested(&self) {
        self.requested.cancelled().await;
    }

    /// The attempt has ended: its timeout no longer matters.
    pub fn on_ended(&self) {
        self.ended.notify_one();
    }

    /// Requests the stop when the time is up, unless the attempt ends before.
    pub async fn request_after(&self, timeout: Duration) {
        tokio::select! {
            () = tokio::time::sleep(timeout) => self.requested.cancel(),
            () = self.ended.notified() => {}
        }
    }
}
