//! The file store with any transfers, pins and damage. It offers an object only with the bytes of its digest, stays within its
//! limit, and keeps what is held or pinned.

use std::io::Read;
use std::path::Path;
use std::sync::LazyLock;

use xavantes_files::{EntryKind, FileStore, Hold, Manifest, ManifestEntry, Receiving, Reception, digest_of};
use xavantes_model::digest::Digest;

use crate::byte_choices::ByteChoices;
use crate::runtime::scratch_directory;

const LIMIT_BYTES: u64 = 600;
const OWNERS: [&str; 3] = ["p", "p/a", "ö wner"];

/// An object that transfers are about.
struct Object {
    digest: Digest,
    bytes: Vec<u8>,
}

static OBJECTS: LazyLock<Vec<Object>> = LazyLock::new(|| {
    let mut contents: Vec<Vec<u8>> = [0_u8, 1, 90, 120, 200].iter().map(|size| vec![*size; (*size).into()]).collect();
    contents.push(vec![7; LIMIT_BYTES as usize + 1]);
    let digest = |bytes: &[u8]| digest_of(&mut &*bytes).expect("bytes can be read").0;
    let file = |path: &str, bytes: &[u8]| ManifestEntry {
        path: path.into(),
        kind: EntryKind::File { digest: digest(bytes), size: bytes.len() as u64, executable: false },
    };
    let entries = vec![file("a/b", &contents[2]), file("c", &contents[3])];
    contents.push(Manifest::new(entries).expect("a valid manifest").encode());
    contents.into_iter().map(|bytes| Object { digest: digest(&bytes), bytes }).collect()
});

/// Checks a sequence of transfers and damages.
pub fn check(bytes: &[u8]) {
    let input = &mut ByteChoices(bytes);
    // A part of a stream, and a list of a directory, may come from anybody.
    if let Ok(manifest) = Manifest::decode(bytes) {
        assert_eq!(Manifest::decode(&manifest.encode()).expect("its own encoding"), manifest);
    }
    let folder = scratch_directory();
    let mut store = open(folder.path());
    let (mut receiving, mut holds): (Vec<Box<Receiving>>, Vec<Hold>) = (Vec::new(), Vec::new());
    for _ in 0..60 {
        if !input.has_more() {
            break;
        }
        let object = &OBJECTS[usize::from(input.below(7))];
        let owner = OWNERS[usize::from(input.below(3))];
        let pinned: Vec<Digest> = OWNERS.iter().flat_map(|owner| store.pinned(owner)).collect();
        let action = input.below(12);
        match action {
            0 | 1 => {
                let announced = if input.below(8) == 0 { input.number() } else { object.bytes.len() as u64 };
                if let Ok(Reception::Welcome(new)) = store.receive(object.digest, announced) {
                    receiving.push(new);
                }
            }
            2 | 3 => transfer(&mut receiving, input),
            4 => drop(receiving.pop().map(|it| it.finish())),
            5 => drop(receiving.pop()),
            6 => holds.extend(store.hold(&object.digest)),
            7 => drop(holds.pop()),
            8 => store.pin(owner, &[object.digest]).expect("the disk has space"),
            9 => store.release(owner, &[OBJECTS[2].digest]),
            10 => {
                let has = store.has_all(&[object.digest], &[OBJECTS[6].digest], Some(owner));
                assert_eq!(has.expect("the disk has space").first(), Some(&store.has(&object.digest)));
            }
            _ => {
                (receiving, holds) = Default::default();
                drop(store);
                damage(folder.path(), input);
                store = open(folder.path());
            }
        }
        let usage = store.usage();
        assert!(usage.bytes <= LIMIT_BYTES, "{} bytes are stored", usage.bytes);
        for hold in &holds {
            assert!(store.has(&hold.digest()), "an object that is held was evicted");
        }
        for digest in pinned {
            assert!(matches!(action, 9 | 11) || store.has(&digest), "an object that is pinned was evicted");
        }
    }
    OBJECTS.iter().for_each(|object| check_object(&store, &object.digest));
}

fn open(folder: &Path) -> FileStore {
    FileStore::open(folder, LIMIT_BYTES).expect("the disk has space")
}

/// Sends the right bytes of an object, or wrong ones.
#[expect(clippy::vec_box, reason = "the store gives boxes out")]
fn transfer(receiving: &mut Vec<Box<Receiving>>, input: &mut ByteChoices<'_>) {
    let Some(mut current) = receiving.pop() else { return };
    let object = &OBJECTS[usize::from(input.below(7))];
    let right = object.bytes.get(current.offset() as usize..).unwrap_or_default();
    let chunk = if input.below(4) == 0 { input.bytes() } else { &right[..right.len().min(usize::from(input.byte()))] };
    if current.write(chunk).is_ok() {
        receiving.push(current);
    }
}

/// An object that the store gives out has the bytes of its digest.
fn check_object(store: &FileStore, digest: &Digest) {
    let Ok(hold) = store.hold(digest) else { return };
    let mut bytes = Vec::new();
    hold.open().expect("it can be opened").read_to_end(&mut bytes).expect("and read");
    assert_eq!(digest_of(&mut &*bytes).expect("bytes can be read").0, *digest, "an object with other bytes");
}

/// Damages the lists of pins while the store is closed.
fn damage(folder: &Path, input: &mut ByteChoices<'_>) {
    for file in std::fs::read_dir(folder.join("pins")).into_iter().flatten().flatten() {
        let Ok(mut bytes) = std::fs::read(file.path()) else { continue };
        let at = usize::from(input.byte());
        match input.below(3) {
            0 => bytes.truncate(at),
            1 => bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= input.byte()),
            _ => {}
        }
        std::fs::write(file.path(), bytes).expect("the disk has space");
    }
}
