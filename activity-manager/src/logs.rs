//! What attempts write, in files with a limit, for as long as there is room: the beginning of each is kept, and its end.
//!
//! A file of a stream that is larger than the limit has two halves. The first is the beginning; in the second the newest
//! takes the place of the oldest, round and round. What is in no file has no file.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tracing::warn;
use xavantes_proto::v1;

/// Attempts that are remembered at most; each takes some hundred bytes of memory.
const MOST_KEPT: usize = 20_000;
/// The index is written anew when it is so large: it has lines of attempts that are forgotten.
const LARGE_INDEX: u64 = 16 << 20;
/// Bytes that are read at once.
pub(crate) const PIECE: usize = 64 << 10;
/// Last lines are looked for in so many last bytes.
const LAST_LINES_WITHIN: u64 = 1 << 20;

/// How much is kept, and for how long.
#[derive(Debug, Clone)]
pub struct Rules {
    /// Bytes of each stream of an attempt.
    pub limit: u64,
    /// Bytes of all together.
    pub total: u64,
    /// Not longer than this.
    pub age: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self { limit: 16 << 20, total: 1 << 30, age: Duration::from_secs(30 * 24 * 3600) }
    }
}

/// What an attempt writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Stdout,
    Stderr,
}

impl Which {
    pub const ALL: [Self; 2] = [Self::Stdout, Self::Stderr];

    fn suffix(self) -> &'static str {
        ["out", "err"][self as usize]
    }
}

/// Whose attempt it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Title {
    pub realm: String,
    /// The path of the element.
    pub path: String,
    pub attempt: u32,
}

/// What is known of an attempt that has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Kept {
    #[serde(flatten)]
    title: Title,
    number: u64,
    began_ms: u64,
    ended_ms: u64,
    state: String,
    /// Bytes that were written to each stream, and how many of them are kept at most.
    written: [u64; 2],
    limit: u64,
    usage: [u64; 6],
    node: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
}

impl Kept {
    fn size(&self) -> u64 {
        self.written.iter().map(|written| written.min(&self.limit)).sum()
    }

    fn record(&self) -> v1::AttemptRecord {
        let [wall_ms, user_ms, system_ms, peak_memory, read_bytes, written_bytes] = self.usage;
        v1::AttemptRecord {
            attempt: self.title.attempt,
            began_ms: self.began_ms,
            ended_ms: self.ended_ms,
            state: v1::AttemptState::from_word(&self.state).into(),
            usage: Some(v1::Usage {
                wall_ms,
                user_ms,
                system_ms,
                peak_memory,
                read_bytes,
                written_bytes,
                node: self.node.clone(),
            }),
            stdout_bytes: self.written[0],
            stderr_bytes: self.written[1],
            reason: self.reason.clone(),
        }
    }
}

/// One stream of an attempt that runs.
#[derive(Debug, Default)]
struct Sheet {
    written: u64,
    file: Option<File>,
}

/// The output of an attempt that runs, or ran.
#[derive(Debug)]
pub(crate) struct Log {
    title: Title,
    number: u64,
    began_ms: u64,
    limit: u64,
    folder: PathBuf,
    sheets: [Mutex<Sheet>; 2],
    ended: AtomicBool,
    /// Rings when there is more, and at the end.
    changed: Notify,
}

impl Log {
    /// Something was written. What finds no room is counted, and lost.
    pub fn write(&self, which: Which, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let mut sheet = self.sheet(which);
        if sheet.file.is_none() && sheet.written == 0 {
            let path = file(&self.folder, self.number, which);
            match create(&path) {
                Ok(file) => sheet.file = Some(file),
                Err(error) => warn!(path = %path.display(), %error, "output is not kept"),
            }
        }
        if let Some(file) = &sheet.file {
            for (at, range) in places(sheet.written, data.len(), self.limit) {
                if let Err(error) = file.write_all_at(&data[range], at) {
                    warn!(path = self.title.path, %error, "output is not kept");
                    break;
                }
            }
        }
        sheet.written += data.len() as u64;
        drop(sheet);
        self.changed.notify_waiters();
    }

    fn sheet(&self, which: Which) -> MutexGuard<'_, Sheet> {
        self.sheets[which as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self) -> v1::AttemptRecord {
        v1::AttemptRecord {
            attempt: self.title.attempt,
            began_ms: self.began_ms,
            state: v1::AttemptState::Running.into(),
            stdout_bytes: self.sheet(Which::Stdout).written,
            stderr_bytes: self.sheet(Which::Stderr).written,
            ..v1::AttemptRecord::default()
        }
    }
}

