//! A frame around every record of the embedded store: what was not written like this, or not under this key, is found
//! out when it is read.

/// The layout of records that this program writes and reads.
const VERSION: u8 = 1;
const HEADER: usize = 5;

/// The version, the checksum of everything else and of the key, the payload.
pub(crate) fn wrap(key: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut framed = Vec::with_capacity(HEADER + payload.len());
    framed.push(VERSION);
    framed.extend(checksum(VERSION, key, payload).to_le_bytes());
    framed.extend(payload);
    framed
}

/// The payload, or what is wrong.
pub(crate) fn unwrap<'a>(key: &[u8], framed: &'a [u8]) -> Result<&'a [u8], &'static str> {
    let Some((&[version, a, b, c, d], payload)) = framed.split_first_chunk::<HEADER>() else {
        return Err("it is cut off");
    };
    if checksum(version, key, payload) != u32::from_le_bytes([a, b, c, d]) {
        return Err("its checksum is wrong");
    }
    if version != VERSION {
        return Err("it was written by a newer version of Xavantes");
    }
    Ok(payload)
}

fn checksum(version: u8, key: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[version]);
    // Its length keeps a key apart from the payload that follows it.
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key);
    hasher.update(payload);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_only_as_it_was_written() {
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
