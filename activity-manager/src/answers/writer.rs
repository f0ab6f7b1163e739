//! The thread that writes answers. Answers that arrive while it writes go into the next write together. While the worker is
//! busy, the thread also waits a little for more answers.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tracing::{info, warn};

use super::log::AnswerLog;
use super::record::AnswerRecord;
use crate::attempts::realm_attempt::RealmAttempt;

/// Time between two tries of a write that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time that an answer waits for others.
const MAX_BATCH_DELAY: Duration = Duration::from_millis(20);

#[derive(Default)]
struct WriterQueue {
    records: Vec<AnswerRecord>,
    /// Number of records for which the thread does not wait for more.
    batch: usize,
    /// Why the last write failed.
    error: Option<String>,
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

    /// Writes records, and tries again until it succeeds. Returns false if the writer was closed before.
    fn write(&self, answers: &mut AnswerLog, records: &[AnswerRecord]) -> bool {
        while let Err(error) = answers.write(records) {
            warn!(%error, answers = records.len(), "could not write answers; they are not sent");
            let mut queue = self.queue.lock();
            queue.error = Some(format!("answers cannot be written: {error}"));
            self.changed.wait_while_for(&mut queue, |queue| !queue.closed, RETRY_INTERVAL);
            if queue.closed {
                return false;
            }
        }
        if self.queue.lock().error.take().is_some() {
            info!("answers can be written again");
        }
        true
    }
}

/// Writes answers in the background. A dropped writer still writes what it was given, if the disk allows it.
pub(crate) struct AnswerWriter(Arc<WriterState>);

impl AnswerWriter {
    /// Starts the thread, which calls `on_persisted` with the attempts whose answers are durable.
    pub fn new(
        mut answers: AnswerLog,
        mut on_persisted: impl FnMut(Vec<RealmAttempt>) + Send + 'static,
    ) -> std::io::Result<Self> {
        let shared = Arc::<WriterState>::default();
        let writer = Self(shared.clone());
        std::thread::Builder::new().name("answer-writer".into()).spawn(move || {
            while let Some(records) = shared.next() {
                if !shared.write(&mut answers, &records) {
                    return;
                }
                let attempts = records.into_iter().filter_map(|record| match record {
                    AnswerRecord::Answer(answer) => Some(answer.attempt),
                    AnswerRecord::Forgotten(_) => None,
                });
                on_persisted(attempts.collect());
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

    /// Why answers cannot be written at the moment.
    pub fn error(&self) -> Option<String> {
        self.0.queue.lock().error.clone()
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

    /// A writer, and the elements whose answers are durable.
    fn start(answers: AnswerLog) -> (AnswerWriter, mpsc::Receiver<u64>) {
        let (sender, durable) = mpsc::channel();
        let writer = AnswerWriter::new(answers, move |attempts| {
            for attempt in attempts {
                sender.send(attempt.key.element).expect("the test listens");
            }
        });
        (writer.expect("a thread starts"), durable)
    }

    #[test]
    fn answers_are_not_durable_before_they_can_be_written() {
        let parent = tempfile::tempdir().expect("the disk has space");
        let path = parent.path().join("answers");
        let answers = AnswerLog::open(&path).expect("the log opens");
        let (writer, durable) = start(answers);
        let limit = Duration::from_secs(60);
        writer.write(vec![record(1)], 0);
        assert_eq!(durable.recv_timeout(limit), Ok(1));
        assert_eq!(writer.error(), None);
        // A removed folder takes no new file. Records could still go to the open file, so the test starts another writer.
        drop(writer);
        assert!(durable.recv_timeout(limit).is_err(), "the thread ends");
        let answers = AnswerLog::open(&path).expect("the log opens");
        std::fs::remove_dir_all(&path).expect("the folder exists");
        let (writer, durable) = start(answers);
        writer.write(vec![record(2)], 0);
        writer.write(vec![record(3)], 0);
        while writer.error().is_none() {
            assert!(durable.try_recv().is_err(), "the answer cannot be durable");
            std::thread::yield_now();
        }
        std::fs::create_dir_all(&path).expect("the disk has space");
        assert_eq!((durable.recv_timeout(limit), durable.recv_timeout(limit)), (Ok(2), Ok(3)));
    }
}
