//! The frame around every record in sled: it reveals a record that was damaged or stored under another key.

/// Layout of records that this program writes and reads.
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 5;

/// Why a frame cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum FrameError {
    #[error("it is cut off")]
    CutOff,
    #[error("its checksum is wrong")]
    Checksum,
    #[error("it was written by a newer version of Xavantes")]
    NewerVersion,
}

/// Frames a payload: the version, the checksum of version, key and payload, then the payload.
pub(super) fn wrap(key: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(HEADER_BYTES + payload.len());
    framed.push(VERSION);
    framed.extend(checksum(VERSION, key, payload).to_le_bytes());
    framed.extend(payload);
    framed
}

/// Returns the payload of a frame that [`wrap`] made for the same key.
pub(super) fn unwrap<'a>(key: &[u8], framed: &'a [u8]) -> Result<&'a [u8], FrameError> {
    let Some((&[version, a, b, c, d], payload)) = framed.split_first_chunk::<HEADER_BYTES>() else {
        return Err(FrameError::CutOff);
    };
    if checksum(version, key, payload) != u32::from_le_bytes([a, b, c, d]) {
        return Err(FrameError::Checksum);
    }
    if version != VERSION {
        return Err(FrameError::NewerVersion);
    }
    Ok(payload)
}

fn checksum(version: u8, key: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[version]);
    // The length separates the key from the payload.
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key);
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwrap_accepts_only_the_frame_that_wrap_made() {
        let framed = wrap(b"key", b"payload");
        assert_eq!(unwrap(b"key", &framed), Ok(&b"payload"[..]));
        assert!(unwrap(b"other", &framed).is_err());
        assert!(unwrap(b"keyp", &wrap(b"key", b"ppayload")).is_err());
        for cut in 0..framed.len() {
            assert!(unwrap(b"key", &framed[..cut]).is_err());
        }
        for bit in 0..framed.len() * 8 {
            let mut flipped = framed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(unwrap(b"key", &flipped).is_err(), "bit {bit}");
        }
    }
}
