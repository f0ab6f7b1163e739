//! The file of the witness. A frame is a mark, the length of its body, a checksum, and the body.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::super::store_directory::sync_directory;
use super::{WitnessNote, WitnessedRecords};

const MARK: [u8; 4] = *b"\xb5wit";
const HEADER_BYTES: usize = 12;

/// A rewritten witness has frames of about this size, so that damage of one frame concerns few processes.
const FRAME_BYTES: usize = 4 * 1024;
/// Size up to which the file is never rewritten. Above it, it is rewritten when it has grown to a multiple of its size after
/// the last time.
const REWRITE_BYTES: u64 = 1 << 20;
const REWRITE_FACTOR: u64 = 4;

/// The file to which the committer appends notes.
pub(in super::super) struct WitnessFile {
    path: PathBuf,
    /// `None` after a failed write, until the file is rewritten.
    file: Option<File>,
    bytes: u64,
    /// Size after the file was last rewritten.
    rewritten_bytes: u64,
    /// The frame that the next append writes.
    frame: Vec<u8>,
}

impl WitnessFile {
    /// Reads the witness at a path. `None` if there is none.
    pub(in super::super) fn read(path: &Path) -> io::Result<Option<WitnessedRecords>> {
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(Self::parse(&bytes)))
    }

    /// The facts in the bytes of a witness.
    pub(in super::super) fn parse(bytes: &[u8]) -> WitnessedRecords {
        let mut state = WitnessedRecords::default();
        let (mut offset, mut whole) = (0, true);
        while offset < bytes.len() {
            let read = body_at(bytes, offset).filter(|body| {
                if !whole {
                    state.on_damage();
                }
                state.apply(body)
            });
            if let Some(body) = read {
                offset += HEADER_BYTES + body.len();
                whole = true;
            } else {
                whole = false;
                let next = memchr::memmem::find(&bytes[offset + 1..], &MARK);
                offset = next.map_or(bytes.len(), |distance| offset + 1 + distance);
            }
        }
        state
    }

    /// A witness that [`rewrite`](Self::rewrite) has to create.
    pub(in super::super) fn new(path: PathBuf) -> Self {
        Self { path, file: None, bytes: 0, rewritten_bytes: 0, frame: Vec::new() }
    }

    /// Adds a note to the next frame.
    pub(in super::super) fn note(&mut self, note: &WitnessNote<'_>) {
        add(&mut self.frame, note);
    }

    /// Appends the frame with the notes, and says which commit they belong to.
    pub(in super::super) fn append(&mut self, sequence: u64) -> io::Result<()> {
        if self.frame.is_empty() {
            return Ok(());
        }
        let notes = std::mem::take(&mut self.frame);
        let Some(file) = &mut self.file else { return Ok(()) };
        let frame = seal(sequence, &notes);
        self.bytes += frame.len() as u64;
        let written = file.write_all(&frame);
        self.frame = notes;
        self.frame.clear();
        if written.is_err() {
            self.file = None;
        }
        written
    }

    /// Whether the file must be written anew: it is too large, or a write failed.
    pub(in super::super) fn needs_rewrite(&self) -> bool {
        self.file.is_none() || self.bytes > REWRITE_BYTES.max(self.rewritten_bytes.saturating_mul(REWRITE_FACTOR))
    }

    /// Replaces the file by one with these notes, atomically and durably.
    pub(in super::super) fn rewrite<'a>(
        &mut self,
        sequence: u64,
        notes: impl Iterator<Item = WitnessNote<'a>>,
    ) -> io::Result<()> {
        self.frame.clear();
        let partial = self.path.with_extension("partial");
        let mut file = io::BufWriter::new(File::create(&partial)?);
        let (mut frame, mut bytes) = (Vec::new(), 0);
        let mut finish = |frame: &mut Vec<u8>| {
            let sealed = seal(sequence, frame);
            frame.clear();
            bytes += sealed.len() as u64;
            file.write_all(&sealed)
        };
        for note in notes {
            add(&mut frame, &note);
            if frame.len() > FRAME_BYTES {
                finish(&mut frame)?;
            }
        }
        finish(&mut frame)?;
        file.into_inner()?.sync_data()?;
        fs::rename(&partial, &self.path)?;
        if let Some(directory) = self.path.parent() {
            sync_directory(directory)?;
        }
        self.file = Some(OpenOptions::new().append(true).open(&self.path)?);
        (self.bytes, self.rewritten_bytes) = (bytes, bytes);
        Ok(())
    }

    /// Makes all frames durable.
    pub(in super::super) fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }
}

