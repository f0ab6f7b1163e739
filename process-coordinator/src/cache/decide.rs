//! Decides what an activity may reuse: the lookups of one process. Without I/O, clock or threads.

use std::collections::HashMap;

use xavantes_model::definition::ActivityType;
use xavantes_model::digest::Digest;
use xavantes_model::identity::{self, Undecided};
use xavantes_model::value::Value;

use crate::cache::cache_entry::{CacheLookup, MissReason, ParameterDigest, ReuseDecision};
use crate::cache::shown_value::{HIDDEN, shorten, show_value};
use crate::task::Task;
use xavantes_proto::AttemptKey;

/// The lookup for an activity: a digest of everything that its results depend on, or why there can be no lookup. `code` is
/// [`code_digest`] of the type.
pub fn lookup(
    activity: &ActivityType,
    code: Digest,
    values: &[Value],
    path: String,
) -> Result<CacheLookup, MissReason> {
    // Only a rerun asks for such a type: it must not have CACHE.
    if let Some(output) = activity.files.outputs.iter().find(|output| output.to.is_some()) {
        let parameter = activity.parameters.get(output.slot as usize);
        return Err(MissReason::WritesOutside(parameter.map_or_else(|| "".into(), |it| it.name.clone())));
    }
    let mut parameters = Vec::new();
    for (variable, value) in activity.parameters.iter().zip(values).filter(|(it, _)| it.direction.is_in()) {
        let bytes = identity::value(value).map_err(|undecided| match undecided {
            Undecided::Outside(uri) => MissReason::UnknownContent(variable.name.clone(), shorten(&uri)),
            Undecided::Shared => MissReason::SharedObject(variable.name.clone()),
        })?;
        let digest = Digest(*blake3::hash(&bytes).as_bytes());
        let shown = if variable.secret { HIDDEN.to_owned() } else { show_value(value) };
        parameters.push(ParameterDigest { name: variable.name.clone(), digest, shown });
    }
    let key = combined_key(code, parameters.iter().map(|parameter| &parameter.digest));
    let (type_name, in_cache) = (activity.name.clone(), activity.cache);
    Ok(CacheLookup { key, code, type_name, path, parameters, in_cache, former: None })
}

/// The key of an activity: a digest of its code and of its inputs, by their digests.
pub fn combined_key<'a>(code: Digest, inputs: impl Iterator<Item = &'a Digest>) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&code.0);
    for input in inputs {
        hasher.update(&input.0);
    }
    Digest(*hasher.finalize().as_bytes())
}

/// Digest of the code of an activity type.
pub fn code_digest(activity: &ActivityType) -> Digest {
    Digest(*blake3::hash(&identity::activity_type(activity)).as_bytes())
}

/// The cache lookups of one process.
#[derive(Debug, Default)]
pub struct Lookups {
    /// The process was started without reuse.
    pub disabled: bool,
    /// All activities look for earlier results, because the process is a rerun.
    pub is_rerun: bool,
    /// Code digests by activity type.
    codes: HashMap<usize, Digest>,
    /// Attempts whose lookup is under way: no worker has them. By element and attempt.
    pending: HashMap<(u64, u32), (Task, CacheLookup)>,
}

impl Lookups {
    /// The lookup for an activity; nothing if neither its type nor the process asks for reuse.
    pub fn lookup(
        &mut self,
        number: usize,
        activity: &ActivityType,
        values: &[Value],
        path: impl FnOnce() -> String,
    ) -> Option<Result<CacheLookup, Box<ReuseDecision>>> {
        if !activity.cache && !self.is_rerun {
            return None;
        }
        let code = *self.codes.entry(number).or_insert_with(|| code_digest(activity));
        let path = path();
        let type_name = activity.name.clone();
        let decision = |why| Box::new(ReuseDecision { path: path.clone(), type_name, code, outcome: Err(why) });
        Some(lookup(activity, code, values, path.clone()).map_err(decision))
    }

    /// The lookup for an attempt begins.
    pub fn begin(&mut self, task: Task, lookup: CacheLookup) {
        self.pending.insert((task.key.element, task.key.attempt), (task, lookup));
    }

    /// Number of lookups that are under way.
    pub fn pending(&self) -> u64 {
        self.pending.len() as u64
    }

    /// Is the lookup for this attempt under way?
    pub fn is_pending(&self, key: &AttemptKey) -> bool {
        self.pending.contains_key(&(key.element, key.attempt))
    }

    /// Ends the lookup for an attempt; nothing if none is under way.
    pub fn end(&mut self, key: &AttemptKey) -> Option<(Task, CacheLookup)> {
        self.pending.remove(&(key.element, key.attempt))
    }
}
