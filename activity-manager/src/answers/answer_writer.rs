//! The thread that writes answers. Answers that arrive while it writes go into the next write together. While the worker is
//! busy, the thread also waits a little for more answers. If the disk takes nothing, the thread says so, keeps the answers
//! and tries again.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tracing::{info, warn};

use super::answer_log::AnswerLog;
use super::answer_record::AnswerRecord;
use crate::attempts::realm_attempt::RealmAttempt;

/// Time between two tries of a write that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time that an answer waits for others.
const MAX_BATCH_DELAY: Duration = Duration::from_millis(20);

/// What the writer reports.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WriterReport {
    /// The answers of these attempts are durable.
    Persisted(Vec<RealmAttempt>),
    /// The answers of these attempts could not be written, for this reason. The writer keeps them and tries again.
    Unwritable(String, Vec<RealmAttempt>),
    /// Answers can be written again.
    Writable,
}

#[derive(Default)]
struct WriterQueue {
    records: Vec<AnswerRecord>,
    /// Number of records for which the thread does not wait for more.
    batch: usize,
    closed: bool,
}

#[derive(Default)]
struct WriterState {
    queue: Mutex<WriterQueue>,
    changed: Condvar,
}

impl WriterState {
    /// The records of the next write, or `None` when the writer is closed.
    fn next(&self) -> Option<Vec<AnswerRecord>> {
        let mut queue = self.queue.lock();
        self.changed.wait_while(&mut queue, |queue| queue.records.is_empty() && !queue.closed);
        let few = |queue: &mut WriterQueue| queue.records.len() < queue.batch && !queue.closed;
        self.changed.wait_while_for(&mut queue, few, MAX_BATCH_DELAY);
        let records = std::mem::take(&mut queue.records);
        (!records.is_empty()).then_some(records)
    }

    /// Writes records, and tries again until it succeeds, together with the records that arrive meanwhile. Returns false if
    /// the writer was closed before.
    fn write(
        &self,
        answers: &mut AnswerLog,
        records: &mut Vec<AnswerRecord>,
        report: &mut impl FnMut(WriterReport),
    ) -> bool {
        // Number of records whose writing has failed.
        let mut failed = 0;
        while let Err(error) = answers.write(records) {
            if failed == 0 {
                warn!(%error, "could not write answers; this worker takes no work until it can");
            }
            report(WriterReport::Unwritable(error.to_string(), attempts(&records[failed..])));
            failed = records.len();
            let mut queue = self.queue.lock();
            let nothing_new = |queue: &mut WriterQueue| queue.records.is_empty() && !queue.closed;
            self.changed.wait_while_for(&mut queue, nothing_new, RETRY_INTERVAL);
            if queue.closed {
                return false;
            }
            records.append(&mut queue.records);
        }
        if failed > 0 {
            info!("answers can be written again");
            report(WriterReport::Writable);
        }
        true
    }
}

/// The attempts whose answers are among these records.
fn attempts(records: &[AnswerRecord]) -> Vec<RealmAttempt> {
    records.iter().cloned().filter_map(AnswerRecord::into_answered).collect()
}

/// Writes answers in the background. A dropped writer still writes what it was given, if the disk allows it.
pub(crate) struct AnswerWriter(Arc<WriterState>);

impl AnswerWriter {
    /// Starts the thread, which calls `report` with what became of answers.
    pub fn new(mut answers: AnswerLog, mut report: impl FnMut(WriterReport) + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::<WriterState>::default();
        let writer = Self(shared.clone());
        std::thread::Builder::new().name("answer-writer".into()).spawn(move || {
            while let Some(mut records) = shared.next() {
                if !shared.write(&mut answers, &mut records, &mut report) {
                    return;
                }
                let persisted = records.into_iter().filter_map(AnswerRecord::into_answered);
                report(WriterReport::Persisted(persisted.collect()));
            }
        })?;
        Ok(writer)
    }

    /// Queues records and returns at once. The thread writes them when `batch` records wait, or after a short delay.
    pub fn write(&self, records: Vec<AnswerRecord>, batch: usize) {
        if records.is_empty() {
            return;
        }
        let mut queue = self.0.queue.lock();
        let first = queue.records.is_empty();
        queue.records.extend(records);
        queue.batch = batch;
        if first || queue.records.len() >= batch {
            self.0.changed.notify_all();
        }
    }
}

impl Drop for AnswerWriter {
    fn drop(&mut self) {
        self.0.queue.lock().closed = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use xavantes_proto::v1;

    use super::*;
    use crate::attempts::action::OwnedAnswer;

    fn record(element: u64) -> AnswerRecord {
        let attempt = RealmAttempt::new(&"r".into(), &v1::AttemptId { process: "p".into(), element, attempt: 1 });
        let answer = Arc::new(attempt.answer(v1::answer::Outcome::Cancelled(v1::Nothing {})));
        AnswerRecord::Answer(OwnedAnswer { attempt, owner: "g/a".into(), answer })
    }

    /// A writer, and its reports: the kind and the elements of each.
    fn start(answers: AnswerLog) -> (AnswerWriter, mpsc::Receiver<(&'static str, Vec<u64>)>) {
        let (sender, reports) = mpsc::channel();
        let writer = AnswerWriter::new(answers, move |report| {
            let (kind, attempts) = match report {
                WriterReport::Persisted(attempts) => ("persisted", attempts),
                WriterReport::Unwritable(_, attempts) => ("unwritable", attempts),
                WriterReport::Writable => ("writable", Vec::new()),
            };
            let elements = attempts.iter().map(|attempt| attempt.key.element).collect();
            sender.send((kind, elements)).expect("the test listens");
        });
        (writer.expect("a thread starts"), reports)
    }

    #[test]
    fn answers_that_cannot_be_written_are_reported_once_and_written_later() {
        let parent = tempfile::tempdir().expect("the disk has space");
        let path = parent.path().join("answers");
        let answers = AnswerLog::open(&path).expect("the log opens");
        let (writer, reports) = start(answers);
        let next = |reports: &mpsc::Receiver<_>| reports.recv_timeout(Duration::from_secs(60));
        writer.write(vec![record(1)], 0);
        assert_eq!(next(&reports), Ok(("persisted", vec![1])));
        // A removed folder takes no new file. Records could still go to the open file, so the test starts another writer.
        drop(writer);
        assert!(next(&reports).is_err(), "the thread ends");
        let answers = AnswerLog::open(&path).expect("the log opens");
        std::fs::remove_dir_all(&path).expect("the folder exists");
        let (writer, reports) = start(answers);
        writer.write(vec![record(2)], 0);
        assert_eq!(next(&reports), Ok(("unwritable", vec![2])));
        writer.write(vec![record(3)], 0);
        assert_eq!(next(&reports), Ok(("unwritable", vec![3])));
        std::fs::create_dir_all(&path).expect("the disk has space");
        let writable = std::iter::repeat_with(|| next(&reports)).find(|it| *it != Ok(("unwritable", Vec::new())));
        assert_eq!(writable, Some(Ok(("writable", Vec::new()))));
        assert_eq!(next(&reports), Ok(("persisted", vec![2, 3])));
    }
}
