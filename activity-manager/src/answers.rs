//! Answers on disk, so that they outlive the program until they are acknowledged.
//!
//! Files that are only ever appended to: each record is an answer with its owner, or says that one is not needed any
//! more. They outlive the program, but nobody waits for the disk: should the power fail, an answer that is lost costs a
//! repetition of its attempt, never a result. When most of what they hold is not needed, what is needed goes into a new file, and the others are deleted.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tracing::warn;
use xavantes_proto::{MAX_PART_BYTES, MAX_PAYLOAD_BYTES, Message, v1};

use crate::books::Key;

/// The files may be so large together, or four times what is needed of them.
const MOST_BYTES: u64 = 16 << 20;
/// Each start begins a file; there are at most so many.
const MOST_FILES: usize = 16;
/// Written in pieces of about this size.
const PIECE: usize = 1 << 20;
/// Before each record: a mark by which records are found behind damage, the length and the checksum.
const HEADER: usize = 12;
const MARK: [u8; 4] = *b"\xabans";
/// No record is larger.
const LARGEST: usize = MAX_PAYLOAD_BYTES + MAX_PART_BYTES;

const ANSWER: u8 = 1;
const FORGOTTEN: u8 = 2;

/// Something to be written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Record {
    /// The answer to an attempt, and the coordinator that it is for.
    Answer(Key, Arc<str>, Arc<v1::Answer>),
    /// The answer to that attempt is not needed any more.
    Forgotten(Key),
}

