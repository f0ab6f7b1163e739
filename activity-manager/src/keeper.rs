//! The thread that writes answers. While it waits for the disk others gather, and are written together next time; so do
//! they while the manager has much to do.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{info, warn};

use crate::answers::{Answers, Record};
use crate::books::Key;

/// How long it waits before it tries again what did not succeed.
const PAUSE: Duration = Duration::from_secs(1);
/// How long it waits for more at most.
const GATHERING: Duration = Duration::from_millis(20);

#[derive(Default)]
struct Desired {
    records: Vec<Record>,
    /// It is not worth while to wait for more than so many.
    enough: usize,
    trouble: Option<String>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    desired: Mutex<Desired>,
    changed: Condvar,
}

impl Shared {
    /// Nothing in it can be half done.
    fn desired(&self) -> MutexGuard<'_, Desired> {
        self.desired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next records to be written; nothing if there will be no more.
    fn next(&self) -> Option<Vec<Record>> {
        let more = self.changed.wait_while(self.desired(), |desired| desired.records.is_empty() && !desired.closed);
        let some = more.unwrap_or_else(PoisonError::into_inner);
        let few = |desired: &mut Desired| desired.records.len() < desired.enough && !desired.closed;
        let many = self.changed.wait_timeout_while(some, GATHERING, few);
        let (mut desired, _) = many.unwrap_or_else(PoisonError::into_inner);
        let records = std::mem::take(&mut desired.records);
        (!records.is_empty()).then_some(records)
    }

    /// Writes these, however often it takes; false if there is nobody to wait for it any more.
    fn write(&self, answers: &mut Answers, records: &[Record]) -> bool {
        while let Err(error) = answers.write(records) {
            warn!(%error, answers = records.len(), "answers cannot be kept, so they are not sent");
            let mut desired = self.desired();
            desired.trouble = Some(format!("answers cannot be kept: {error}"));
            let closed = self.changed.wait_timeout_while(desired, PAUSE, |desired| !desired.closed);
            if closed.unwrap_or_else(PoisonError::into_inner).0.closed {
                return false;
            }
        }
        if self.desired().trouble.take().is_some() {
            info!("answers can be kept again");
        }
        true
    }
}

/// Has answers written. When it is dropped, what it was given is still written, if it can be.
pub(crate) struct Keeper(Arc<Shared>);

impl Keeper {
    /// Begins; `kept` hears which answers are safe.
    pub fn new(mut answers: Answers, mut kept: impl FnMut(Vec<Key>) + Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let keeper = Self(shared.clone());
        std::thread::Builder::new().name("keeper".into()).spawn(move || {
            while let Some(records) = shared.next() {
                if !shared.write(&mut answers, &records) {
                    return;
                }
                let keys = records.into_iter().filter_map(|record| match record {
                    Record::Answer(key, ..) => Some(key),
                    Record::Forgotten(_) => None,
                });
                kept(keys.collect());
            }
        })?;
        Ok(keeper)
    }

    /// Returns at once. They are written when there are `enough`, or after a little while.
    pub fn write(&self, records: Vec<Record>, enough: usize) {
        if records.is_empty() {
            return;
        }
        let mut desired = self.0.desired();
        let first = desired.records.is_empty();
        desired.records.extend(records);
        desired.enough = enough;
        if first || desired.records.len() >= enough {
            self.0.changed.notify_all();
        }
    }

    /// Why nothing can be written at the moment.
    pub fn trouble(&self) -> Option<String> {
        self.0.desired().trouble.clone()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.desired().closed = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use xavantes_proto::v1;

    use super::*;

    fn record(element: u64) -> Record {
        let key = Key::new(&"r".into(), &v1::AttemptId { process: "p".into(), element, attempt: 1 });
        let answer = key.answer(v1::answer::Outcome::Cancelled(v1::Nothing {}));
        Record::Answer(key, "g/a".into(), Arc::new(answer))
    }

    /// A keeper, and the elements whose answers are safe.
    fn keep(answers: Answers) -> (Keeper, mpsc::Receiver<u64>) {
        let (sender, safe) = mpsc::channel();
        let keeper = Keeper::new(answers, move |keys| {
            for key in keys {
                sender.send(key.element).expect("the test listens");
            }
        });
        (keeper.expect("there are threads"), safe)
    }

    #[test]
    fn answers_are_not_safe_before_they_can_be_written() {
        let path = std::env::temp_dir().join(format!("xavantes-keeper-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let answers = Answers::open(&path).expect("it can be opened");
        let (keeper, safe) = keep(answers);
        let soon = Duration::from_secs(60);
        keeper.write(vec![record(1)], 0);
        assert_eq!(safe.recv_timeout(soon), Ok(1));
        assert_eq!(keeper.trouble(), None);
        // A folder that is gone takes no new file. The open one does not mind, so begin another time.
        drop(keeper);
        assert!(safe.recv_timeout(soon).is_err(), "the thread ends");
        let answers = Answers::open(&path).expect("it can be opened");
        std::fs::remove_dir_all(&path).expect("it is there");
        let (keeper, safe) = keep(answers);
        keeper.write(vec![record(2)], 0);
        keeper.write(vec![record(3)], 0);
        while keeper.trouble().is_none() {
            assert!(safe.try_recv().is_err(), "it cannot be safe");
            std::thread::yield_now();
        }
        std::fs::create_dir_all(&path).expect("there is room");
        assert_eq!((safe.recv_timeout(soon), safe.recv_timeout(soon)), (Ok(2), Ok(3)));
        drop(keeper);
        let _ = std::fs::remove_dir_all(&path);
    }
}
