//! What a worker reads back from its disk, with any damage: the answer log and the index of logs.

use xavantes_activity_manager::fuzzing::{check_answer_log, check_answer_record, check_log_index};

/// The first byte chooses the kind of record.
pub fn check(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 3 {
        0 => check_answer_log(bytes),
        1 => check_answer_record(bytes),
        _ => check_log_index(bytes),
    }
}

/// A record of every kind.
pub fn samples() -> Vec<Vec<u8>> {
    // A record that forgets an answer: kind, realm, process, element and attempt.
    let forgotten =
        [&[2_u8, 1, 0, 0, 0], &b"r"[..], &[1, 0, 0, 0], b"p", &[5, 0, 0, 0, 0, 0, 0, 0], &[1, 0, 0, 0]].concat();
    // An answer: kind, realm, owner, and the message with the id of the attempt.
    let answer = [&[1_u8, 1, 0, 0, 0], &b"r"[..], &[1, 0, 0, 0], b"c", &[10, 7, 10, 1, b'p', 16, 5, 24, 1]].concat();
    let index = r#"{"realm":"r","path":"p/a","attempt":1,"number":4,"began_ms":1,"ended_ms":2,"state":"failed","#;
    let index =
        format!("{index}\"written\":[70,5],\"limit\":20,\"usage\":[1,2,3,4,5,6],\"node\":\"n\",\"reason\":\"x\"}}\n");
    let log = b"\xabans\x05\0\0\0\0\0\0\0hello\xabans";
    [(0, &log[..]), (1, &forgotten), (1, &answer), (2, index.as_bytes())]
        .iter()
        .map(|(kind, bytes)| [&[*kind], *bytes].concat())
        .collect()
}
