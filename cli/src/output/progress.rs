//! The progress of a process as a few lines. Pure: time is passed in, lines come out.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use console::{measure_text_width, truncate_str};
use xavantes_proto::v1;

use crate::output::text::units::duration;
use crate::output::visible::is_active;

/// Upper bound on the lines.
const MAX_LINES: usize = 9;
/// Upper bound on the bars among them.
const MAX_BARS: usize = 4;
/// Upper bound on the running elements among them.
const MAX_RUNNING: usize = 3;
/// The speed is the average over this time.
const SPEED_WINDOW: Duration = Duration::from_secs(10);
const MAX_BAR_CHARS: usize = 40;
const MIN_BAR_CHARS: usize = 8;

/// The progress of a process.
pub(crate) struct ProgressDisplay {
    status: v1::ProcessStatus,
    speed: Speed,
    /// The outermost loops whose number of iterations is known; if there are none, other counted controllers.
    bars: Vec<CountedProgress>,
    /// Activities that run, and elements that run elsewhere; the oldest first.
    running: Vec<RunningElement>,
    last_failure: Option<String>,
    /// An element that waits for a worker which is not connected, and why.
    unmet: Option<String>,
    /// All elements wait for workers that are not connected.
    is_stuck: bool,
    is_cancelled: bool,
}

struct RunningElement {
    path: String,
    /// When it began, before (negative) or after the beginning of the process, in milliseconds.
    began_ms: i64,
}

/// A controller that knows how many iterations or elements it has.
struct CountedProgress {
    path: String,
    /// What it counts.
    unit: &'static str,
    ended: u64,
    total: u64,
    speed: Speed,
}

impl CountedProgress {
    /// How far it came, and how long the rest takes at its present speed.
    fn text(&self, now: Duration) -> String {
        let Self { unit, ended, total, speed, .. } = self;
        let left = match speed.per_second(now) {
            Some(speed) if speed > 0.0 => {
                let left = total.saturating_sub(*ended) as f64 / speed;
                Duration::try_from_secs_f64(left).map_or(String::new(), |left| format!("  {} left", duration(left)))
            }
            _ => String::new(),
        };
        format!("{ended} of {total} {unit}  {}%{left}", ended.saturating_mul(100) / total.max(&1))
    }
}

impl ProgressDisplay {
    pub(crate) fn new(process: &str) -> Self {
        Self {
            status: v1::ProcessStatus { process: process.to_owned(), ..v1::ProcessStatus::default() },
            speed: Speed::default(),
            bars: Vec::new(),
            running: Vec::new(),
            last_failure: None,
            unmet: None,
            is_stuck: false,
            is_cancelled: false,
        }
    }

    pub(crate) fn on_status(&mut self, status: v1::ProcessStatus, now: Duration) {
        self.speed.on_number(status.counts.unwrap_or_default().completed, now);
        self.status = status;
    }

    pub(crate) fn on_cancel(&mut self) {
        self.is_cancelled = true;
    }

    /// If all elements wait for workers that are not connected: one of them, and why.
    pub(crate) fn stuck(&self) -> Option<&str> {
        self.unmet.as_deref().filter(|_| self.is_stuck)
    }

    /// A tree arrives, at this time of the process and of the clock. Where nobody knows since when an element runs, the display
    /// counts from the first tree that shows it.
    pub(crate) fn on_tree(&mut self, process: &v1::Element, now: Duration, clock_ms: u64) {
        let known: HashMap<String, i64> = self.running.drain(..).map(|it| (it.path, it.began_ms)).collect();
        let now_ms = now.as_millis() as i64;
        (self.unmet, self.is_stuck) = (None, true);
        let mut level = vec![process];
        while !level.is_empty() {
            for element in &level {
                if element.state() == v1::State::Running && (element.tag == "ACTIVITY" || element.delegated) {
                    let began_ms = match element.running_since_ms {
                        0 => known.get(&element.path).copied().unwrap_or(now_ms),
                        since => now_ms.saturating_sub(clock_ms.saturating_sub(since).min(i64::MAX as u64) as i64),
                    };
                    self.running.push(RunningElement { path: element.path.clone(), began_ms });
                }
                // An element that only waits for its turn is no news.
                let unmet = element.wait_reason.as_ref().filter(|reason| reason.needs_other_workers());
                if let Some(reason) = unmet {
                    self.unmet = Some(format!("{}: {}", self.inner(&element.path), reason));
                }
                // What waits for others goes on when they do.
                let works = element.children.is_empty() && !waits_for_others(element);
                self.is_stuck &= unmet.is_some() || !works;
                if let Some(failure) = &element.failure {
                    self.last_failure = Some(format!("{}: {}", self.inner(&element.path), failure.message));
                }
            }
            level = level.into_iter().flat_map(|element| &element.children).collect();
        }
        self.running.sort_by(|one, other| (one.began_ms, &one.path).cmp(&(other.began_ms, &other.path)));
        let mut before: HashMap<String, Speed> = self.bars.drain(..).map(|it| (it.path, it.speed)).collect();
        self.bars = outermost_counted(process)
            .into_iter()
            .map(|element| {
                let ended = [element.completed, element.failed, element.cancelled].into_iter().flatten().sum();
                let mut speed = before.remove(&element.path).unwrap_or_default();
                speed.on_number(ended, now);
                let unit = if is_loop(element) { "iterations" } else { "elements" };
                CountedProgress { path: element.path.clone(), unit, ended, total: element.total.unwrap_or(0), speed }
            })
            .collect();
    }

