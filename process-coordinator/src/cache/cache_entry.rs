//! The data of the result cache. Without I/O, clock or threads.
//!
//! A result is found by a digest of everything that it depends on: the code that runs and its parameters. Beside each result
//! is a [`CacheEntry`], which stays when the result is evicted: it names the activity that made the result, and lets later
//! activities find out in what they differ.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use xavantes_model::digest::Digest;
use xavantes_proto::{Message, v1};

/// Upper bound on the cached results of one activity. Larger data belongs into files.
pub const MAX_RESULT_BYTES: usize = 4 << 20;

/// A parameter of an activity, by the digest of its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterDigest {
    /// Name of the parameter.
    pub name: Arc<str>,
    /// Digest of the value.
    pub digest: Digest,
    /// The value for people, shortened.
    pub shown: String,
}

/// A search for the results of an activity that is about to run.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheLookup {
    /// Digest of everything that the results depend on.
    pub key: Digest,
    /// Digest of the code of the activity type.
    pub code: Digest,
    /// Name of the activity type.
    pub type_name: Arc<str>,
    /// Path of the element.
    pub path: String,
    /// Parameters of the activity.
    pub parameters: Vec<ParameterDigest>,
    /// The activity type asks for reuse, so the cache may have results.
    pub in_cache: bool,
    /// Results of the former process, if the process is a rerun and takes them over.
    pub former: Option<Box<FormerHit>>,
}

/// Results that an activity of a rerun takes over.
#[derive(Debug, Clone, PartialEq)]
pub struct FormerHit {
    /// Position in the memo of the former process.
    pub position: u32,
    /// The activity and its results.
    pub hit: CacheHit,
}

/// An activity that ended before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EarlierActivity {
    /// Path of the element.
    pub path: String,
    /// When it ended, in milliseconds since 1970.
    pub at_ms: u64,
}

/// A parameter whose value differs from the one before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterChange {
    /// Name of the parameter.
    pub name: Arc<str>,
    /// The value before.
    pub before: String,
    /// The value now.
    pub after: String,
}

/// Why the cache has no results for an activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum MissReason {
    /// The process was started without reuse.
    Disabled,
    /// No activity of this type is known.
    First,
    /// No earlier activity did the same.
    Changed {
        /// The earlier activity that differs least.
        earlier: EarlierActivity,
        /// Digest of the code that ran then, if it differs from the code now.
        code: Option<Digest>,
        /// Parameters that differ.
        parameters: Vec<ParameterChange>,
    },
    /// The same activity failed before.
    Failed(EarlierActivity),
    /// The results had this many bytes, too many to be cached.
    TooLarge(EarlierActivity, u64),
    /// The results were evicted.
    Evicted(EarlierActivity),
    /// No node has this file of the results any more.
    FileGone(EarlierActivity, String),
    /// This parameter refers to this external data, whose content is not known before a worker has read it.
    UnknownContent(Arc<str>, String),
    /// This parameter is a shared object.
    SharedObject(Arc<str>),
    /// The cache could not be read.
    Unavailable(String),
    /// The former process of a rerun did not complete the activity.
    NotCompleted {
        /// The former process.
        process: String,
        /// Activities that the former process completed and whose results it did not keep.
        left_out: u64,
    },
    /// The activity writes this result to a data source.
    WritesOutside(Arc<str>),
    /// Another activity of the rerun took over the results of the same activity.
    TakenOver(EarlierActivity),
}

/// Whether an activity reused earlier results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReuseDecision {
    /// Path of the element.
    pub path: String,
    /// Name of the activity type.
    pub type_name: Arc<str>,
    /// Digest of the code of the activity type.
    pub code: Digest,
    /// The activity whose results were reused, or why none were.
    pub outcome: Result<EarlierActivity, MissReason>,
}