impl Record {
    fn encode(&self, into: &mut Vec<u8>) {
        let start = into.len();
        into.extend_from_slice(&[0; HEADER]);
        let (kind, key, other) = match self {
            Self::Answer(key, owner, _) => (ANSWER, key, owner),
            Self::Forgotten(key) => (FORGOTTEN, key, &key.process),
        };
        into.push(kind);
        for text in [&key.realm, other] {
            into.extend_from_slice(&(text.len() as u32).to_le_bytes());
            into.extend_from_slice(text.as_bytes());
        }
        match self {
            // There is always room in memory for an answer that is in memory.
            Self::Answer(_, _, answer) => drop(answer.encode(into)),
            Self::Forgotten(key) => {
                into.extend_from_slice(&key.element.to_le_bytes());
                into.extend_from_slice(&key.attempt.to_le_bytes());
            }
        }
        let (header, body) = into[start..].split_at_mut(HEADER);
        header[..4].copy_from_slice(&MARK);
        header[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
        header[8..].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    }

    fn decode(body: &[u8]) -> Option<Self> {
        let (kind, mut rest) = body.split_first()?;
        let mut text = || {
            let (length, behind) = rest.split_first_chunk::<4>()?;
            let (text, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            rest = behind;
            Some(Arc::<str>::from(str::from_utf8(text).ok()?))
        };
        let (realm, other) = (text()?, text()?);
        match *kind {
            ANSWER => {
                let answer = v1::Answer::decode(rest).ok()?;
                Some(Self::Answer(Key::new(&realm, answer.id.as_ref()?), other, Arc::new(answer)))
            }
            FORGOTTEN => {
                let (element, rest) = rest.split_first_chunk()?;
                let attempt = rest.first_chunk()?;
                let (element, attempt) = (u64::from_le_bytes(*element), u32::from_le_bytes(*attempt));
                Some(Self::Forgotten(Key { realm, process: other, element, attempt }))
            }
            _ => None,
        }
    }
}

/// The body of the record that begins there, if there is a whole one.
fn body_at(bytes: &[u8], offset: usize) -> Option<&[u8]> {
    let (header, rest) = bytes.get(offset..)?.split_first_chunk::<HEADER>()?;
    let word = |from: usize| u32::from_le_bytes([header[from], header[from + 1], header[from + 2], header[from + 3]]);
    let length = word(4) as usize;
    if header[..4] != MARK || length > LARGEST {
        return None;
    }
    rest.get(..length).filter(|body| crc32fast::hash(body) == word(8))
}

/// Calls `found` with each record of a file, and `damaged` with where something was that is none; the last damage may
/// reach to the end. Gives where the last record ends.
fn scan(bytes: &[u8], mut found: impl FnMut(&[u8]), mut damaged: impl FnMut(usize)) -> usize {
    let (mut offset, mut end, mut whole) = (0, 0, true);
    while offset < bytes.len() {
        if let Some(body) = body_at(bytes, offset) {
            found(body);
            offset += HEADER + body.len();
            (end, whole) = (offset, true);
        } else {
            if whole {
                damaged(offset);
            }
            whole = false;
            let next = bytes[offset + 1..].windows(MARK.len()).position(|window| window == MARK);
            offset = next.map_or(bytes.len(), |distance| offset + 1 + distance);
        }
    }
    end
}

/// An answer that is needed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Kept {
    pub owner: Arc<str>,
    pub answer: Arc<v1::Answer>,
    /// The size of its record.
    size: u64,
}

/// The file that is written to.
struct Active {
    file: File,
    path: PathBuf,
    /// So much of it is written; what may be behind that was not.
    length: u64,
}

/// What is kept.
pub(crate) struct Answers {
    folder: PathBuf,
    /// Keeps other programs away, as long as it is open.
    _lock: File,
    needed: HashMap<Key, Kept>,
    /// The size of all of them.
    needed_bytes: u64,
    /// Files that are not written to any more, and their size.
    older: Vec<PathBuf>,
    older_bytes: u64,
    active: Option<Active>,
    last_number: u64,
}

impl Answers {
    /// Reads what is in a folder, which is made if it is not there.
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
            answers.read(number)?;
        }
        if answers.needed.is_empty() {
            answers.delete_older();
        }
        Ok(answers)
    }

    /// The answers that are needed.
    pub fn needed(&self) -> impl Iterator<Item = (&Key, &Kept)> {
        self.needed.iter()
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("answers-{number}"))
    }

    fn read(&mut self, number: u64) -> io::Result<()> {
        let path = self.path(number);
        let bytes = fs::read(&path)?;
        let mut bad = Vec::new();
        let end = scan(
            &bytes,
            |body| match Record::decode(body) {
                Some(record) => self.note(&record, (HEADER + body.len()) as u64),
                None => warn!(file = %path.display(), "a record of no known kind"),
            },
            |offset| bad.push(offset),
        );
        for offset in bad {
            // The answers that were there are lost to their coordinators, which have the attempts run again.
            if offset < end {
                warn!(file = %path.display(), offset, "damaged: an answer may be lost");
            } else {
                warn!(file = %path.display(), offset, bytes = bytes.len() - end, "the end was not written whole; it is cut");
                if let Err(error) = OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(end as u64))
                {
                    warn!(file = %path.display(), %error, "cannot be cut");
                }
            }
        }
        self.last_number = number;
        self.older.push(path);
        self.older_bytes += end as u64;
        Ok(())
    }

    /// A record of that size is on disk.
    fn note(&mut self, record: &Record, size: u64) {
        let former = match record {
            Record::Answer(key, owner, answer) => {
                self.needed_bytes += size;
                self.needed.insert(key.clone(), Kept { owner: owner.clone(), answer: answer.clone(), size })
            }
            Record::Forgotten(key) => self.needed.remove(key),
        };
        self.needed_bytes -= former.map_or(0, |former| former.size);
    }

    /// Writes records. When this returns, answers are safe; what is forgotten may come back if the machine fails. After
    /// an error nothing is known of these records: they are to be written again.
    pub fn write(&mut self, records: &[Record]) -> io::Result<()> {
        let mut active = match self.active.take() {
            Some(active) => active,
            None => self.begin()?,
        };
        match active.append(records) {
            Ok(sizes) => {
                self.active = Some(active);
                records.iter().zip(sizes).for_each(|(record, size)| self.note(record, size));
            }
            Err(error) => {
                // What a file holds after a failed write is not certain: the next goes to another.
                self.retire(active);
                return Err(error);
            }
        }
        let total = self.older_bytes + self.active.as_ref().map_or(0, |active| active.length);
        if (total > MOST_BYTES && self.needed_bytes < total / 4) || self.older.len() >= MOST_FILES {
            // Everything is safe where it is, too.
            if let Err(error) = self.rewrite() {
                warn!(folder = %self.folder.display(), %error, "answers cannot be moved to a new file");
            }
        }
        Ok(())
    }

    /// A new file.
    fn begin(&mut self) -> io::Result<Active> {
        self.last_number += 1;
        let path = self.path(self.last_number);
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let active = Active { file, path, length: 0 };
        // Its name must be safe, too.
        match File::open(&self.folder).and_then(|folder| folder.sync_all()) {
            Ok(()) => Ok(active),
            Err(error) => {
                self.retire(active);
                Err(error)
            }
        }
    }

    /// A file that is not written to any more.
    fn retire(&mut self, active: Active) {
        if active.length == 0 {
            let _ = fs::remove_file(&active.path);
        } else {
            let _ = active.file.set_len(active.length);
            self.older_bytes += active.length;
            self.older.push(active.path);
        }
    }

    /// What is needed goes into a new file; all others are deleted.
    fn rewrite(&mut self) -> io::Result<()> {
        let needed = self.needed.iter();
        let records: Vec<Record> =
            needed.map(|(key, kept)| Record::Answer(key.clone(), kept.owner.clone(), kept.answer.clone())).collect();
        let mut new = self.begin()?;
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

    /// Oldest first: a record that says that an answer is not needed goes after that answer.
    fn delete_older(&mut self) {
        for path in self.older.drain(..) {
            if let Err(error) = fs::remove_file(&path) {
                warn!(file = %path.display(), %error, "cannot be deleted");
            }
        }
        self.older_bytes = 0;
    }
}

