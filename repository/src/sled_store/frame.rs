//! The frame around every record in sled: it reveals a record that was damaged or stored under another key. A frame contains
//! its key, so that the salvage finds records in the bytes of a file that sled cannot open.

/// Upper bound on the numbers of processes, records and commits. No store gets there, and they can be counted up from there.
pub(super) const MAX_NUMBER: u64 = 1 << 62;

/// Layout of records that earlier programs wrote: the version, a checksum, then the payload.
const FIRST_VERSION: u8 = 1;
const FIRST_HEADER_BYTES: usize = 5;

/// Layout of records that this program writes: mark, version, tree, length of the key, length of the payload, sequence
/// number, checksum of everything else, key, payload. Integers are little-endian.
const VERSION: u8 = 2;
const MARK: [u8; 4] = [0x9c, b'X', b'v', 0xe1];
const CHECKSUM_AT: usize = 20;
const HEADER_BYTES: usize = CHECKSUM_AT + 4;

/// The tree of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum TreeId {
    Processes = 1,
    Journal = 2,
    Documents = 3,
}

impl TreeId {
    pub(super) const ALL: [Self; 3] = [Self::Processes, Self::Journal, Self::Documents];
}

/// Why a frame cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    #[error("it is cut off")]
    CutOff,
    #[error("its checksum is wrong")]
    Checksum,
    #[error("it was written by a newer version of Xavantes")]
    NewerVersion,
    #[error("its sequence number is larger than a store can have")]
    Sequence,
}

/// A frame whose checksum is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    pub(super) tree: TreeId,
    pub(super) key: &'a [u8],
    /// Grows with every record that the store writes. 0 in records of earlier programs.
    pub(super) sequence: u64,
    pub(super) payload: &'a [u8],
}

impl Frame<'_> {
    /// Length of the whole frame.
    pub(super) fn length(&self) -> usize {
        HEADER_BYTES + self.key.len() + self.payload.len()
    }
}

/// Frames a payload.
pub(super) fn wrap(tree: TreeId, key: &[u8], sequence: u64, payload: &[u8]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(HEADER_BYTES + key.len() + payload.len());
    framed.extend(MARK);
    framed.extend([VERSION, tree as u8]);
    // Names are bounded, and payloads above a few kilobytes are blobs.
    framed.extend((key.len() as u16).to_le_bytes());
    framed.extend((payload.len() as u32).to_le_bytes());
    framed.extend(sequence.to_le_bytes());
    framed.extend([0; 4]);
    framed.extend(key);
    framed.extend(payload);
    let checksum = checksum(&framed).to_le_bytes();
    framed[CHECKSUM_AT..HEADER_BYTES].copy_from_slice(&checksum);
    framed
}

/// Returns the frame that [`wrap`] made for the same key in the same tree.
pub(super) fn unwrap<'a>(tree: TreeId, key: &'a [u8], framed: &'a [u8]) -> Result<Frame<'a>, FrameError> {
    if framed.first() == Some(&FIRST_VERSION) {
        return unwrap_first_version(tree, key, framed);
    }
    if framed.len() < HEADER_BYTES {
        return Err(FrameError::CutOff);
    }
    let frame = read(framed)?;
    let fits = frame.tree == tree && frame.key == key && frame.length() == framed.len();
    if fits { Ok(frame) } else { Err(FrameError::Checksum) }
}

fn unwrap_first_version<'a>(tree: TreeId, key: &'a [u8], framed: &'a [u8]) -> Result<Frame<'a>, FrameError> {
    let Some((&[version, a, b, c, d], payload)) = framed.split_first_chunk::<FIRST_HEADER_BYTES>() else {
        return Err(FrameError::CutOff);
    };
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[version]);
    // The length separates the key from the payload.
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key);
    hasher.update(payload);
    if hasher.finalize() != u32::from_le_bytes([a, b, c, d]) {
        return Err(FrameError::Checksum);
    }
    Ok(Frame { tree, key, sequence: 0, payload })
}

