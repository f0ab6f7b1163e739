//! The lines that activities of a process print, on their way to the log of the coordinator. A process that prints much does
//! not delay the others: what is too much is left out, and the logs of the workers have it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Upper bound on the logged lines of one process in each interval.
const MAX_LINES: u32 = 200;
const INTERVAL: Duration = Duration::from_secs(1);

/// How many lines of a process were logged lately; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct PrintLimit(Arc<Mutex<Lately>>);

#[derive(Debug, Default)]
struct Lately {
    since: Option<Instant>,
    lines: u32,
    left_out: u64,
}

/// What becomes of a printed line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PrintDecision {
    /// The line is logged. The number counts the lines before it that were left out.
    Log { left_out: u64 },
    /// It is left out.
    LeaveOut,
}

impl PrintLimit {
    /// An activity printed a line.
    pub fn on_line(&self, now: Instant) -> PrintDecision {
        let mut lately = self.0.lock();
        if lately.since.is_none_or(|since| now.saturating_duration_since(since) >= INTERVAL) {
            (lately.since, lately.lines) = (Some(now), 0);
        }
        if lately.lines == MAX_LINES {
            lately.left_out += 1;
            return PrintDecision::LeaveOut;
        }
        lately.lines += 1;
        PrintDecision::Log { left_out: std::mem::take(&mut lately.left_out) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beyond_the_limit_are_left_out_and_counted() {
        let (limit, began) = (PrintLimit::default(), Instant::now());
        let logged = (0..1000).filter(|_| limit.on_line(began) != PrintDecision::LeaveOut).count();
        assert_eq!(logged, MAX_LINES as usize);
        let later = began + INTERVAL;
        assert_eq!(limit.on_line(later), PrintDecision::Log { left_out: 1000 - u64::from(MAX_LINES) });
        assert_eq!(limit.on_line(later), PrintDecision::Log { left_out: 0 });
    }
}
