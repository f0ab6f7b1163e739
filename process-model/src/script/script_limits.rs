//! Limits of one run of a script, and why a run failed.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The interrupt handler reads the clock once per this many steps, because reading it takes longer than a step.
const STEPS_PER_CLOCK_READ: u64 = 64;

/// Resources that one run of a script may use.
#[derive(Debug, Clone, Copy)]
pub struct ScriptLimits {
    /// Loop iterations and calls.
    pub steps: u64,
    /// Bytes of memory.
    pub memory: usize,
    /// Wall-clock time. It guards against work that steps do not measure; ordinary scripts exceed steps or memory
    /// first.
    pub time: Duration,
}

impl ScriptLimits {
    /// Limits for the code of controllers, which blocks everything else in its process.
    pub const CONTROL: ScriptLimits = ScriptLimits { steps: 1_000_000, memory: 64 << 20, time: Duration::from_secs(5) };
}

/// Why a script failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// An error in the code, or raised by it.
    Code,
    /// The script exceeded its limit of steps.
    Steps,
    /// The script exceeded its limit of memory.
    Memory,
    /// The script exceeded its limit of time.
    Time,
    /// The caller stopped the script.
    Stopped,
}

/// The failure of a script.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// Cause.
    pub kind: ErrorKind,
    /// Message for the author, without the place.
    pub message: String,
    /// Line in the author's document.
    pub line: u32,
}

/// Consumption of the current run, shared with the interrupt handler.
pub(super) struct Meter {
    pub limits: ScriptLimits,
    /// Limit of time of the current run.
    pub time: Cell<Duration>,
    pub steps: Cell<u64>,
    pub started: Cell<Instant>,
    /// First limit that the run exceeded.
    pub exceeded: Cell<Option<ErrorKind>>,
}

impl Meter {
    pub fn new(limits: ScriptLimits) -> Self {
        Self {
            limits,
            time: Cell::new(limits.time),
            steps: Cell::new(0),
            started: Cell::new(Instant::now()),
            exceeded: Cell::new(None),
        }
    }

    /// Limits of the current run.
    pub fn limits(&self) -> ScriptLimits {
        ScriptLimits { time: self.time.get(), ..self.limits }
    }

    /// Begins a new run.
    pub fn reset(&self) {
        self.steps.set(0);
        self.exceeded.set(None);
        self.started.set(Instant::now());
    }

    /// Counts a step and returns the limit that the run has exceeded. An exceeded limit stays exceeded, so that `pcall`
    /// delays the end of the script by one step only. `stopped` is asked now and then.
    pub fn step(&self, stopped: impl FnOnce() -> bool) -> Option<ErrorKind> {
        let steps = self.steps.get() + 1;
        self.steps.set(steps);
        if steps > self.limits.steps {
            self.exceeded.set(Some(ErrorKind::Steps));
        } else if steps.is_multiple_of(STEPS_PER_CLOCK_READ) {
            if self.started.get().elapsed() > self.time.get() {
                self.exceeded.set(Some(ErrorKind::Time));
            } else if stopped() {
                self.exceeded.set(Some(ErrorKind::Stopped));
            }
        }
        self.exceeded.get()
    }
}

/// Words the excess of a limit for the author.
pub(super) fn limit_message(kind: ErrorKind, limits: ScriptLimits) -> String {
    match kind {
        ErrorKind::Steps => format!("the code ran longer than its limit of {} steps", limits.steps),
        ErrorKind::Memory => format!("the code needs more than its limit of {} MiB of memory", limits.memory >> 20),
        ErrorKind::Time => format!("the code ran longer than its limit of {} s", limits.time.as_secs()),
        ErrorKind::Stopped => "the code was stopped".into(),
        ErrorKind::Code => "the code failed".into(),
    }
}