impl Active {
    /// Gives the sizes of the records.
    fn append(&mut self, records: &[Record]) -> io::Result<Vec<u64>> {
        let (mut piece, mut sizes, mut end) = (Vec::new(), Vec::with_capacity(records.len()), self.length);
        for record in records {
            let before = piece.len();
            record.encode(&mut piece);
            sizes.push((piece.len() - before) as u64);
            if piece.len() >= PIECE {
                self.file.write_all_at(&piece, end)?;
                end += piece.len() as u64;
                piece.clear();
            }
        }
        self.file.write_all_at(&piece, end)?;
        end += piece.len() as u64;
        self.length = end;
        Ok(sizes)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("xavantes-answers-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }

        fn files(&self) -> Vec<PathBuf> {
            let entries = fs::read_dir(&self.0).expect("it is there").map(|entry| entry.expect("it is there").path());
            let mut files: Vec<_> = entries.filter(|path| !path.ends_with("lock")).collect();
            files.sort();
            files
        }

        fn bytes(&self) -> u64 {
            self.files().iter().map(|path| fs::metadata(path).expect("it is there").len()).sum()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn key(element: u64) -> Key {
        Key::new(&"realm".into(), &v1::AttemptId { process: "p".into(), element, attempt: 2 })
    }

    fn answer(element: u64, text: &str) -> Record {
        let value = v1::Value { kind: Some(v1::value::Kind::Text(text.into())) };
        let outcome = v1::answer::Outcome::Completed(v1::Completed { results: vec![value] });
        Record::Answer(key(element), "g/a".into(), Arc::new(key(element).answer(outcome)))
    }

    fn forgotten(element: u64) -> Record {
        Record::Forgotten(key(element))
    }

    /// What is needed, as records in the order of their elements.
    fn needed(answers: &Answers) -> Vec<Record> {
        let records = answers
            .needed()
            .map(|(key, kept)| (key.element, Record::Answer(key.clone(), kept.owner.clone(), kept.answer.clone())));
        records.collect::<BTreeMap<_, _>>().into_values().collect()
    }

    fn reopened(folder: &Folder) -> Vec<Record> {
        needed(&Answers::open(&folder.0).expect("it can be opened"))
    }

    #[test]
    fn answers_are_there_again_unless_they_were_acknowledged() {
        let folder = Folder::new("again");
        let mut answers = Answers::open(&folder.0).expect("it can be opened");
        answers.write(&[answer(1, "one"), answer(2, "two"), answer(3, "")]).expect("there is room");
        answers.write(&[forgotten(2), forgotten(7)]).expect("there is room");
        let expected = [answer(1, "one"), answer(3, "")];
        assert_eq!(needed(&answers), expected);
        assert!(Answers::open(&folder.0).is_err(), "two programs at once");
        drop(answers);
        assert_eq!(reopened(&folder), expected);
        // The next go to another file, which may speak of answers in this one.
        let mut answers = Answers::open(&folder.0).expect("it can be opened");
        answers.write(&[forgotten(1), answer(4, "four")]).expect("there is room");
        let Record::Answer(key, _, again) = answer(3, "") else { panic!() };
        let moved = Record::Answer(key, "g/b".into(), again);
        answers.write(std::slice::from_ref(&moved)).expect("there is room");
        drop(answers);
        assert_eq!(reopened(&folder), [moved, answer(4, "four")]);
        let mut answers = Answers::open(&folder.0).expect("it can be opened");
        answers.write(&[forgotten(3), forgotten(4)]).expect("there is room");
        drop(answers);
        assert_eq!(reopened(&folder), []);
        assert_eq!(folder.files(), Vec::<PathBuf>::new());
    }

    #[test]
    fn wherever_the_end_is_torn_whole_records_are_read() {
        let records = [answer(1, "one"), answer(2, "two"), answer(3, "three")];
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for record in &records {
            record.encode(&mut bytes);
            ends.push(bytes.len());
        }
        for length in 0..=bytes.len() {
            let folder = Folder::new("torn");
            fs::create_dir_all(&folder.0).expect("there is room");
            let file = folder.0.join("answers-1");
            fs::write(&file, &bytes[..length]).expect("there is room");
            let whole = ends.iter().filter(|end| **end <= length).count();
            assert_eq!(reopened(&folder), records[..whole], "{length} bytes");
            if whole > 0 {
                assert_eq!(fs::metadata(&file).expect("it is there").len(), ends[whole - 1] as u64);
            }
        }
    }

    #[test]
    fn damage_costs_only_what_was_there() {
        let records = [answer(1, "one"), answer(2, "two"), answer(3, "three")];
        let (mut bytes, mut ends) = (Vec::new(), vec![0]);
        for record in &records {
            record.encode(&mut bytes);
            ends.push(bytes.len());
        }
        // The mark, the length, the checksum, and the content of the second.
        for damaged in ends[1]..ends[2] {
            let folder = Folder::new("damage");
            fs::create_dir_all(&folder.0).expect("there is room");
            let mut bytes = bytes.clone();
            bytes[damaged] ^= 0x55;
            fs::write(folder.0.join("answers-1"), &bytes).expect("there is room");
            assert_eq!(reopened(&folder), [records[0].clone(), records[2].clone()], "byte {damaged}");
        }
    }

    #[test]
    fn files_do_not_grow_with_what_is_over() {
        let folder = Folder::new("grow");
        let mut answers = Answers::open(&folder.0).expect("it can be opened");
        let text = "x".repeat(10_000);
        answers.write(&[answer(0, "stays")]).expect("there is room");
        // Three times what may lie there.
        let rounds = 3 * MOST_BYTES / 1_000_000;
        for round in 0..rounds {
            let elements = 1 + round * 100..1 + (round + 1) * 100;
            let records: Vec<_> = elements.clone().map(|element| answer(element, &text)).collect();
            answers.write(&records).expect("there is room");
            answers.write(&elements.map(forgotten).collect::<Vec<_>>()).expect("there is room");
            assert!(folder.bytes() < MOST_BYTES + 2_000_000, "{} bytes", folder.bytes());
        }
        assert_eq!(needed(&answers), [answer(0, "stays")]);
        drop(answers);
        assert_eq!(reopened(&folder), [answer(0, "stays")]);
    }

    #[test]
    fn many_starts_leave_few_files_and_many_answers_are_all_there() {
        let folder = Folder::new("many");
        let mut expected = Vec::new();
        for round in 0..40 {
            let mut answers = Answers::open(&folder.0).expect("it can be opened");
            let records: Vec<_> = (round * 500..(round + 1) * 500).map(|element| answer(element, "text")).collect();
            answers.write(&records).expect("there is room");
            expected.extend(records);
            assert_eq!(needed(&answers), expected);
            assert!(folder.files().len() <= MOST_FILES + 1);
        }
        assert_eq!(reopened(&folder), expected);
    }

    #[test]
    fn after_a_failed_write_the_same_can_be_written_again() {
        let folder = Folder::new("failed");
        let mut answers = Answers::open(&folder.0).expect("it can be opened");
        answers.write(&[answer(1, "one")]).expect("there is room");
        // A device that is always full.
        let full = OpenOptions::new().write(true).open("/dev/full").expect("there is such a device");
        let active = answers.active.as_mut().expect("something was written");
        let file = std::mem::replace(&mut active.file, full);
        assert!(answers.write(&[answer(2, "two")]).is_err());
        drop(file);
        assert_eq!(needed(&answers), [answer(1, "one")]);
        answers.write(&[answer(2, "two")]).expect("there is room");
        drop(answers);
        assert_eq!(reopened(&folder), [answer(1, "one"), answer(2, "two")]);
    }
}
