use std::collections::BTreeMap;

use super::*;

/// A folder that is removed when this is dropped.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("the disk has space"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries =
            fs::read_dir(self.path()).expect("the file exists").map(|entry| entry.expect("the file exists").path());
        let mut files: Vec<_> = entries.filter(|path| !path.ends_with("lock")).collect();
        files.sort();
        files
    }

    fn bytes(&self) -> u64 {
        self.files().iter().map(|path| fs::metadata(path).expect("the file exists").len()).sum()
    }
}

fn key(element: u64) -> RealmAttempt {
    RealmAttempt::new(&"realm".into(), &v1::AttemptId { process: "p".into(), element, attempt: 2 })
}

fn answer(element: u64, text: &str) -> AnswerRecord {
    let value = v1::Value { kind: Some(v1::value::Kind::Text(text.into())) };
    let outcome = v1::answer::Outcome::Completed(v1::Completed { results: vec![value] });
    let answer = Arc::new(key(element).answer(outcome));
    AnswerRecord::Answer(OwnedAnswer { attempt: key(element), owner: "g/a".into(), answer })
}

fn forgotten(element: u64) -> AnswerRecord {
    AnswerRecord::Forgotten(key(element))
}

/// The needed answers, as records in the order of their elements.
fn needed(answers: &AnswerLog) -> Vec<AnswerRecord> {
    let records = answers.needed().map(|needed| (needed.attempt.key.element, AnswerRecord::Answer(needed)));
    records.collect::<BTreeMap<_, _>>().into_values().collect()
}

fn reopened(folder: &Folder) -> Vec<AnswerRecord> {
    needed(&AnswerLog::open(folder.path()).expect("the log opens"))
}

#[test]
fn answers_survive_a_restart_until_they_are_forgotten() {
    let folder = Folder::new();
    let mut answers = AnswerLog::open(folder.path()).expect("the log opens");
    answers.write(&[answer(1, "one"), answer(2, "two"), answer(3, "")]).expect("the disk has space");
    answers.write(&[forgotten(2), forgotten(7)]).expect("the disk has space");
    let expected = [answer(1, "one"), answer(3, "")];
    assert_eq!(needed(&answers), expected);
    assert!(AnswerLog::open(folder.path()).is_err(), "two processes must not share a folder");
    drop(answers);
    assert_eq!(reopened(&folder), expected);
    // The next records go to another file, which may forget answers of the first file.
    let mut answers = AnswerLog::open(folder.path()).expect("the log opens");
    answers.write(&[forgotten(1), answer(4, "four")]).expect("the disk has space");
    let AnswerRecord::Answer(again) = answer(3, "") else { panic!("answer() makes answers") };
    let moved = AnswerRecord::Answer(OwnedAnswer { owner: "g/b".into(), ..again });
    answers.write(std::slice::from_ref(&moved)).expect("the disk has space");
    drop(answers);
    assert_eq!(reopened(&folder), [moved, answer(4, "four")]);
    let mut answers = AnswerLog::open(folder.path()).expect("the log opens");
    answers.write(&[forgotten(3), forgotten(4)]).expect("the disk has space");
    drop(answers);
    assert_eq!(reopened(&folder), []);
    assert_eq!(folder.files(), Vec::<PathBuf>::new());
}

#[test]
fn whole_records_survive_a_torn_end() {
    let records = [answer(1, "one"), answer(2, "two"), answer(3, "three")];
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for record in &records {
        record.encode(&mut bytes);
        ends.push(bytes.len());
    }
    for length in 0..=bytes.len() {
        let folder = Folder::new();
        let file = folder.path().join("answers-1");
        fs::write(&file, &bytes[..length]).expect("the disk has space");
        let whole = ends.iter().filter(|end| **end <= length).count();
        assert_eq!(reopened(&folder), records[..whole], "{length} bytes");
        if whole > 0 {
            assert_eq!(fs::metadata(&file).expect("the file exists").len(), ends[whole - 1] as u64);
        }
    }
}

