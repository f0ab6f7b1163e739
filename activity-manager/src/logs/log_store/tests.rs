use super::*;
use crate::logs::reader::LogChunk;

fn title(path: &str, attempt: u32) -> LogTitle {
    LogTitle { realm: "r".into(), path: path.into(), attempt }
}

/// All output that the log holds, with a mark for each gap.
fn whole(found: &LogReader, stream: OutputStream) -> String {
    let (mut at, mut text) = (0, String::new());
    loop {
        let LogChunk { left_out, data } = found.read(stream, at).expect("the log is readable");
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
fn a_long_stream_keeps_its_beginning_and_its_end() {
    let parent = tempfile::tempdir().expect("the disk has space");
    let folder = parent.path().join("logs");
    let store = LogStore::open(&folder, LogLimits { limit: 10, ..LogLimits::default() }).expect("the disk has space");
    let (mut written, mut number) = (String::new(), 0);
    let log = store.begin(title("p", 1));
    for count in [1, 3, 4, 5, 7, 2, 30, 1, 1] {
        let more: String = (0..count)
            .map(|_| {
                number += 1;
                char::from(b'a' + (number % 26) as u8)
            })
            .collect();
        written += &more;
        log.write(OutputStream::Stdout, more.as_bytes());
        let left = written.len().saturating_sub(10);
        let end = &written[5.min(written.len()).max(written.len().saturating_sub(5))..];
        let mark = if left > 0 { format!("[{left}]") } else { String::new() };
        let expected = format!("{}{mark}{end}", &written[..5.min(written.len())]);
        let found = store.find("r", "p", 0).expect("the attempt runs");
        assert_eq!(whole(&found, OutputStream::Stdout), expected, "{written}");
        assert_eq!(whole(&found, OutputStream::Stderr), "");
    }
    let completed = v1::answer::Outcome::Completed(v1::Completed::default());
    store.finish(&log, &completed, &v1::Usage { wall_ms: 7, node: "n".into(), ..v1::Usage::default() });
    drop(store);
    // The next process with the same folder reads the same, although it has a larger limit.
    let store = LogStore::open(&folder, LogLimits::default()).expect("the disk has space");
    let found = store.find("r", "p", 1).expect("the log is stored");
    let end = &written[written.len() - 5..];
    assert_eq!(whole(&found, OutputStream::Stdout), format!("{}[{}]{end}", &written[..5], written.len() - 10));
    let records = store.attempts("r", "p");
    assert_eq!((records.len(), records[0].usage.as_ref().map(|usage| usage.wall_ms)), (1, Some(7)));
    assert!(store.attempts("other", "p").is_empty() && store.find("r", "p", 2).is_none());
}

#[test]
fn the_start_of_the_last_lines_is_found() {
    let parent = tempfile::tempdir().expect("the disk has space");
    let folder = parent.path().join("logs");
    let store = LogStore::open(&folder, LogLimits { limit: 20, ..LogLimits::default() }).expect("the disk has space");
    let log = store.begin(title("p", 1));
    let found = store.find("r", "p", 0).expect("the attempt runs");
    assert_eq!(found.tail_start(OutputStream::Stdout, 3).expect("the log is readable"), 0);
    log.write(OutputStream::Stdout, b"one\ntwo\nthree\n");
    let last = |lines| found.tail_start(OutputStream::Stdout, lines).expect("the log is readable");
    assert_eq!((last(1), last(2), last(3), last(9)), (8, 4, 0, 0));
    log.write(OutputStream::Stdout, b"four\nfive\nsix");
    assert_eq!((last(1), last(2), last(9)), (24, 19, 17));
}

#[test]
fn the_oldest_logs_are_evicted_and_unindexed_files_removed() {
    let parent = tempfile::tempdir().expect("the disk has space");
    let folder = parent.path().join("logs");
    let limits = LogLimits { limit: 100, total: 250, ..LogLimits::default() };
    let store = LogStore::open(&folder, limits.clone()).expect("the disk has space");
    for attempt in 1..=4 {
        let log = store.begin(title("p", attempt));
        log.write(OutputStream::Stderr, &[b'x'; 1000]);
        let failed = v1::Failure { message: "no\nmore".into(), exit_status: Some(3), ..v1::Failure::default() };
        store.finish(&log, &v1::answer::Outcome::Failed(failed), &v1::Usage::default());
    }
    let kept = |store: &LogStore| store.attempts("r", "p").iter().map(|it| it.attempt).collect::<Vec<_>>();
    assert_eq!(kept(&store), [3, 4]);
    let lost = store.begin(title("p", 5));
    lost.write(OutputStream::Stdout, b"its worker dies");
    let files = || std::fs::read_dir(&folder).expect("the folder exists").count();
    assert_eq!(files(), 4);
    let store = LogStore::open(&folder, limits).expect("the disk has space");
    assert_eq!((kept(&store), files()), (vec![3, 4], 3));
    let next = store.begin(title("p", 6));
    assert!(next.number > lost.number);
    let old = LogLimits { age: Duration::ZERO, ..LogLimits::default() };
    std::thread::sleep(Duration::from_millis(5));
    assert!(kept(&LogStore::open(&folder, old).expect("the disk has space")).is_empty());
}

#[test]
fn a_damaged_line_of_the_index_costs_one_log() {
    let parent = tempfile::tempdir().expect("the disk has space");
    let folder = parent.path().join("logs");
    let open = || LogStore::open(&folder, LogLimits::default()).expect("the disk has space");
    let store = open();
    for attempt in 1..=3 {
        let log = store.begin(title("p", attempt));
        log.write(OutputStream::Stdout, b"kept");
        store.finish(&log, &v1::answer::Outcome::Cancelled(v1::Nothing {}), &v1::Usage::default());
    }
    drop(store);
    let index = folder.join("index");
    let mut bytes = std::fs::read(&index).expect("there is an index");
    let second = bytes.iter().position(|byte| *byte == b'\n').expect("it has lines") + 10;
    bytes[second] ^= 0x80;
    std::fs::write(&index, bytes).expect("the disk has space");
    let store = open();
    let kept: Vec<u32> = store.attempts("r", "p").iter().map(|record| record.attempt).collect();
    assert_eq!(kept, [1, 3]);
    let found = store.find("r", "p", 3).expect("it is in the index");
    assert_eq!(whole(&found, OutputStream::Stdout), "kept");
}
