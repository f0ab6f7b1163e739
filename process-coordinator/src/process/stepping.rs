//! Steps of processes on the threads of the coordinator. Short steps, as nearly all are, run where their task runs. The steps
//! of a process that takes long run on a thread of their own, so that they do not delay other tasks.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use xavantes_model::script::{Error, Sandbox, ScriptLimits};

/// The scripts of one step, and the steps for received mail, together take not much longer than this.
pub(crate) const MAX_TURN: Duration = Duration::from_millis(20);
/// A process whose last step took longer than this is slow.
const SLOW_STEP: Duration = Duration::from_millis(5);
/// Work on more bytes than this is slow.
const SLOW_BYTES: u64 = 4 << 20;

thread_local! {
    /// Scripts of all processes run in the sandbox of the thread that steps them.
    static SANDBOX: RefCell<Option<Sandbox>> = const { RefCell::new(None) };
}

/// How the steps of one process run.
#[derive(Debug)]
pub(crate) struct Stepping {
    /// The last step took long. So may the first one.
    is_slow: bool,
    /// The runtime lets a task block its thread.
    can_block: bool,
}

impl Stepping {
    pub fn new() -> Self {
        let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
        Self { is_slow: true, can_block: matches!(flavor, Ok(RuntimeFlavor::MultiThread)) }
    }

    /// Runs a step in a sandbox.
    pub fn step(&mut self, step: impl FnOnce(&mut Sandbox)) -> Result<(), Error> {
        let began = Instant::now();
        let result = if self.is_slow && self.can_block {
            tokio::task::block_in_place(|| in_sandbox(step))
        } else {
            in_sandbox(step)
        };
        self.is_slow = began.elapsed() > SLOW_STEP;
        result
    }

    /// Runs work on this many bytes.
    pub fn work<T>(&self, bytes: u64, work: impl FnOnce() -> T) -> T {
        if bytes > SLOW_BYTES && self.can_block { tokio::task::block_in_place(work) } else { work() }
    }
}

fn in_sandbox(step: impl FnOnce(&mut Sandbox)) -> Result<(), Error> {
    SANDBOX.with_borrow_mut(|slot| {
        let mut sandbox = match slot.take() {
            Some(sandbox) => sandbox,
            None => Sandbox::new(ScriptLimits::CONTROL, false)?,
        };
        sandbox.begin_turn(MAX_TURN);
        step(&mut sandbox);
        *slot = Some(sandbox);
        Ok(())
    })
}