    /// The lines of the display: fewer than `height`, each at most `width` columns wide.
    pub(crate) fn lines(&self, now: Duration, width: usize, height: usize) -> Vec<String> {
        let state = match self.status.state() {
            _ if self.is_cancelled => "cancelling",
            v1::State::Unspecified => "starting",
            state => state.word(),
        };
        let name = if self.status.name.is_empty() { String::new() } else { format!("  {}", self.status.name) };
        let mut lines = vec![format!("{}{name}  {state}  {}", self.status.process, duration(now)), self.counts(now)];
        let last = match (&self.status.stalled, &self.unmet, &self.last_failure) {
            (Some(reason), ..) => Some(format!("stands still: {reason}")),
            (None, Some(unmet), _) => Some(format!("waits: {unmet}")),
            (None, None, Some(failure)) => Some(format!("last failure: {failure}")),
            (None, None, None) => None,
        };
        let max_lines = height.saturating_sub(1).clamp(1, MAX_LINES);
        let mut free = max_lines.saturating_sub(lines.len() + usize::from(last.is_some()));
        let shown = self.bars.len().min(MAX_BARS).min(free);
        lines.extend(self.bars(shown, now, width));
        free -= shown;
        if shown < self.bars.len() && free > 0 {
            lines.push(format!("… and {} more loops", self.bars.len() - shown));
            free -= 1;
        }
        let running = self.running.iter().take(free.min(MAX_RUNNING));
        lines.extend(running.map(|element| {
            let ran_ms = (now.as_millis() as i64).saturating_sub(element.began_ms);
            let time = duration(Duration::from_millis(ran_ms.max(0) as u64));
            format!("  {}  {time}", shortened(self.inner(&element.path), width.saturating_sub(time.len() + 4)))
        }));
        lines.extend(last);
        lines.truncate(max_lines);
        lines.iter().map(|line| truncate_str(&plain(line), width, "…").into_owned()).collect()
    }

    /// The first bars, all of the same length.
    fn bars(&self, max_bars: usize, now: Duration, width: usize) -> Vec<String> {
        let shown = || self.bars.iter().take(max_bars);
        let texts: Vec<String> =
            shown().map(|bar| format!("{}  {}", plain(self.inner(&bar.path)), bar.text(now))).collect();
        let widest = texts.iter().map(|text| measure_text_width(text)).max().unwrap_or_default();
        let length = width.saturating_sub(widest + 2).min(MAX_BAR_CHARS);
        if length < MIN_BAR_CHARS {
            return texts;
        }
        let drawn = shown().zip(texts).map(|(CountedProgress { ended, total, .. }, text)| {
            let full = (length as u128 * u128::from(*ended) / u128::from((*total).max(1))).min(length as u128) as usize;
            format!("{}{}  {text}", "█".repeat(full), "░".repeat(length - full))
        });
        drawn.collect()
    }

    fn counts(&self, now: Duration) -> String {
        let counts = self.status.counts.unwrap_or_default();
        let run = counts.completed.saturating_sub(counts.reused);
        let live = counts.running + counts.queued + counts.waiting;
        let others = counts.attempts.saturating_sub(run + counts.failed + live);
        // The tree may show running activities before the status counts them.
        let running = if counts.attempts == 0 { self.running.len() as u64 } else { counts.running };
        let mut text = format!("activities: {} completed, {running} running", counts.completed);
        let more = [
            (counts.queued, "queued"),
            (counts.waiting, "waiting"),
            (counts.held, "held"),
            (counts.reused, "reused"),
            (counts.failed, "failed"),
            (others, "retried or cancelled"),
        ];
        for (count, what) in more {
            if count > 0 {
                text += &format!(", {count} {what}");
            }
        }
        match self.speed.per_second(now) {
            Some(speed) if speed >= 10.0 => text + &format!(" ({speed:.0}/s)"),
            Some(speed) if speed > 0.0 => text + &format!(" ({speed:.1}/s)"),
            _ => text,
        }
    }