#[test]
fn damage_loses_only_the_damaged_record() {
    let records = [answer(1, "one"), answer(2, "two"), answer(3, "three")];
    let (mut bytes, mut ends) = (Vec::new(), vec![0]);
    for record in &records {
        record.encode(&mut bytes);
        ends.push(bytes.len());
    }
    // Each byte of the mark, the length, the checksum and the body of the second record.
    for damaged in ends[1]..ends[2] {
        let folder = Folder::new();
        let mut bytes = bytes.clone();
        bytes[damaged] ^= 0x55;
        fs::write(folder.path().join("answers-1"), &bytes).expect("the disk has space");
        assert_eq!(reopened(&folder), [records[0].clone(), records[2].clone()], "byte {damaged}");
    }
}

#[test]
fn forgotten_answers_are_compacted_away() {
    let folder = Folder::new();
    let mut answers = AnswerLog::open(folder.path()).expect("the log opens");
    let text = "x".repeat(10_000);
    answers.write(&[answer(0, "stays")]).expect("the disk has space");
    // Three times the size at which the log compacts its files.
    let rounds = 3 * COMPACTION_BYTES / 1_000_000;
    for round in 0..rounds {
        let elements = 1 + round * 100..1 + (round + 1) * 100;
        let records: Vec<_> = elements.clone().map(|element| answer(element, &text)).collect();
        answers.write(&records).expect("the disk has space");
        answers.write(&elements.map(forgotten).collect::<Vec<_>>()).expect("the disk has space");
        assert!(folder.bytes() < COMPACTION_BYTES + 2_000_000, "{} bytes", folder.bytes());
    }
    assert_eq!(needed(&answers), [answer(0, "stays")]);
    drop(answers);
    assert_eq!(reopened(&folder), [answer(0, "stays")]);
}

#[test]
fn many_starts_leave_few_files_and_lose_no_answer() {
    let folder = Folder::new();
    let mut expected = Vec::new();
    for round in 0..40 {
        let mut answers = AnswerLog::open(folder.path()).expect("the log opens");
        let records: Vec<_> = (round * 500..(round + 1) * 500).map(|element| answer(element, "text")).collect();
        answers.write(&records).expect("the disk has space");
        expected.extend(records);
        assert_eq!(needed(&answers), expected);
        assert!(folder.files().len() <= MAX_FILES + 1);
    }
    assert_eq!(reopened(&folder), expected);
}

#[test]
fn records_can_be_written_again_after_a_failed_write() {
    let folder = Folder::new();
    let mut answers = AnswerLog::open(folder.path()).expect("the log opens");
    answers.write(&[answer(1, "one")]).expect("the disk has space");
    // A device that is always full.
    let full = OpenOptions::new().write(true).open("/dev/full").expect("there is such a device");
    let active = answers.active.as_mut().expect("something was written");
    let file = std::mem::replace(&mut active.file, full);
    assert!(answers.write(&[answer(2, "two")]).is_err());
    drop(file);
    assert_eq!(needed(&answers), [answer(1, "one")]);
    answers.write(&[answer(2, "two")]).expect("the disk has space");
    drop(answers);
    assert_eq!(reopened(&folder), [answer(1, "one"), answer(2, "two")]);
}

#[test]
fn a_file_that_cannot_be_read_does_not_prevent_opening() {
    let folder = Folder::new();
    let mut answers = AnswerLog::open(folder.path()).expect("the log opens");
    answers.write(&[answer(1, "one")]).expect("the disk has space");
    drop(answers);
    fs::create_dir(folder.path().join("answers-7")).expect("the disk has space");
    let mut answers = AnswerLog::open(folder.path()).expect("the log opens");
    answers.write(&[answer(2, "two")]).expect("the disk has space");
    drop(answers);
    assert_eq!(reopened(&folder), [answer(1, "one"), answer(2, "two")]);
}