/// What the cache knows of an activity that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheEntry {
    /// Name of the activity type.
    pub type_name: Arc<str>,
    /// The activity.
    pub made: EarlierActivity,
    /// Approximate time of the last reuse, in milliseconds since 1970.
    pub used_ms: u64,
    /// Digest of the code that ran.
    pub code: Digest,
    /// Parameters of the activity.
    pub parameters: Vec<ParameterDigest>,
    /// Whether the cache has the results.
    pub stored: StoredResults,
}

/// Whether the cache has the results of an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredResults {
    /// It has them, in this many bytes.
    Present(u64),
    /// There are none: the activity failed.
    Failed,
    /// The results had this many bytes, too many to be cached.
    TooLarge(u64),
    /// The results were evicted.
    Evicted,
}

/// A change of the cache that must be written before, or together with, the record that it follows from.
#[derive(Debug, Clone)]
pub enum CacheWrite {
    /// Results of an activity, or its failure.
    Result {
        /// Key under which lookups find the results.
        key: Digest,
        /// The entry; the cache fills in its times when it writes it.
        entry: Box<CacheEntry>,
        /// An encoded `Completed`, if the results are cached.
        results: Option<Bytes>,
    },
    /// Whether an activity reused earlier results.
    Decision(Box<ReuseDecision>),
    /// The results under this key were reused.
    Used(Digest),
}

/// Results that a lookup found.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheHit {
    /// The activity that made them.
    pub earlier: EarlierActivity,
    /// The results.
    pub completed: v1::Completed,
}

impl CacheLookup {
    /// The decision that follows from the outcome of this lookup.
    pub fn decision(&self, outcome: Result<EarlierActivity, MissReason>) -> ReuseDecision {
        ReuseDecision { path: self.path.clone(), type_name: self.type_name.clone(), code: self.code, outcome }
    }

    /// In what this activity differs from the one of an entry.
    pub fn compare(&self, entry: &CacheEntry) -> MissReason {
        let before = |name: &str| entry.parameters.iter().find(|it| *it.name == *name);
        let mut parameters = Vec::new();
        for now in &self.parameters {
            let change = |before: String, after: String| ParameterChange { name: now.name.clone(), before, after };
            match before(&now.name) {
                Some(then) if then.digest == now.digest => {}
                // The values look alike when they are shortened: their digests tell them apart.
                Some(then) if then.shown == now.shown => {
                    let with_digest = |it: &ParameterDigest| format!("{} ({})", it.shown, it.digest.short());
                    parameters.push(change(with_digest(then), with_digest(now)));
                }
                Some(then) => parameters.push(change(then.shown.clone(), now.shown.clone())),
                None => parameters.push(change(String::new(), now.shown.clone())),
            }
        }
        let removed = entry.parameters.iter().filter(|then| self.parameters.iter().all(|now| now.name != then.name));
        parameters.extend(removed.map(|then| ParameterChange {
            name: then.name.clone(),
            before: then.shown.clone(),
            after: String::new(),
        }));
        let code = Some(entry.code).filter(|code| *code != self.code);
        MissReason::Changed { earlier: entry.made.clone(), code, parameters }
    }

    /// The entry of this activity, without times.
    pub(crate) fn entry(&self, stored: StoredResults) -> CacheEntry {
        let made = EarlierActivity { path: self.path.clone(), at_ms: 0 };
        let (type_name, parameters) = (self.type_name.clone(), self.parameters.clone());
        CacheEntry { type_name, made, used_ms: 0, code: self.code, parameters, stored }
    }

    /// Caches the results of this activity.
    pub fn completed(&self, completed: &v1::Completed) -> CacheWrite {
        let size = completed.encoded_len();
        let (stored, results) = match size {
            0..=MAX_RESULT_BYTES => (StoredResults::Present(size as u64), Some(completed.encode_to_vec().into())),
            _ => (StoredResults::TooLarge(size as u64), None),
        };
        CacheWrite::Result { key: self.key, entry: Box::new(self.entry(stored)), results }
    }

    /// Remembers that this activity failed.
    pub fn failed(&self) -> CacheWrite {
        CacheWrite::Result { key: self.key, entry: Box::new(self.entry(StoredResults::Failed)), results: None }
    }
}
