//! Checks of what the sled store reads back, for fuzzers. They panic if something is wrong.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::backup::{self, payloads, read_item};
use super::frame::{self, TreeId};
use super::record::{JournalEntry, Payload, ProcessRecord, document_name, journal_key, journal_numbers};
use super::witness::{ProcessMark, WitnessFile, WitnessNote, add, seal};

/// Checks any bytes as a damaged database file: frames that the salvage finds are whole, do not overlap, and are readable
/// under their own key only.
pub fn check_frames(bytes: &[u8]) {
    let mut behind = 0;
    frame::scan(bytes, |offset, found| {
        assert!(offset >= behind, "frames overlap");
        behind = offset + found.length();
        let framed = &bytes[offset..behind];
        assert_eq!(frame::wrap(found.tree, found.key, found.sequence, found.payload), framed);
        assert_eq!(frame::unwrap(found.tree, found.key, framed), Ok(found));
        let other_key = [found.key, b"x"].concat();
        assert!(frame::unwrap(found.tree, &other_key, framed).is_err(), "a frame is readable under another key");
        check_record(found.tree, found.payload);
        if found.tree == TreeId::Journal
            && let Some((process, record)) = journal_numbers(found.key)
        {
            assert_eq!(journal_key(process, record), found.key);
        }
        let _ = document_name(found.key);
    });
}

/// Checks the payload of a record of the tree with this number, as it is behind a right checksum. The frame around it is
/// found between other bytes.
pub fn check_payload(tree: u8, key: &[u8], payload: &[u8]) {
    let tree = TreeId::ALL[usize::from(tree) % TreeId::ALL.len()];
    check_record(tree, payload);
    let framed = frame::wrap(tree, key, 7, payload);
    check_frames(&[b"x\x9cXv", &*framed, &framed, b"\x9c"].concat());
}

fn check_record(tree: TreeId, payload: &[u8]) {
    match tree {
        TreeId::Processes => check_encoding::<ProcessRecord>(payload),
        TreeId::Journal => check_encoding::<JournalEntry>(payload),
        TreeId::Documents => check_encoding::<Payload>(payload),
    }
    for stored in payloads(tree, payload) {
        assert!(stored.inline_bytes() <= payload.len(), "a record has more bytes than its frame");
        assert!(stored.digest().is_some() || stored.blob_bytes() == 0);
    }
}

/// What is decoded encodes to bytes that decode to the same.
fn check_encoding<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let encode = |decoded: &T| postcard::to_stdvec(decoded).expect("records can be encoded");
    if let Ok(decoded) = postcard::from_bytes::<T>(bytes) {
        let encoded = encode(&decoded);
        let again: T = postcard::from_bytes(&encoded).expect("what was encoded can be decoded");
        assert_eq!(encode(&again), encoded);
    }
}

/// Checks any bytes as a witness: reading them gives facts, and notes that follow hold.
pub fn check_witness(bytes: &[u8]) {
    let state = WitnessFile::parse(bytes);
    let mut frame = Vec::new();
    let mark = ProcessMark { number: 3, next_record: 5, ..ProcessMark::default() };
    add(&mut frame, &WitnessNote::Process { id: "last", mark });
    let longer = WitnessFile::parse(&[bytes, &seal(state.sequence, &frame)].concat());
    let last = longer.processes.get("last").expect("the last frame counts");
    assert!(last.is_firm && last.fact == mark && longer.sequence >= state.sequence);
    assert!(longer.next_number > 3 && longer.next_number >= state.next_number);
}

/// Checks a witness of some processes with damage. Each step is a process of few and the number of its next record. One byte
/// is changed at `at`, or the file is cut off there. A fact that is firm then was true when the last readable frame was written.
pub fn check_damaged_witness(steps: &[(u8, u64)], at: usize, change: Option<u8>) {
    let mut bytes = Vec::new();
    let (mut ends, mut truth) = (Vec::new(), Vec::new());
    let mut now = std::collections::HashMap::new();
    for (sequence, (process, next_record)) in (1..).zip(steps) {
        let id = format!("p{}", process % 3);
        let mark = ProcessMark { number: 1, next_record: *next_record, ..ProcessMark::default() };
        let mut frame = Vec::new();
        if process % 8 == 7 {
            add(&mut frame, &WitnessNote::Forgotten { id: &id });
            now.remove(&id);
        } else {
            add(&mut frame, &WitnessNote::Process { id: &id, mark });
            now.insert(id, mark);
        }
        bytes.extend(seal(sequence, &frame));
        ends.push(bytes.len());
        truth.push(now.clone());
    }
    let Some(place) = at.checked_rem(bytes.len()) else { return };
    match change {
        Some(change) => bytes[place] ^= change.max(1),
        None => bytes.truncate(place),
    }
    let state = WitnessFile::parse(&bytes);
    let Some(last) = state.sequence.checked_sub(1) else { return };
    for (id, expected) in state.processes.iter().filter(|(_, expected)| expected.is_firm) {
        assert_eq!(truth[last as usize].get(id), Some(&expected.fact), "{id} was never like this");
    }
    assert!(change.is_some() || !state.is_damaged, "a file that was cut off counts as damaged");
}

/// Checks any bytes as the items of a backup: reading ends, and takes no more memory than there are bytes.
pub fn check_backup_items(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok((_, item)) = read_item(&mut rest) {
        assert!(item.len() + rest.len() < bytes.len(), "an item has more bytes than the backup");
    }
}

/// A backup of these items, as a stranger could make it: the number of its kind and the bytes of each.
pub fn backup_of(items: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = backup::HEADER.to_vec();
    for (kind, content) in
        items.iter().map(|(kind, content)| (*kind, content.as_slice())).chain([(backup::END, &[][..])])
    {
        bytes.push(kind);
        bytes.extend((content.len() as u64).to_le_bytes());
        bytes.extend(content);
    }
    let digest = blake3::hash(&bytes);
    bytes.extend(digest.as_bytes());
    bytes
}

/// A record of a backup.
pub fn framed(tree: u8, key: &[u8], sequence: u64, payload: &[u8]) -> Vec<u8> {
    frame::wrap(TreeId::ALL[usize::from(tree) % TreeId::ALL.len()], key, sequence, payload)
}
