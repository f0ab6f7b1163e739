//! Backups that strangers made, with a right digest and any content. A backup is refused and leaves nothing behind, or it
//! becomes a store that opens, lists its processes, and takes new ones.

use std::path::Path;

use bytes::Bytes;
use xavantes_repository::fuzzing::{backup_of, framed};
use xavantes_repository::{Error, open_sled, restore_sled};

use crate::byte_choices::ByteChoices;
use crate::runtime::{block_on, scratch_directory};

/// Checks a backup of some items.
pub fn check(bytes: &[u8]) {
    let input = &mut ByteChoices(bytes);
    let mut items = vec![(1, b"realm".to_vec())];
    while input.has_more() && items.len() < 30 {
        items.push(match input.below(8) {
            0 => (input.byte(), input.bytes().to_vec()),
            1 => (3, input.bytes().to_vec()),
            _ => {
                let (tree, sequence) = (input.byte(), input.number());
                let key = match input.below(4) {
                    0 => input.bytes().to_vec(),
                    1 => [u64::from(input.below(3)), input.number()].map(u64::to_be_bytes).concat(),
                    2 => [&4_u64.to_be_bytes(), &b"kindkey"[..]].concat(),
                    _ => vec![b'p', b'0' + input.below(3)],
                };
                (2, framed(tree, &key, sequence, input.bytes()))
            }
        });
    }
    let parent = scratch_directory();
    let (file, directory) = (parent.path().join("backup"), parent.path().join("store"));
    std::fs::write(&file, backup_of(&items)).expect("the disk has space");
    block_on(async {
        match restore_sled(&file, &directory).await {
            Ok(content) => {
                assert!(content.records + content.blobs <= items.len() as u64);
                use_store(&directory).await;
            }
            Err(error) => {
                assert!(!directory.exists(), "a refused backup left a store behind");
                assert!(error.to_string().len() < 4096, "a long error");
            }
        }
    });
}

/// Opens a store, reads everything in it, and writes to it.
async fn use_store(directory: &Path) {
    let store = open_sled(directory, "n").await.expect("a restored store opens");
    let listed = store.list().await.expect("a restored store can be listed");
    for entry in &listed {
        // A process may be damaged; then the error says so.
        if let Err(error) = store.load(&entry.process).await {
            assert!(!matches!(error, Error::Unavailable(_)), "{error}");
        }
    }
    let _ = store.claim().await.expect("processes can be claimed");
    if !listed.iter().any(|entry| entry.process == "new") {
        store.create("new", Bytes::from_static(b"head")).await.expect("a restored store takes processes");
        store.append("new", Bytes::from_static(b"record")).await.expect("and their records");
        let journal = store.load("new").await.expect("and gives them back");
        assert_eq!((&*journal.head, journal.records.len()), (&b"head"[..], 1));
    }
    store.shut_down().await;
}
