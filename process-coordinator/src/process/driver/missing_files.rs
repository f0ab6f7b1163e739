//! Attempts that lack files, the repairs that make these files again, and lost attempts.

use xavantes_engine::Answer;
use xavantes_model::digest::Digest;
use xavantes_model::script::Sandbox;
use xavantes_proto::v1;

use super::Driver;
use crate::data::repair::{RepairStep, is_repair};
use crate::engine_messages::{answer_from, element_from, stored_digests};
use crate::process::effect::ProcessEffect;
use xavantes_proto::AttemptKey;

impl<C, A> Driver<C, A> {
    /// A repair has an answer.
    pub(super) fn on_repair_answered(&mut self, sandbox: &mut Sandbox, key: &AttemptKey, outcome: v1::answer::Outcome) {
        let steps = match outcome {
            v1::answer::Outcome::Completed(completed) => {
                let made: Vec<Digest> = completed.results.iter().flat_map(stored_digests).collect();
                self.repairs.on_completed(key.element, key.attempt, &made)
            }
            v1::answer::Outcome::Failed(failure) => {
                self.repairs.on_failed(&self.notes.lineage, key.element, key.attempt, &failure)
            }
            _ => self.repairs.retry(key.element).into_iter().collect(),
        };
        self.repair(sandbox, steps);
    }

    /// Carries out what the repairs need.
    pub(super) fn repair(&mut self, sandbox: &mut Sandbox, steps: Vec<RepairStep>) {
        for step in steps {
            match step {
                RepairStep::Dispatch { element, attempt, recipe } => {
                    let (activity, parameters) = (recipe.activity as usize, &recipe.parameters);
                    let mut task = self.task(element_from(element), attempt, activity, parameters, None);
                    task.job.path.clone_from(&recipe.path);
                    self.effects.push(ProcessEffect::Dispatch(task));
                }
                RepairStep::Resume(key) => self.on_lost(sandbox, &key),
                RepairStep::Fail(key, mut failure) => {
                    failure.gone.clear();
                    let answer = answer_from(v1::answer::Outcome::Failed(failure));
                    let _ = self.step_answered(sandbox, &key, answer);
                }
            }
        }
    }

    /// No worker has an attempt, or a repair, any more.
    pub(super) fn on_lost(&mut self, sandbox: &mut Sandbox, key: &AttemptKey) {
        if is_repair(key.element) {
            let retry = self.repairs.retry(key.element);
            return self.repair(sandbox, retry.into_iter().collect());
        }
        self.repairs.stop_waiting(key);
        self.lookups.end(key);
        self.subtrees.remove(&(key.element, key.attempt));
        if self.step_answered(sandbox, key, Answer::Lost).is_ok() {
            self.notes.remove_place(key.element, key.attempt);
        }
    }
}