/// Why an attempt failed, in a line.
fn reason(failure: &v1::Failure) -> String {
    let message = failure.message.lines().next().unwrap_or_default();
    match failure.exit_status {
        Some(status) => format!("{message}, exit status {status}"),
        None => message.to_owned(),
    }
}

/// A file of a stream, which may be written to still.
fn create(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let open = || OpenOptions::new().create(true).truncate(true).read(true).write(true).mode(0o600).open(path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(folder) = path.parent() {
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            }
            open()
        }
        opened => opened,
    }
}

fn file(folder: &Path, number: u64, which: Which) -> PathBuf {
    folder.join(format!("{number}.{}", which.suffix()))
}

/// Where new data goes: places in the file, with ranges of the data. Of what would be written over at once, nothing.
fn places(written: u64, len: usize, limit: u64) -> Vec<(u64, std::ops::Range<usize>)> {
    let (head, ring) = (limit - limit / 2, limit / 2);
    let (mut at, end) = (written, written + len as u64);
    let mut places = Vec::new();
    if at < head {
        let until = end.min(head);
        places.push((at, 0..(until - at) as usize));
        at = until;
    }
    if ring == 0 {
        return places;
    }
    at = at.max(end.saturating_sub(ring));
    while at < end {
        let place = (at - head) % ring;
        let count = (ring - place).min(end - at);
        let from = (at - written) as usize;
        places.push((head + place, from..from + count as usize));
        at += count;
    }
    places
}

/// What of a stream can be read from there on: how much is left out before it, and where in the file how many bytes are.
fn readable(from: u64, written: u64, limit: u64) -> (u64, u64, u64) {
    let (head, ring) = (limit - limit / 2, limit / 2);
    if from < head.min(written) {
        return (0, from, head.min(written) - from);
    }
    let oldest = head.max(written.saturating_sub(ring)).min(written);
    let at = from.max(oldest);
    if ring == 0 || at >= written {
        return (written.saturating_sub(from), 0, 0);
    }
    let place = (at - head) % ring;
    (at - from, head + place, (ring - place).min(written - at))
}

/// Attempts, those that run and those that ended.
#[derive(Debug)]
pub(crate) struct Shelf {
    folder: PathBuf,
    rules: Rules,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    live: BTreeMap<u64, Arc<Log>>,
    /// In the order in which they ended.
    kept: VecDeque<Arc<Kept>>,
    size: u64,
    index: Option<File>,
    index_size: u64,
}

/// An attempt whose output can be read.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    Live(Arc<Log>),
    Kept(Arc<Shelf>, u64, u32, [u64; 2], u64),
}

