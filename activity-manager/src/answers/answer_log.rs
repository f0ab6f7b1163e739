//! The answer log: append-only files of records.
//!
//! Writes survive a crash of this process, but do not wait for the disk: if the power fails, a lost answer costs a
//! repetition of its attempt, never a result. When the files hold mostly forgotten answers, the needed ones move to a new
//! file, and the others are deleted.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::warn;
use xavantes_proto::v1;

use super::answer_record::{AnswerRecord, HEADER_BYTES, scan};
use crate::attempts::action::OwnedAnswer;
use crate::attempts::realm_attempt::RealmAttempt;

/// Total size up to which the files are never rewritten. Above it they are, when less than a quarter is needed.
const COMPACTION_BYTES: u64 = 16 << 20;
/// Upper bound on the number of files: each start of the worker begins a new one.
const MAX_FILES: usize = 16;
/// Size of the buffer that is written at once.
const WRITE_BUFFER_BYTES: usize = 1 << 20;

/// An answer that no coordinator acknowledged.
#[derive(Debug, Clone, PartialEq)]
struct NeededAnswer {
    owner: Arc<str>,
    answer: Arc<v1::Answer>,
    /// Size of the record.
    bytes: u64,
}

/// The file that new records go to.
struct ActiveFile {
    file: File,
    path: PathBuf,
    /// End of the last complete write. Bytes behind it do not count.
    length: u64,
}

/// The answer log of a worker.
pub(crate) struct AnswerLog {
    folder: PathBuf,
    /// Locked while it is open, so that no other process uses the folder.
    _lock: File,
    needed: HashMap<RealmAttempt, NeededAnswer>,
    /// Size of all needed records.
    needed_bytes: u64,
    /// Files that get no more records, oldest first.
    older: Vec<PathBuf>,
    older_bytes: u64,
    active: Option<ActiveFile>,
    last_number: u64,
}

