//! Answers of attempts.

use std::sync::Arc;

use xavantes_engine::{Event, Outcome};
use xavantes_model::digest::Digest;
use xavantes_model::script::Sandbox;
use xavantes_model::value::Value;
use xavantes_proto::v1;

use super::Driver;
use crate::data::lineage::{Recipe, digests};
use crate::data::repair::is_repair;
use crate::engine_messages::{answer_from, element_from, stored_digests};
use crate::memo::memo_entry::element_path;
use crate::process::driver_input::AnswerExtras;
use crate::process::process_notes::Note;
use crate::process::usage::UsageTotals;
use xavantes_proto::AttemptKey;

impl<C, A> Driver<C, A> {
    /// An attempt, or a repair, has an answer.
    pub(super) fn on_answered(
        &mut self,
        sandbox: &mut Sandbox,
        key: &AttemptKey,
        outcome: v1::answer::Outcome,
        extras: Option<Box<AnswerExtras>>,
    ) {
        match outcome {
            outcome if is_repair(key.element) => self.on_repair_answered(sandbox, key, outcome),
            v1::answer::Outcome::Failed(failure) if !failure.gone.is_empty() && self.is_outstanding(key) => {
                let steps = self.repairs.on_missing_files(&self.notes.lineage, key.clone(), failure);
                self.repair(sandbox, steps);
            }
            outcome => self.on_attempt_answered(sandbox, key, outcome, extras),
        }
    }

    fn on_attempt_answered(
        &mut self,
        sandbox: &mut Sandbox,
        key: &AttemptKey,
        outcome: v1::answer::Outcome,
        extras: Option<Box<AnswerExtras>>,
    ) {
        let cacheable = self.cacheable(key, &outcome);
        let entry = match &outcome {
            v1::answer::Outcome::Completed(completed) => self.memo_entry(key, completed, None),
            _ => None,
        };
        let activity = extras.as_ref().and_then(|_| self.engine.activity(element_from(key.element)));
        let activity = activity.map(|(number, _)| number as u32);
        let subtree = extras.as_ref().filter(|it| it.totals.is_some() && self.memo.is_some());
        let subtree = subtree.map(|_| self.engine.path(element_from(key.element)));
        // The engine rejects late and repeated answers. They are acknowledged all the same: nothing needs them any more.
        let Some(completed) = self.answer(sandbox, key, outcome) else { return };
        self.subtrees.remove(&(key.element, key.attempt));
        self.notes.remove_place(key.element, key.attempt);
        let extras = extras.unwrap_or_default();
        if let Some(totals) = extras.totals {
            self.note(Note::SubtreeEnded(totals));
            self.inherit(extras.recipes);
        }
        if let (Some(path), Some(memo)) = (subtree, &mut self.memo) {
            memo.add_subtree(&extras.memo.0, extras.memo.1, element_path(&path), self.now);
        }
        if let (Some(activity), Some(usage)) = (activity, extras.usage) {
            self.unrecorded_usage.entry(activity).or_default().add(&UsageTotals::of_attempt(&usage));
        }
        self.add_to_memo(entry.filter(|_| completed));
        let cached = cacheable.filter(|cacheable| cacheable.if_completed == completed);
        self.cache_writes.extend(cached.map(|cacheable| cacheable.write));
    }

    /// Answers an attempt; nothing if it is not outstanding, otherwise whether the element completed.
    pub(super) fn answer(
        &mut self,
        sandbox: &mut Sandbox,
        key: &AttemptKey,
        outcome: v1::answer::Outcome,
    ) -> Option<bool> {
        // Before the step: subtrees that begin with it inherit the recipe.
        if self.is_outstanding(key)
            && let Some((recipe, made)) = self.recipe(key, &outcome)
        {
            self.note(Note::FilesMade(recipe, made));
        }
        let failed_at = match &outcome {
            v1::answer::Outcome::Failed(failure) => failure.worker.as_deref().map(Arc::from),
            _ => None,
        };
        match failed_at {
            Some(worker) => drop(self.failed_at.insert(key.element, worker)),
            None => drop(self.failed_at.remove(&key.element)),
        }
        let (element, before) = (element_from(key.element), self.output.events.len());
        let accepted = self.step_answered(sandbox, key, answer_from(outcome));
        if accepted.is_err() || self.engine.view(element).is_none() {
            self.failed_at.remove(&key.element);
        }
        accepted.ok()?;
        let completed =
            |event: &Event| matches!(event, Event::Ended { id, outcome: Outcome::Completed, .. } if *id == element);
        Some(self.output.events[before..].iter().any(completed))
    }

    /// The recipe of the files that an attempt made, and their digests; nothing if it made none.
    fn recipe(&self, key: &AttemptKey, outcome: &v1::answer::Outcome) -> Option<(Arc<Recipe>, Vec<Digest>)> {
        let v1::answer::Outcome::Completed(completed) = outcome else { return None };
        let made: Vec<Digest> = completed.results.iter().flat_map(stored_digests).collect();
        if made.is_empty() {
            return None;
        }
        let element = element_from(key.element);
        let (activity, parameters) = self.engine.activity(element)?;
        let path = self.engine.path(element);
        Some((Arc::new(Recipe { activity: activity as u32, parameters: parameters.to_vec(), path }), made))
    }

    /// Takes over recipes of another coordinator, so that this process can make those files again.
    pub fn inherit(&mut self, recipes: Vec<v1::Recipe>) {
        let activities = self.engine.program().activities.len();
        for (recipe, made) in recipes.into_iter().filter_map(|recipe| Recipe::from_wire(recipe, activities)) {
            self.note(Note::FilesMade(recipe, made));
        }
    }

    /// The recipes of the files among values.
    pub fn recipes<'a>(&self, values: impl Iterator<Item = &'a Value>) -> Vec<v1::Recipe> {
        match self.notes.lineage.is_empty() {
            true => Vec::new(),
            false => self.notes.lineage.to_wire(values.flat_map(digests).collect()),
        }
    }
}