/// Calls `on_frame` with every whole frame in some bytes, and with its offset.
pub(super) fn scan(bytes: &[u8], mut on_frame: impl FnMut(usize, Frame<'_>)) {
    let mut offset = 0;
    let finder = memchr::memmem::Finder::new(&MARK);
    while let Some(distance) = finder.find(&bytes[offset..]) {
        offset += distance;
        match read(&bytes[offset..]) {
            Ok(frame) => {
                on_frame(offset, frame);
                offset += frame.length();
            }
            Err(_) => offset += 1,
        }
    }
}

/// Reads the frame at the beginning of some bytes.
pub(super) fn read(bytes: &[u8]) -> Result<Frame<'_>, FrameError> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(FrameError::CutOff)?;
    let key_length = usize::from(u16::from_le_bytes([header[6], header[7]]));
    let payload_length = u32::from_le_bytes([header[8], header[9], header[10], header[11]]) as usize;
    let (key, rest) = rest.split_at_checked(key_length).ok_or(FrameError::Checksum)?;
    let payload = rest.get(..payload_length).ok_or(FrameError::Checksum)?;
    let stored = u32::from_le_bytes([header[20], header[21], header[22], header[23]]);
    if header[..4] != MARK || checksum(&bytes[..HEADER_BYTES + key_length + payload_length]) != stored {
        return Err(FrameError::Checksum);
    }
    let tree = TreeId::ALL.into_iter().find(|tree| *tree as u8 == header[5]);
    let tree = tree.filter(|_| header[4] == VERSION).ok_or(FrameError::NewerVersion)?;
    let (_, sequence) = header[..CHECKSUM_AT].split_last_chunk().ok_or(FrameError::CutOff)?;
    let sequence = u64::from_le_bytes(*sequence);
    if sequence > MAX_NUMBER {
        return Err(FrameError::Sequence);
    }
    Ok(Frame { tree, key, sequence, payload })
}

/// Checksum of a frame without the field of the checksum.
fn checksum(framed: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&framed[..CHECKSUM_AT]);
    hasher.update(&framed[HEADER_BYTES..]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame as earlier programs wrote it.
    fn wrap_first_version(key: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&[1]);
        hasher.update(&(key.len() as u64).to_le_bytes());
        hasher.update(key);
        hasher.update(payload);
        [&[1], &hasher.finalize().to_le_bytes()[..], payload].concat()
    }

    #[test]
    fn unwrap_accepts_only_the_frame_that_wrap_made() {
        let (first, second) = (wrap_first_version(b"key", b"payload"), wrap(TreeId::Journal, b"key", 7, b"payload"));
        for (framed, sequence) in [(first, 0), (second, 7)] {
            let frame = unwrap(TreeId::Journal, b"key", &framed).unwrap();
            assert_eq!((frame.payload, frame.sequence), (&b"payload"[..], sequence));
            assert!(unwrap(TreeId::Journal, b"other", &framed).is_err());
            for cut in 0..framed.len() {
                assert!(unwrap(TreeId::Journal, b"key", &framed[..cut]).is_err());
            }
            for bit in 0..framed.len() * 8 {
                let mut flipped = framed.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert!(unwrap(TreeId::Journal, b"key", &flipped).is_err(), "bit {bit}");
            }
        }
        assert!(unwrap(TreeId::Documents, b"key", &wrap(TreeId::Journal, b"key", 7, b"payload")).is_err());
        assert!(unwrap(TreeId::Journal, b"keyp", &wrap(TreeId::Journal, b"key", 7, b"ppayload")).is_err());
    }

    #[test]
    fn scan_finds_whole_frames_between_other_bytes() {
        let mut bytes = b"\x9cXv before".to_vec();
        bytes.extend(wrap(TreeId::Documents, b"a", 1, b"first"));
        bytes.extend(wrap(TreeId::Journal, b"b", 2, b"second"));
        bytes.extend(MARK);
        let damaged = bytes.len() + HEADER_BYTES;
        bytes.extend(wrap(TreeId::Journal, b"c", 3, b"damaged"));
        bytes[damaged] ^= 1;
        bytes.extend(wrap(TreeId::Processes, b"d", 4, &MARK));
        bytes.extend(&wrap(TreeId::Processes, b"e", 5, b"cut off")[..30]);
        let mut found = Vec::new();
        scan(&bytes, |offset, frame| {
            assert_eq!(bytes[offset..offset + 4], MARK);
            found.push((frame.tree, frame.key.to_vec(), frame.sequence));
        });
        let expected = [
            (TreeId::Documents, b"a".to_vec(), 1),
            (TreeId::Journal, b"b".to_vec(), 2),
            (TreeId::Processes, b"d".to_vec(), 4),
        ];
        assert_eq!(found, expected);
    }
}