impl Shelf {
    /// In this folder, with what is there already.
    pub fn open(folder: &Path, rules: Rules) -> io::Result<Arc<Self>> {
        let mut state = State::default();
        let index = std::fs::read_to_string(folder.join("index")).unwrap_or_default();
        // A line that was not written to its end is of no use.
        for kept in index.lines().filter_map(|line| serde_json::from_str::<Kept>(line).ok()) {
            state.size += kept.size();
            state.next = state.next.max(kept.number + 1);
            state.kept.push_back(Arc::new(kept));
        }
        let shelf = Self { folder: folder.to_owned(), rules, state: Mutex::new(state) };
        let mut state = shelf.state();
        shelf.forget_old(&mut state);
        shelf.remove_strangers(&mut state);
        if !state.kept.is_empty() {
            shelf.write_index(&mut state)?;
        }
        drop(state);
        Ok(Arc::new(shelf))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files of attempts that nobody knows any more: their node died with them.
    fn remove_strangers(&self, state: &mut State) {
        let known: std::collections::HashSet<u64> = state.kept.iter().map(|kept| kept.number).collect();
        for entry in std::fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.split_once('.')?.0.parse::<u64>().ok());
            if let Some(number) = number.filter(|number| !known.contains(number)) {
                state.next = state.next.max(number + 1);
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }

    /// An attempt begins.
    pub fn begin(&self, title: Title) -> Arc<Log> {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        let log = Arc::new(Log {
            title,
            number,
            began_ms: unix_ms(),
            limit: self.rules.limit,
            folder: self.folder.clone(),
            sheets: Default::default(),
            ended: AtomicBool::new(false),
            changed: Notify::new(),
        });
        state.live.insert(number, log.clone());
        log
    }

    /// An attempt has ended.
    pub fn finish(&self, log: &Log, outcome: &v1::answer::Outcome, usage: &v1::Usage) {
        let (ended, reason) = match outcome {
            v1::answer::Outcome::Completed(_) => (v1::AttemptState::Completed, String::new()),
            v1::answer::Outcome::Failed(failure) => (v1::AttemptState::Failed, reason(failure)),
            _ => (v1::AttemptState::Cancelled, String::new()),
        };
        let kept = Kept {
            title: log.title.clone(),
            number: log.number,
            began_ms: log.began_ms,
            ended_ms: unix_ms(),
            state: ended.word().into(),
            written: Which::ALL.map(|which| {
                let mut sheet = log.sheet(which);
                sheet.file = None;
                sheet.written
            }),
            limit: log.limit,
            usage: [
                usage.wall_ms,
                usage.user_ms,
                usage.system_ms,
                usage.peak_memory,
                usage.read_bytes,
                usage.written_bytes,
            ],
            node: usage.node.clone(),
            reason,
        };
        let mut state = self.state();
        state.live.remove(&log.number);
        state.size += kept.size();
        if let Err(error) = self.append(&mut state, &kept) {
            warn!(%error, "it is not noted that an attempt ended");
        }
        state.kept.push_back(Arc::new(kept));
        self.forget_old(&mut state);
        drop(state);
        log.ended.store(true, Ordering::Release);
        log.changed.notify_waiters();
    }

    fn append(&self, state: &mut State, kept: &Kept) -> io::Result<()> {
        if state.index.is_none() || state.index_size > LARGE_INDEX {
            self.write_index(state)?;
        }
        let mut line = serde_json::to_string(kept)?;
        line.push('\n');
        state.index_size += line.len() as u64;
        match &mut state.index {
            Some(index) => index.write_all(line.as_bytes()),
            None => Ok(()),
        }
    }

    /// Writes the index anew, with what is known now.
    fn write_index(&self, state: &mut State) -> io::Result<()> {
        let mut text = Vec::new();
        for kept in &state.kept {
            serde_json::to_writer(&mut text, &**kept)?;
            text.push(b'\n');
        }
        let path = self.folder.join("index");
        let new = self.folder.join("index-new");
        let mut file = create(&new)?;
        file.write_all(&text)?;
        std::fs::rename(&new, &path)?;
        state.index = Some(file);
        state.index_size = text.len() as u64;
        Ok(())
    }

    /// Removes what is too old, and the oldest of what is too much.
    fn forget_old(&self, state: &mut State) {
        let oldest = unix_ms().saturating_sub(self.rules.age.as_millis() as u64);
        while let Some(first) = state.kept.front()
            && (first.ended_ms < oldest || state.size > self.rules.total || state.kept.len() > MOST_KEPT)
        {
            let first = first.clone();
            state.kept.pop_front();
            state.size = state.size.saturating_sub(first.size());
            for which in Which::ALL.into_iter().filter(|which| first.written[*which as usize] > 0) {
                let _ = std::fs::remove_file(file(&self.folder, first.number, which));
            }
        }
    }

    /// The attempts of an element, in the order in which they began.
    pub fn attempts(&self, realm: &str, path: &str) -> Vec<v1::AttemptRecord> {
        let state = self.state();
        let wanted = |title: &Title| title.realm == realm && title.path == path;
        let kept = state.kept.iter().filter(|kept| wanted(&kept.title)).map(|kept| kept.record());
        let live = state.live.values().filter(|log| wanted(&log.title)).map(|log| log.record());
        let mut all: Vec<_> = kept.chain(live).collect();
        all.sort_by_key(|record| record.began_ms);
        all
    }

    /// The attempt of an element with that number, or its last.
    pub fn find(self: &Arc<Self>, realm: &str, path: &str, attempt: u32) -> Option<Found> {
        let state = self.state();
        let wanted =
            |title: &Title| title.realm == realm && title.path == path && (attempt == 0 || title.attempt == attempt);
        let kept = state.kept.iter().rev().find(|kept| wanted(&kept.title));
        let live = state.live.values().rev().find(|log| wanted(&log.title));
        match (live, kept) {
            (Some(log), _) => Some(Found::Live(log.clone())),
            (None, Some(kept)) => {
                let Kept { number, written, limit, .. } = **kept;
                Some(Found::Kept(self.clone(), number, kept.title.attempt, written, limit))
            }
            (None, None) => None,
        }
    }

    /// Removes everything.
    pub fn close(&self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Found {
    /// Which attempt it is.
    pub fn attempt(&self) -> u32 {
        match self {
            Self::Live(log) => log.title.attempt,
            Self::Kept(_, _, attempt, ..) => *attempt,
        }
    }

    /// No more will be written.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Live(log) => log.ended.load(Ordering::Acquire),
            Self::Kept(..) => true,
        }
    }

    /// Returns when there may be more, or it is over; soon in any case.
    pub async fn changed(&self) {
        if let Self::Live(log) = self {
            let notified = log.changed.notified();
            let _ = tokio::time::timeout(Duration::from_millis(200), notified).await;
        }
    }

    fn written(&self, which: Which) -> u64 {
        match self {
            Self::Live(log) => log.sheet(which).written,
            Self::Kept(_, _, _, written, _) => written[which as usize],
        }
    }

    /// What was written from there on: bytes that are left out, and then some that are kept; none if there are no more.
    pub fn read(&self, which: Which, from: u64) -> io::Result<(u64, Vec<u8>)> {
        match self {
            Self::Live(log) => {
                // Nothing is written meanwhile.
                let sheet = log.sheet(which);
                match &sheet.file {
                    Some(file) => read(file, from, sheet.written, log.limit),
                    // It has just ended.
                    None if sheet.written > 0 => {
                        read(&File::open(file(&log.folder, log.number, which))?, from, sheet.written, log.limit)
                    }
                    None => Ok((0, Vec::new())),
                }
            }
            Self::Kept(_, _, _, written, _) if written[which as usize] == 0 => Ok((0, Vec::new())),
            Self::Kept(shelf, number, _, written, limit) => {
                read(&File::open(file(&shelf.folder, *number, which))?, from, written[which as usize], *limit)
            }
        }
    }

    /// Where so many last lines begin.
    pub fn last_lines(&self, which: Which, lines: u32) -> io::Result<u64> {
        let written = self.written(which);
        let mut at = written.saturating_sub(LAST_LINES_WITHIN);
        let (mut begin, mut text) = (at, Vec::new());
        loop {
            let (left_out, data) = self.read(which, at)?;
            if left_out > 0 {
                (begin, text) = (at + left_out, Vec::new());
            }
            at += left_out + data.len() as u64;
            if data.is_empty() || at > written {
                break;
            }
            text.extend_from_slice(&data);
        }
        let ends = text.strip_suffix(b"\n").unwrap_or(&text).iter().enumerate().rev();
        let mut breaks = ends.filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
        let first = breaks.nth(lines.saturating_sub(1) as usize).map_or(0, |at| at + 1);
        Ok(begin + first as u64)
    }
}

fn read(file: &File, from: u64, written: u64, limit: u64) -> io::Result<(u64, Vec<u8>)> {
    let (left_out, at, count) = readable(from, written, limit);
    let mut data = vec![0; count.min(PIECE as u64) as usize];
    let mut filled = 0;
    while filled < data.len() {
        match file.read_at(&mut data[filled..], at + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    if filled == 0 && !data.is_empty() {
        // There was no room for it.
        return Ok((written - from, Vec::new()));
    }
    data.truncate(filled);
    Ok((left_out, data))
}

pub(crate) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("xavantes-logs-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        path
    }

    fn title(path: &str, attempt: u32) -> Title {
        Title { realm: "r".into(), path: path.into(), attempt }
    }

    /// Everything that can be read, with a mark for what is left out.
    fn whole(found: &Found, which: Which) -> String {
        let (mut at, mut text) = (0, String::new());
        loop {
            let (left_out, data) = found.read(which, at).expect("it can be read");
            if left_out > 0 {
                text += &format!("[{left_out}]");
            }
            text += &String::from_utf8_lossy(&data);
            at += left_out + data.len() as u64;
            if data.is_empty() {
                return text;
            }
        }
    }

    #[test]
    fn beginning_and_end_of_what_is_large_are_kept() {
        let place = place("large");
        let shelf = Shelf::open(&place, Rules { limit: 10, ..Rules::default() }).expect("there is room");
        let (mut written, mut number) = (String::new(), 0);
        let log = shelf.begin(title("p", 1));
        for count in [1, 3, 4, 5, 7, 2, 30, 1, 1] {
            let more: String = (0..count)
                .map(|_| {
                    number += 1;
                    char::from(b'a' + (number % 26) as u8)
                })
                .collect();
            written += &more;
            log.write(Which::Stdout, more.as_bytes());
            let left = written.len().saturating_sub(10);
            let end = &written[5.min(written.len()).max(written.len().saturating_sub(5))..];
            let mark = if left > 0 { format!("[{left}]") } else { String::new() };
            let expected = format!("{}{mark}{end}", &written[..5.min(written.len())]);
            let found = shelf.find("r", "p", 0).expect("it runs");
            assert_eq!(whole(&found, Which::Stdout), expected, "{written}");
            assert_eq!(whole(&found, Which::Stderr), "");
        }
        let completed = v1::answer::Outcome::Completed(v1::Completed::default());
        shelf.finish(&log, &completed, &v1::Usage { wall_ms: 7, node: "n".into(), ..v1::Usage::default() });
        drop(shelf);
        // The same in the next life, which keeps more of others.
        let shelf = Shelf::open(&place, Rules::default()).expect("there is room");
        let found = shelf.find("r", "p", 1).expect("it is kept");
        let end = &written[written.len() - 5..];
        assert_eq!(whole(&found, Which::Stdout), format!("{}[{}]{end}", &written[..5], written.len() - 10));
        let records = shelf.attempts("r", "p");
        assert_eq!((records.len(), records[0].usage.as_ref().map(|usage| usage.wall_ms)), (1, Some(7)));
        assert!(shelf.attempts("other", "p").is_empty() && shelf.find("r", "p", 2).is_none());
        std::fs::remove_dir_all(&place).ok();
    }

    #[test]
    fn last_lines_are_found() {
        let place = place("lines");
        let shelf = Shelf::open(&place, Rules { limit: 20, ..Rules::default() }).expect("there is room");
        let log = shelf.begin(title("p", 1));
        let found = shelf.find("r", "p", 0).expect("it runs");
        assert_eq!(found.last_lines(Which::Stdout, 3).expect("it can be read"), 0);
        log.write(Which::Stdout, b"one\ntwo\nthree\n");
        let last = |lines| found.last_lines(Which::Stdout, lines).expect("it can be read");
        assert_eq!((last(1), last(2), last(3), last(9)), (8, 4, 0, 0));
        log.write(Which::Stdout, b"four\nfive\nsix");
        assert_eq!((last(1), last(2), last(9)), (24, 19, 17));
        std::fs::remove_dir_all(&place).ok();
    }

    #[test]
    fn the_oldest_make_room_and_strangers_are_removed() {
        let place = place("room");
        let rules = Rules { limit: 100, total: 250, ..Rules::default() };
        let shelf = Shelf::open(&place, rules.clone()).expect("there is room");
        for attempt in 1..=4 {
            let log = shelf.begin(title("p", attempt));
            log.write(Which::Stderr, &[b'x'; 1000]);
            let failed = v1::Failure { message: "no\nmore".into(), exit_status: Some(3), ..v1::Failure::default() };
            assert_eq!(reason(&failed), "no, exit status 3");
            shelf.finish(&log, &v1::answer::Outcome::Failed(failed), &v1::Usage::default());
        }
        let kept = |shelf: &Shelf| shelf.attempts("r", "p").iter().map(|it| it.attempt).collect::<Vec<_>>();
        assert_eq!(kept(&shelf), [3, 4]);
        let lost = shelf.begin(title("p", 5));
        lost.write(Which::Stdout, b"its node dies");
        let files = || std::fs::read_dir(&place).expect("it is there").count();
        assert_eq!(files(), 4);
        let shelf = Shelf::open(&place, rules).expect("there is room");
        assert_eq!((kept(&shelf), files()), (vec![3, 4], 3));
        let next = shelf.begin(title("p", 6));
        assert!(next.number > lost.number);
        let old = Rules { age: Duration::ZERO, ..Rules::default() };
        std::thread::sleep(Duration::from_millis(5));
        assert!(kept(&Shelf::open(&place, old).expect("there is room")).is_empty());
        std::fs::remove_dir_all(&place).ok();
    }
}