impl AnswerLog {
    /// Opens the folder, which is created if it does not exist, and reads its records.
    pub fn open(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let lock = File::create(folder.join("lock"))?;
        lock.try_lock().map_err(|error| {
            let error = io::Error::from(error);
            io::Error::new(error.kind(), format!("{} is in use by another program: {error}", folder.display()))
        })?;
        let mut answers = Self {
            folder: folder.to_owned(),
            _lock: lock,
            needed: HashMap::new(),
            needed_bytes: 0,
            older: Vec::new(),
            older_bytes: 0,
            active: None,
            last_number: 0,
        };
        let mut numbers = Vec::new();
        for entry in fs::read_dir(folder)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("answers-")?.parse::<u64>().ok());
            numbers.extend(number);
        }
        numbers.sort_unstable();
        for number in numbers {
            answers.read(number);
        }
        if answers.needed.is_empty() {
            answers.delete_older();
        }
        Ok(answers)
    }

    /// The answers that no coordinator acknowledged.
    pub fn needed(&self) -> impl Iterator<Item = OwnedAnswer> {
        self.needed.iter().map(|(attempt, needed)| OwnedAnswer {
            attempt: attempt.clone(),
            owner: needed.owner.clone(),
            answer: needed.answer.clone(),
        })
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("answers-{number}"))
    }

    fn read(&mut self, number: u64) {
        let path = self.path(number);
        self.last_number = number;
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            // The coordinators of lost answers have the attempts run again.
            Err(error) => {
                warn!(path = %path.display(), %error, "cannot read an answer log; its answers are lost");
                return;
            }
        };
        let mut damaged = Vec::new();
        let end = scan(
            &bytes,
            |body| match AnswerRecord::decode(body) {
                Some(record) => self.on_stored(&record, (HEADER_BYTES + body.len()) as u64),
                None => warn!(path = %path.display(), "ignored an answer record of unknown kind"),
            },
            |offset| damaged.push(offset),
        );
        for offset in damaged {
            // The coordinator of a lost answer has the attempt run again.
            if offset < end {
                warn!(path = %path.display(), offset, "answer log is damaged; an answer may be lost");
            } else {
                let bytes = bytes.len() - end;
                warn!(path = %path.display(), offset, bytes, "answer log ends with an incomplete record; cutting it off");
                if let Err(error) = OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(end as u64))
                {
                    warn!(path = %path.display(), %error, "could not cut off the end of an answer log");
                }
            }
        }
        self.older.push(path);
        self.older_bytes += end as u64;
    }

    /// A record of that size is on disk.
    fn on_stored(&mut self, record: &AnswerRecord, bytes: u64) {
        let former = match record {
            AnswerRecord::Answer(OwnedAnswer { attempt, owner, answer }) => {
                self.needed_bytes += bytes;
                let needed = NeededAnswer { owner: owner.clone(), answer: answer.clone(), bytes };
                self.needed.insert(attempt.clone(), needed)
            }
            AnswerRecord::Forgotten(attempt) => self.needed.remove(attempt),
        };
        self.needed_bytes -= former.map_or(0, |former| former.bytes);
    }

    /// Writes records. When this returns, the answers survive a crash of this process. After an error the state of
    /// these records is unknown: the caller must write them again.
    pub fn write(&mut self, records: &[AnswerRecord]) -> io::Result<()> {
        let mut active = match self.active.take() {
            Some(active) => active,
            None => self.create_file()?,
        };
        match active.append(records) {
            Ok(sizes) => {
                self.active = Some(active);
                records.iter().zip(sizes).for_each(|(record, bytes)| self.on_stored(record, bytes));
            }
            Err(error) => {
                // The content of a file is uncertain after a failed write, so the next records go to another file.
                self.retire(active);
                return Err(error);
            }
        }
        let total = self.older_bytes + self.active.as_ref().map_or(0, |active| active.length);
        if (total > COMPACTION_BYTES && self.needed_bytes < total / 4) || self.older.len() >= MAX_FILES {
            // A failure does no harm: all records are still in the old files.
            if let Err(error) = self.compact() {
                warn!(path = %self.folder.display(), %error, "could not compact the answer log");
            }
        }
        Ok(())
    }

    fn create_file(&mut self) -> io::Result<ActiveFile> {
        self.last_number += 1;
        let path = self.path(self.last_number);
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let active = ActiveFile { file, path, length: 0 };
        // The name of the file must be durable, too.
        match File::open(&self.folder).and_then(|folder| folder.sync_all()) {
            Ok(()) => Ok(active),
            Err(error) => {
                self.retire(active);
                Err(error)
            }
        }
    }

    /// No more records go to this file.
    fn retire(&mut self, active: ActiveFile) {
        if active.length == 0 {
            let _ = fs::remove_file(&active.path);
        } else {
            let _ = active.file.set_len(active.length);
            self.older_bytes += active.length;
            self.older.push(active.path);
        }
    }

    /// Moves the needed answers to a new file and deletes all others.
    fn compact(&mut self) -> io::Result<()> {
        let records: Vec<AnswerRecord> = self.needed().map(AnswerRecord::Answer).collect();
        let mut new = self.create_file()?;
        if let Err(error) = new.append(&records) {
            let _ = fs::remove_file(&new.path);
            return Err(error);
        }
        if let Some(active) = self.active.replace(new) {
            self.retire(active);
        }
        self.delete_older();
        Ok(())
    }

    /// Deletes the oldest file first: a record that forgets an answer must not go before that answer.
    fn delete_older(&mut self) {
        for path in self.older.drain(..) {
            if let Err(error) = fs::remove_file(&path) {
                warn!(path = %path.display(), %error, "could not delete an old answer log");
            }
        }
        self.older_bytes = 0;
    }
}

impl ActiveFile {
    /// Appends records. Returns their sizes.
    fn append(&mut self, records: &[AnswerRecord]) -> io::Result<Vec<u64>> {
        let (mut buffer, mut sizes, mut end) = (Vec::new(), Vec::with_capacity(records.len()), self.length);
        for record in records {
            let before = buffer.len();
            record.encode(&mut buffer);
            sizes.push((buffer.len() - before) as u64);
            if buffer.len() >= WRITE_BUFFER_BYTES {
                self.file.write_all_at(&buffer, end)?;
                end += buffer.len() as u64;
                buffer.clear();
            }
        }
        self.file.write_all_at(&buffer, end)?;
        end += buffer.len() as u64;
        self.length = end;
        Ok(sizes)
    }
}
