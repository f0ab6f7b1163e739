//! What the embedded repository reads back, with any damage: frames in a database file, records, the witness, and backups.

use xavantes_repository::fuzzing::{
    check_backup_items, check_damaged_witness, check_frames, check_payload, check_witness,
};

use crate::byte_choices::ByteChoices;

/// The first byte chooses the kind of record.
pub fn check(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let input = &mut ByteChoices(bytes);
    match kind % 5 {
        0 => check_frames(bytes),
        1 => {
            let tree = input.byte();
            let key = input.bytes();
            check_payload(tree, key, input.0);
        }
        2 => check_witness(bytes),
        3 => {
            let at = usize::from(input.byte()) << 8 | usize::from(input.byte());
            let change = (input.below(4) > 0).then(|| input.byte());
            let steps: Vec<(u8, u64)> = std::iter::from_fn(|| {
                let more = input.has_more();
                more.then(|| (input.byte(), input.number()))
            })
            .take(200)
            .collect();
            check_damaged_witness(&steps, at, change);
        }
        _ => check_backup_items(bytes),
    }
}

/// A record of every kind.
pub fn samples() -> Vec<Vec<u8>> {
    let frame = xavantes_repository::fuzzing::framed(2, b"\0\0\0\0\0\0\0\x01dx", 3, &[0, 2, b'a', b'b']);
    let backup = xavantes_repository::fuzzing::backup_of(&[(1, b"r".to_vec()), (2, frame.clone())]);
    // A process record: number, owner, head and summary.
    let process = [1, 4, b'k', b'e', b'y', b'1', 3, 1, b'o', 0, 2, b'h', b'd', 1, 0, 1, b's'];
    let steps = [3, 0, 20, 1, 9, 1, 3, 2, 1, 1, 2, 7, 4, 1, 5];
    [(0, &*frame), (1, &process), (2, b"\xb5wit\x01\0\0\0"), (3, &steps), (4, &backup[16..])]
        .iter()
        .map(|(kind, bytes)| [&[*kind], *bytes].concat())
        .collect()
}
