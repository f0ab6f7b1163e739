//! A running program, as the process table tracks it.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::cgroups::Cgroup;
use super::resource_limits::{ObservedUsage, UsageLimits};

/// Interval between two observations of a program, and the age of its first one.
pub(super) const OBSERVE_INTERVAL: Duration = Duration::from_millis(100);

/// What the process table must know of a program before it starts.
#[derive(Debug)]
pub(crate) struct ProgramSpec {
    /// The directory of the attempt, which the environment of the program names.
    pub directory: PathBuf,
    /// Limits that the process table enforces.
    pub limits: UsageLimits,
    /// The control group that the program enters.
    pub cgroup: Option<Cgroup>,
}

/// A running program.
#[derive(Debug)]
pub(crate) struct TrackedProgram {
    pub(super) number: u64,
    pub(super) pid: u32,
    pub(super) spec: ProgramSpec,
    began: Instant,
    peak_memory: AtomicU64,
    exceeded: OnceLock<String>,
    on_exceeded: Notify,
}

impl TrackedProgram {
    pub(super) fn new(number: u64, pid: u32, spec: ProgramSpec) -> Self {
        Self {
            number,
            pid,
            spec,
            began: Instant::now(),
            peak_memory: AtomicU64::new(0),
            exceeded: OnceLock::new(),
            on_exceeded: Notify::new(),
        }
    }

    /// Peak of the observed memory.
    pub fn peak_memory(&self) -> u64 {
        self.peak_memory.load(Ordering::Relaxed)
    }

    pub fn cgroup(&self) -> Option<&Cgroup> {
        self.spec.cgroup.as_ref()
    }

    /// True if the program has a limit on its disk usage.
    pub fn is_scratch_limited(&self) -> bool {
        self.spec.limits.scratch > 0
    }

    /// True while the program is too young for the process table to observe it.
    pub fn is_young(&self) -> bool {
        self.began.elapsed() < OBSERVE_INTERVAL
    }

    /// Returns when the program exceeds a limit, with a description.
    pub async fn exceeded(&self) -> String {
        loop {
            let notified = self.on_exceeded.notified();
            if let Some(why) = self.exceeded.get() {
                return why.clone();
            }
            notified.await;
        }
    }

    /// Records an observation and compares it with the limits.
    pub fn on_observed(&self, usage: ObservedUsage) {
        self.peak_memory.fetch_max(usage.memory, Ordering::Relaxed);
        if let Some(why) = self.spec.limits.exceeded(usage)
            && self.exceeded.set(why).is_ok()
        {
            self.on_exceeded.notify_waiters();
        }
    }
}
