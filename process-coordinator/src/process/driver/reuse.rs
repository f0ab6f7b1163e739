//! Reuse of earlier results: before the driver dispatches an activity with `CACHE`, it searches the result cache; in a rerun
//! it first looks for results of the former process. It keeps the memo of the process for later reruns.

use xavantes_model::script::Sandbox;
use xavantes_model::value::Value;
use xavantes_proto::v1;

use super::Driver;
use crate::cache::cache_entry::{CacheHit, CacheLookup, CacheWrite, MissReason};
use crate::engine_messages::element_from;
use crate::memo::memo_entry::encode_entry;
use crate::process::effect::ProcessEffect;
use crate::process::process_notes::Note;
use crate::task::Task;
use xavantes_proto::AttemptKey;

/// A change of the cache that follows from an answer, if the engine agrees with the worker about its success.
pub(super) struct Cacheable {
    pub write: CacheWrite,
    /// The write is right if the element completed; otherwise if it did not.
    pub if_completed: bool,
}

impl<C, A> Driver<C, A> {
    /// Dispatches an activity, or looks for earlier results first.
    pub(super) fn search_or_dispatch(
        &mut self,
        task: Task,
        activity: usize,
        parameters: &[Value],
    ) -> ProcessEffect<C, A> {
        let program = self.engine.program().clone();
        match self.lookups.lookup(activity, &program.activities[activity], parameters, || task.job.path.clone()) {
            None => ProcessEffect::Dispatch(task),
            Some(Err(decision)) => {
                self.cache_writes.push(CacheWrite::Decision(decision));
                ProcessEffect::Dispatch(task)
            }
            Some(Ok(lookup)) => {
                let former = self.former.as_mut().map(|former| former.take(&lookup));
                let searches_cache = lookup.in_cache && !self.lookups.disabled;
                let reason = match former {
                    Some(Ok(hit)) => return self.search(task, CacheLookup { former: Some(hit), ..lookup }),
                    _ if searches_cache => return self.search(task, lookup),
                    Some(Err(reason)) => reason,
                    None => MissReason::Disabled,
                };
                self.cache_writes.push(CacheWrite::Decision(Box::new(lookup.decision(Err(reason)))));
                ProcessEffect::Dispatch(task)
            }
        }
    }

    fn search(&mut self, task: Task, lookup: CacheLookup) -> ProcessEffect<C, A> {
        let key = task.key.clone();
        self.lookups.begin(task, lookup.clone());
        ProcessEffect::SearchCache(key, Box::new(lookup))
    }

    /// A search of the cache has ended.
    pub(super) fn on_cache_searched(
        &mut self,
        sandbox: &mut Sandbox,
        key: &AttemptKey,
        found: Result<Box<CacheHit>, MissReason>,
    ) {
        let Some((task, lookup)) = self.lookups.end(key) else { return };
        match found {
            Ok(hit) => {
                let CacheHit { earlier, completed } = *hit;
                let before = self.effects.len();
                let entry = self.memo_entry(key, &completed, lookup.former.as_ref().map(|former| former.position));
                if self.answer(sandbox, key, v1::answer::Outcome::Completed(completed)).is_none() {
                    return;
                }
                self.note(Note::Reused);
                self.add_to_memo(entry);
                let decision = CacheWrite::Decision(Box::new(lookup.decision(Ok(earlier))));
                self.cache_writes.extend(lookup.in_cache.then_some(CacheWrite::Used(lookup.key)));
                self.cache_writes.push(decision);
                for effect in &mut self.effects[before..] {
                    if let ProcessEffect::Publish { product, reused } = effect {
                        *reused |= product.path == lookup.path;
                    }
                }
            }
            Err(reason) => {
                // A retry finds the failure of its own first attempt: the decision for that one stands.
                let is_retry =
                    matches!(&reason, MissReason::Failed(earlier) if earlier.path == lookup.path && key.attempt > 1);
                if !is_retry {
                    self.cache_writes.push(CacheWrite::Decision(Box::new(lookup.decision(Err(reason)))));
                }
                self.effects.push(ProcessEffect::Dispatch(task));
                self.fit_lookup_capacity();
            }
        }
    }

    /// The change of the cache that follows from an answer, if the activity type asks for reuse.
    pub(super) fn cacheable(&mut self, key: &AttemptKey, outcome: &v1::answer::Outcome) -> Option<Cacheable> {
        let element = element_from(key.element);
        let (number, parameters) = self.engine.activity(element)?;
        let activity = &self.engine.program().activities[number];
        if !activity.cache {
            return None;
        }
        let lookup = self.lookups.lookup(number, activity, parameters, || self.engine.path(element))?.ok()?;
        match outcome {
            v1::answer::Outcome::Completed(completed) => {
                Some(Cacheable { write: lookup.completed(completed), if_completed: true })
            }
            v1::answer::Outcome::Failed(_) => Some(Cacheable { write: lookup.failed(), if_completed: false }),
            _ => None,
        }
    }

    /// The memo's entry of an activity that has these results, if the process has a memo. `taken` is the position of the entry
    /// in the memo of the former process.
    pub(super) fn memo_entry(
        &self,
        key: &AttemptKey,
        completed: &v1::Completed,
        taken: Option<u32>,
    ) -> Option<Vec<u8>> {
        self.memo.as_ref()?;
        let element = element_from(key.element);
        let (number, parameters) = self.engine.activity(element)?;
        let activity = &self.engine.program().activities[number];
        Some(encode_entry(number, activity, parameters, &self.engine.path(element), self.now.0, completed, taken))
    }

    /// Adds an entry to the memo: its activity has completed.
    pub(super) fn add_to_memo(&mut self, entry: Option<Vec<u8>>) {
        if let (Some(memo), Some(entry)) = (&mut self.memo, entry) {
            memo.add(&entry, self.now);
        }
    }
}
