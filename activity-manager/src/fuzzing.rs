//! Checks of what a worker reads back from its disk, for fuzzers. They panic if something is wrong.

use crate::answers::answer_record::{AnswerRecord, HEADER_BYTES, scan};
use crate::logs::log_store::read_index;
use crate::logs::stream_layout::readable;

/// Checks any bytes as an answer log: every record that is read can be written and read again, records do not overlap, and
/// the log that is cut off at its reported end has the same records.
pub fn check_answer_log(bytes: &[u8]) {
    let mut records = 0;
    let mut end_of_records = 0;
    let end = scan(
        bytes,
        |body| {
            records += 1;
            end_of_records += HEADER_BYTES + body.len();
            if let Some(record) = AnswerRecord::decode(body) {
                check_record(&record);
            }
        },
        |offset| assert!(offset <= bytes.len(), "damage behind the end"),
    );
    assert!(end_of_records <= end && end <= bytes.len(), "records overlap");
    let mut again = 0;
    let same_end = scan(&bytes[..end], |_| again += 1, |offset| assert!(offset < end, "damage at the end"));
    assert_eq!((again, same_end), (records, end));
}

/// Checks the body of a record, as it is behind a right checksum.
pub fn check_answer_record(body: &[u8]) {
    AnswerRecord::decode(body).iter().for_each(check_record);
}

/// A record that is written is read again, also between damaged bytes.
fn check_record(record: &AnswerRecord) {
    let mut encoded = vec![7; 3];
    record.encode(&mut encoded);
    let (mut read, mut damage) = (Vec::new(), Vec::new());
    let end = scan(&encoded, |body| read.extend(AnswerRecord::decode(body)), |offset| damage.push(offset));
    // Floats that are not numbers differ from themselves.
    assert_eq!(format!("{read:?}"), format!("{:?}", [record]));
    assert_eq!((damage, end), (vec![0], encoded.len()));
}

/// Checks any bytes as an index of logs: every range of a log lies inside its file, and a reader gets to the end.
pub fn check_log_index(bytes: &[u8]) {
    for entry in read_index(bytes) {
        let (written, limit) = (entry.written[0], entry.limit);
        assert!(entry.stored_bytes() >= written.min(limit));
        let _ = entry.to_record();
        let mut at = 0;
        for step in 0.. {
            let range = readable(at, written, limit);
            assert!(range.length == 0 || range.offset.checked_add(range.length).is_some_and(|end| end <= limit));
            if range.length == 0 {
                break;
            }
            assert!(step < 4, "a reader makes no progress");
            at += range.left_out + range.length;
            assert!(at <= written, "a reader gets behind the end");
        }
    }
}
