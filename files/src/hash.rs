//! Digests of byte streams, computed while the bytes are read or copied.

use std::io::{self, Read};

use xavantes_model::digest::Digest;

/// Size of the chunks in which files are read and sent: large enough that the cost per chunk does not matter, small enough
/// that each transfer can buffer a few.
pub const CHUNK_BYTES: usize = 256 << 10;

/// Computes the digest and size of everything that `source` yields.
pub fn digest_of(source: &mut impl Read) -> io::Result<(Digest, u64)> {
    let mut hasher = blake3::Hasher::new();
    let size = copy_hashed(source, &mut hasher, |_| Ok(()))?;
    Ok((finish(&hasher), size))
}

/// The digest of everything that a hasher has seen.
pub(crate) fn finish(hasher: &blake3::Hasher) -> Digest {
    Digest(*hasher.finalize().as_bytes())
}

/// Reads `source` to its end, feeds each chunk to the hasher and to `write`, and returns the number of bytes.
pub(crate) fn copy_hashed(
    source: &mut impl Read,
    hasher: &mut blake3::Hasher,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let (mut buffer, mut size) = (vec![0; CHUNK_BYTES], 0);
    loop {
        let count = match source.read(&mut buffer) {
            Ok(0) => return Ok(size),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        hasher.update(&buffer[..count]);
        write(&buffer[..count])?;
        size += count as u64;
    }
}
