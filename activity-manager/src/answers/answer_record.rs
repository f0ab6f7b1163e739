//! The encoding of records in the answer log.
//!
//! A record is a header and a body. The header is a mark by which a reader finds the next record behind damage, the length
//! of the body and its checksum. Integers are little-endian. The body starts with the kind and two texts, each with
//! its length; the answer or the number of the attempt follows.

use std::sync::Arc;

use xavantes_proto::{AttemptKey, MAX_PART_BYTES, MAX_PAYLOAD_BYTES, Message, v1};

use crate::attempts::action::OwnedAnswer;
use crate::attempts::realm_attempt::RealmAttempt;

/// Bytes before the body: mark, length, checksum.
pub(crate) const HEADER_BYTES: usize = 12;
const MARK: [u8; 4] = *b"\xabans";
/// Upper bound on the body. No answer is larger, so a larger length is damage.
const MAX_BODY_BYTES: usize = MAX_PAYLOAD_BYTES + MAX_PART_BYTES;

const ANSWER: u8 = 1;
const FORGOTTEN: u8 = 2;

/// An entry of the answer log.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AnswerRecord {
    /// The answer to an attempt.
    Answer(OwnedAnswer),
    /// The coordinator acknowledged the answer to this attempt, or no coordinator wants it.
    Forgotten(RealmAttempt),
}

impl AnswerRecord {
    /// The attempt that this record answers.
    pub fn into_answered(self) -> Option<RealmAttempt> {
        match self {
            Self::Answer(answer) => Some(answer.attempt),
            Self::Forgotten(_) => None,
        }
    }

    pub fn encode(&self, into: &mut Vec<u8>) {
        let start = into.len();
        into.extend_from_slice(&[0; HEADER_BYTES]);
        let (kind, attempt, second) = match self {
            Self::Answer(answer) => (ANSWER, &answer.attempt, &answer.owner),
            Self::Forgotten(attempt) => (FORGOTTEN, attempt, &attempt.key.process),
        };
        into.push(kind);
        for text in [&attempt.realm, second] {
            into.extend_from_slice(&(text.len() as u32).to_le_bytes());
            into.extend_from_slice(text.as_bytes());
        }
        match self {
            // Encoding into a growing vector cannot fail.
            Self::Answer(answer) => drop(answer.answer.encode(into)),
            Self::Forgotten(attempt) => {
                into.extend_from_slice(&attempt.key.element.to_le_bytes());
                into.extend_from_slice(&attempt.key.attempt.to_le_bytes());
            }
        }
        let (header, body) = into[start..].split_at_mut(HEADER_BYTES);
        header[..4].copy_from_slice(&MARK);
        header[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
        header[8..].copy_from_slice(&crc32fast::hash(body).to_le_bytes());
    }

    pub fn decode(body: &[u8]) -> Option<Self> {
        let (kind, mut rest) = body.split_first()?;
        let mut text = || {
            let (length, behind) = rest.split_first_chunk::<4>()?;
            let (text, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            rest = behind;
            Some(Arc::<str>::from(str::from_utf8(text).ok()?))
        };
        let (realm, second) = (text()?, text()?);
        match *kind {
            ANSWER => {
                let answer = v1::Answer::decode(rest).ok()?;
                let attempt = RealmAttempt::new(&realm, answer.id.as_ref()?);
                Some(Self::Answer(OwnedAnswer { attempt, owner: second, answer: Arc::new(answer) }))
            }
            FORGOTTEN => {
                let (element, rest) = rest.split_first_chunk()?;
                let attempt = rest.first_chunk()?;
                let (element, attempt) = (u64::from_le_bytes(*element), u32::from_le_bytes(*attempt));
                Some(Self::Forgotten(RealmAttempt { realm, key: AttemptKey::new(second, element, attempt) }))
            }
            _ => None,
        }
    }
}

/// The body of the record that starts at the offset, if the record is whole.
fn body_at(bytes: &[u8], offset: usize) -> Option<&[u8]> {
    let (header, rest) = bytes.get(offset..)?.split_first_chunk::<HEADER_BYTES>()?;
    let word = |from: usize| u32::from_le_bytes([header[from], header[from + 1], header[from + 2], header[from + 3]]);
    let length = word(4) as usize;
    if header[..4] != MARK || length > MAX_BODY_BYTES {
        return None;
    }
    rest.get(..length).filter(|body| crc32fast::hash(body) == word(8))
}

/// Calls `on_record` with the body of each record of a file, and `on_damage` with the offset of each damaged range. Returns
/// the end of the last record; a damaged range behind it reaches to the end of the file.
pub(crate) fn scan(bytes: &[u8], mut on_record: impl FnMut(&[u8]), mut on_damage: impl FnMut(usize)) -> usize {
    let (mut offset, mut end, mut whole) = (0, 0, true);
    while offset < bytes.len() {
        if let Some(body) = body_at(bytes, offset) {
            on_record(body);
            offset += HEADER_BYTES + body.len();
            (end, whole) = (offset, true);
        } else {
            if whole {
                on_damage(offset);
            }
            whole = false;
            let next = bytes[offset + 1..].windows(MARK.len()).position(|window| window == MARK);
            offset = next.map_or(bytes.len(), |distance| offset + 1 + distance);
        }
    }
    end
}