    /// A path without the id of the process.
    fn inner<'a>(&self, path: &'a str) -> &'a str {
        path.strip_prefix(&self.status.process).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path)
    }
}

fn is_loop(element: &v1::Element) -> bool {
    matches!(&*element.tag, "FOR" | "WHILE" | "PARFOR" | "PARWHILE")
}

/// The loops with a known number of iterations that are in no other such loop; if there are none, the counted controllers that are
/// in no other one.
fn outermost_counted(process: &v1::Element) -> Vec<&v1::Element> {
    let find = |is_wanted: fn(&v1::Element) -> bool| {
        let (mut found, mut open) = (Vec::new(), vec![process]);
        while let Some(element) = open.pop() {
            match element.total.is_some_and(|total| total > 0) && is_wanted(element) {
                true => found.push(element),
                false => open.extend(element.children.iter().rev()),
            }
        }
        found
    };
    let loops = find(is_loop);
    if loops.is_empty() { find(|element| element.tag != "PROCESS") } else { loops }
}

/// How fast a number grows, as an average over the last seconds.
#[derive(Default)]
struct Speed {
    /// Times and numbers; the oldest first.
    seen: VecDeque<(Duration, u64)>,
}

impl Speed {
    fn on_number(&mut self, number: u64, now: Duration) {
        self.seen.push_back((now, number));
        // The number at the beginning of the window, or the last before it, stays.
        while self.seen.get(1).is_some_and(|(then, _)| now.saturating_sub(*then) >= SPEED_WINDOW) {
            self.seen.pop_front();
        }
    }

    /// `None` before half a second of numbers is known.
    fn per_second(&self, now: Duration) -> Option<f64> {
        let ((then, first), (_, last)) = (self.seen.front()?, self.seen.back()?);
        let seconds = now.saturating_sub(*then).as_secs_f64();
        (seconds >= 0.5).then(|| last.saturating_sub(*first) as f64 / seconds)
    }
}

/// The element waits for elements around or beside it.
fn waits_for_others(element: &v1::Element) -> bool {
    use v1::wait_reason::Kind;
    let reason = element.wait_reason.as_ref().and_then(|reason| reason.kind.as_ref());
    matches!(reason, Some(Kind::Siblings(_) | Kind::Room(_) | Kind::Paused(_)))
}

/// A text in one line, without characters that control a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || is_active(c) { ' ' } else { c }).collect()
}