/// Adds a note to the notes of a frame.
pub(in super::super) fn add(frame: &mut Vec<u8>, note: &WitnessNote<'_>) {
    // Postcard fails on a growing vector only for types of unknown shape. Notes have a fixed shape.
    *frame = postcard::to_extend(note, std::mem::take(frame)).expect("notes can be encoded");
}

/// Makes a frame of notes.
pub(in super::super) fn seal(sequence: u64, notes: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADER_BYTES + 10 + notes.len());
    frame.extend([0; HEADER_BYTES]);
    let mut frame = postcard::to_extend(&sequence, frame).expect("numbers can be encoded");
    frame.extend(notes);
    let (header, body) = frame.split_at_mut(HEADER_BYTES);
    header[..4].copy_from_slice(&MARK);
    header[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
    header[8..].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    frame
}

/// The body of the frame at an offset, if it is whole.
fn body_at(bytes: &[u8], offset: usize) -> Option<&[u8]> {
    let (header, rest) = bytes.get(offset..)?.split_first_chunk::<HEADER_BYTES>()?;
    let word = |from: usize| u32::from_le_bytes([header[from], header[from + 1], header[from + 2], header[from + 3]]);
    let body = rest.get(..word(4) as usize)?;
    (header[..4] == MARK && crc32fast::hash(body) == word(8)).then_some(body)
}

#[cfg(test)]
mod tests {
    use super::super::ProcessMark;
    use super::super::witness_state::Expected;
    use super::*;

    fn mark(number: u64, next_record: u64) -> ProcessMark {
        ProcessMark { number, next_record, ..ProcessMark::default() }
    }

    /// A witness with the processes `a` and `b`, and with two more frames: one about `a`, one about a document.
    fn written() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("witness");
        let mut witness = WitnessFile::new(path.clone());
        assert!(witness.needs_rewrite());
        let notes = [
            WitnessNote::Opened { realm: "r", boot: "b" },
            WitnessNote::Process { id: "a", mark: mark(1, 1) },
            WitnessNote::Process { id: "b", mark: mark(2, 1) },
        ];
        witness.rewrite(5, notes.into_iter()).unwrap();
        witness.note(&WitnessNote::Process { id: "a", mark: mark(1, 2) });
        witness.append(6).unwrap();
        witness.append(6).unwrap();
        witness.note(&WitnessNote::Document { key: b"d", sequence: 7 });
        witness.append(7).unwrap();
        assert!(!witness.needs_rewrite());
        (directory, path)
    }

    #[test]
    fn frames_add_up() {
        let (_directory, path) = written();
        let state = WitnessFile::read(&path).unwrap().unwrap();
        assert_eq!((state.realm.as_deref(), state.sequence, state.next_number), (Some("r"), 7, 3));
        assert_eq!(state.processes["a"], Expected { fact: mark(1, 2), is_firm: true });
        assert_eq!(state.documents[&b"d".to_vec()], Expected { fact: 7, is_firm: true });
        assert!(state.is_complete("b") && !state.is_complete("other"));
        assert_eq!(WitnessFile::read(&path.with_extension("none")).unwrap(), None);
    }

    #[test]
    fn a_cut_end_loses_the_last_frames_and_a_flip_makes_earlier_facts_uncertain() {
        let (_directory, path) = written();
        let bytes = fs::read(&path).unwrap();
        let (mut cut, mut damaged) = (0, 0);
        for length in 0..bytes.len() {
            fs::write(&path, &bytes[..length]).unwrap();
            let state = WitnessFile::read(&path).unwrap().unwrap();
            assert!(!state.is_damaged && state.documents.is_empty(), "{length}");
            cut += usize::from(state.sequence == 6);
        }
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            fs::write(&path, &flipped).unwrap();
            let state = WitnessFile::read(&path).unwrap().unwrap();
            assert!(state.is_damaged || state.documents.is_empty(), "{bit}");
            if let Some(expected) = state.processes.get("b").filter(|_| state.is_damaged) {
                assert!(!expected.is_firm, "{bit}");
                damaged += 1;
            }
        }
        assert!(cut > 10 && damaged > 10, "{cut} {damaged}");
    }
}