/// A path without its beginning, if it is too wide: its end says more.
fn shortened(path: &str, width: usize) -> String {
    let mut rest = path;
    while measure_text_width(rest) + 2 > width {
        let Some((_, shorter)) = rest.split_once('/') else { break };
        rest = shorter;
    }
    if rest == path || measure_text_width(path) <= width { path.to_owned() } else { format!("…/{rest}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const CLOCK_MS: u64 = 1_700_000_000_000;

    fn status(completed: u64, running: u64) -> v1::ProcessStatus {
        let counts = v1::Counts { completed, running, attempts: completed + running, ..v1::Counts::default() };
        v1::ProcessStatus {
            process: "Sweep-1".into(),
            state: v1::State::Running.into(),
            counts: Some(counts),
            ..v1::ProcessStatus::default()
        }
    }

    fn element(path: &str, tag: &str, children: Vec<v1::Element>) -> v1::Element {
        let (path, tag, state) = (path.to_owned(), tag.to_owned(), v1::State::Running.into());
        v1::Element { path, tag, state, children, ..v1::Element::default() }
    }

    fn counted(path: &str, ended: u64, total: u64, children: Vec<v1::Element>) -> v1::Element {
        v1::Element { completed: Some(ended), total: Some(total), ..element(path, "PARFOR", children) }
    }

    fn process(children: Vec<v1::Element>) -> v1::Element {
        element("Sweep-1", "PROCESS", children)
    }

    #[test]
    fn speed_is_an_average_over_the_last_seconds() {
        let mut speed = Speed::default();
        assert_eq!(speed.per_second(SECOND), None);
        speed.on_number(500, Duration::ZERO);
        assert_eq!(speed.per_second(SECOND / 10), None);
        for second in 1..=60 {
            speed.on_number(
                500 + if second <= 30 { 1000 * second } else { 30_000 + (second - 30) },
                SECOND * second as u32,
            );
        }
        assert_eq!(speed.per_second(60 * SECOND), Some(1.0));
        // Nothing completed for a while, and no status arrived.
        assert_eq!(speed.per_second(100 * SECOND), Some(0.2));
    }

    #[test]
    fn a_bar_shows_each_outermost_loop() {
        let mut progress = ProgressDisplay::new("Sweep-1");
        assert_eq!(
            progress.lines(Duration::ZERO, 80, 24),
            ["Sweep-1  starting  0s", "activities: 0 completed, 0 running"]
        );
        progress.on_status(status(0, 0), Duration::ZERO);
        let tree = |ended| {
            process(vec![counted("Sweep-1/all", ended, 100, vec![counted("Sweep-1/all/[1]/in", 5, 9000, vec![])])])
        };
        progress.on_tree(&tree(0), Duration::ZERO, CLOCK_MS);
        progress.on_tree(&tree(25), 5 * SECOND, CLOCK_MS);
        progress.on_status(status(50, 4), 5 * SECOND);
        assert_eq!(
            progress.lines(5 * SECOND, 80, 24),
            [
                "Sweep-1  running  5s",
                "activities: 50 completed, 4 running (10/s)",
                "█████████░░░░░░░░░░░░░░░░░░░░░░░░░░░░░  all  25 of 100 iterations  25%  15s left",
            ]
        );
        // Reused results have no attempts.
        let counts =
            v1::Counts { completed: 50, running: 4, failed: 1, attempts: 40, reused: 20, ..v1::Counts::default() };
        progress.on_status(v1::ProcessStatus { counts: Some(counts), ..status(0, 0) }, 5 * SECOND);
        assert_eq!(
            progress.lines(5 * SECOND, 100, 24)[1],
            "activities: 50 completed, 4 running, 20 reused, 1 failed, 5 retried or cancelled (10/s)"
        );
        // Another loop begins; its speed is not known.
        progress.on_tree(&process(vec![counted("Sweep-1/next", 0, 10, vec![])]), 6 * SECOND, CLOCK_MS);
        assert!(progress.lines(6 * SECOND, 80, 24)[2].ends_with("░  next  0 of 10 iterations  0%"));
        // Several loops at once have a bar each, and the block around them has none.
        let two = vec![counted("Sweep-1/both/a", 1, 2, vec![]), counted("Sweep-1/both/b", 3, 4, vec![])];
        let both = v1::Element { completed: Some(0), total: Some(2), ..element("Sweep-1/both", "PAR", two) };
        progress.on_tree(&process(vec![both]), 6 * SECOND, CLOCK_MS);
        let bars = progress.lines(6 * SECOND, 80, 24)[2..].to_vec();
        assert!(
            bars[0].ends_with("  both/a  1 of 2 iterations  50%")
                && bars[1].ends_with("  both/b  3 of 4 iterations  75%")
        );
        let par = v1::Element { completed: Some(1), total: Some(2), ..element("Sweep-1/par", "PAR", vec![]) };
        progress.on_tree(&process(vec![par]), 6 * SECOND, CLOCK_MS);
        assert!(progress.lines(6 * SECOND, 80, 24)[2].ends_with("  par  1 of 2 elements  50%"));
        progress.on_tree(&process(vec![]), 7 * SECOND, CLOCK_MS);
        assert_eq!(progress.lines(7 * SECOND, 80, 24).len(), 2);
    }

    #[test]
    fn the_oldest_elements_are_shown_and_the_last_failure() {
        let mut progress = ProgressDisplay::new("Sweep-1");
        let activity = |name: &str| element(&format!("Sweep-1/all/{name}"), "ACTIVITY", vec![]);
        progress.on_tree(&process(vec![activity("c"), activity("d")]), SECOND, CLOCK_MS);
        assert_eq!(progress.lines(SECOND, 80, 24)[1], "activities: 0 completed, 2 running");
        let waiting = v1::Element {
            state: v1::State::Waiting.into(),
            failure: Some(v1::Failure { message: "no\x1b[2J luck\nat all".into(), ..v1::Failure::default() }),
            ..activity("w")
        };
        let all = vec![activity("a"), activity("b"), activity("c"), activity("d"), activity("e"), waiting];
        progress.on_tree(&process(vec![counted("Sweep-1/all", 1, 7, all)]), 4 * SECOND, CLOCK_MS);
        let shown = progress.lines(11 * SECOND, 80, 24);
        assert_eq!(
            shown[3..],
            ["  all/c  10s", "  all/d  10s", "  all/a  7s", "last failure: all/w: no [2J luck at all"]
        );
        // A low terminal has the most important lines, and one line is free.
        assert_eq!(progress.lines(11 * SECOND, 80, 5)[2..].len(), 2);
        assert_eq!(progress.lines(11 * SECOND, 80, 5)[3], "last failure: all/w: no [2J luck at all");
        assert_eq!(progress.lines(11 * SECOND, 80, 1), ["Sweep-1  starting  11s"]);
        progress.on_tree(&process(vec![activity("a"), activity("c")]), 12 * SECOND, CLOCK_MS);
        assert_eq!(progress.lines(13 * SECOND, 80, 24)[2..4], ["  all/c  12s", "  all/a  9s"]);
        progress.on_status(
            v1::ProcessStatus {
                stalled: Some(v1::stall_reason::Kind::RepositoryUnavailable("no room".into()).into()),
                ..status(1, 1)
            },
            14 * SECOND,
        );
        progress.on_cancel();
        let lines = progress.lines(14 * SECOND, 80, 24);
        assert_eq!(
            (&*lines[0], &**lines.last().expect("there are lines")),
            ("Sweep-1  cancelling  14s", "stands still: the repository cannot write: no room")
        );
        let reason = "no connected worker has an interpreter for \"R\"";
        let unmet = v1::Requirement::from(v1::requirement::Kind::Interpreter("R".into()));
        let hopeless = v1::Element { wait_reason: Some(v1::wait_reason::Kind::Unmet(unmet).into()), ..activity("h") };
        progress.on_status(status(1, 1), 15 * SECOND);
        progress.on_tree(&process(vec![hopeless]), 15 * SECOND, CLOCK_MS);
        assert_eq!(progress.lines(15 * SECOND, 80, 24).last(), Some(&format!("waits: all/h: {reason}")));
    }

    #[test]
    fn the_time_of_an_activity_counts_from_its_beginning_at_the_worker_and_queued_ones_do_not_run() {
        let mut progress = ProgressDisplay::new("Sweep-1");
        let activity = |name: &str, state: v1::State, ran_ms: u64| v1::Element {
            state: state.into(),
            running_since_ms: CLOCK_MS - ran_ms,
            ..element(&format!("Sweep-1/{name}"), "ACTIVITY", vec![])
        };
        // The display has just begun. One activity has run for a minute, the other began after it was queued.
        let long = activity("long", v1::State::Running, 60_000);
        progress.on_tree(&process(vec![long.clone(), activity("next", v1::State::Queued, 0)]), 9 * SECOND, CLOCK_MS);
        assert_eq!(progress.lines(9 * SECOND, 80, 24)[2..], ["  long  1m 00s"]);
        let next = activity("next", v1::State::Running, 0);
        progress.on_tree(&process(vec![long, next]), 12 * SECOND, CLOCK_MS + 3000);
        assert_eq!(progress.lines(12 * SECOND, 80, 24)[2..], ["  long  1m 03s", "  next  3s"]);
        let placing = v1::Element { delegated: true, ..activity("there", v1::State::Waiting, 0) };
        progress.on_tree(&process(vec![placing]), 13 * SECOND, CLOCK_MS + 4000);
        assert_eq!(progress.lines(13 * SECOND, 80, 24).len(), 2, "nothing runs");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut progress = ProgressDisplay::new("Sweep-1");
        let path = format!("Sweep-1/{}last", "some/[12]/".repeat(20));
        let wide = element("Sweep-1/名前名前名前名前名前名前", "ACTIVITY", vec![]);
        let inner = element(&path, "ACTIVITY", vec![]);
        progress.on_status(status(1 << 40, 1 << 40), SECOND);
        progress.on_tree(&process(vec![counted("Sweep-1/all", 1 << 40, 1 << 41, vec![inner, wide])]), SECOND, CLOCK_MS);
        progress.on_status(status(1 << 41, 1 << 40), 2 * SECOND);
        for width in 1..200 {
            for line in progress.lines(3 * SECOND, width, 24) {
                assert!(measure_text_width(&line) <= width, "{width}: {line:?}");
            }
        }
        assert_eq!(progress.lines(3 * SECOND, 40, 24)[3], "  …/[12]/some/[12]/some/[12]/last  2s");
    }
}
