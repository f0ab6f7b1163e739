//! A process that is recovered from its journal.

use std::collections::BTreeSet;
use std::sync::Arc;

use xavantes_engine::{Command, Engine, Root, StepOutput, Time};
use xavantes_model::definition::Program;
use xavantes_proto::v1;

use super::Driver;
use crate::handover::RecoveredAttempt;
use crate::process::journal::Snapshot;

impl<C, A> Driver<C, A> {
    /// The driver of a recovered process, and every attempt that was outstanding when it was last recorded.
    pub fn recover(
        id: Arc<str>,
        program: Arc<Program>,
        wire: Arc<v1::Program>,
        root: Root,
        snapshot: Snapshot,
    ) -> (Self, Vec<RecoveredAttempt>) {
        let engine = Engine::restore(program, snapshot.state);
        let mut driver = Self::new(id, engine, root, wire, StepOutput::default());
        (driver.notes, driver.now) = (snapshot.notes, Time(snapshot.at));
        let attempts = driver.outstanding_attempts();
        let outstanding: BTreeSet<(u64, u32)> =
            attempts.iter().map(|it| (it.task.key.element, it.task.key.attempt)).collect();
        driver.notes.retain_places(&outstanding);
        (driver, attempts)
    }

    fn outstanding_attempts(&self) -> Vec<RecoveredAttempt> {
        let mut attempts: Vec<RecoveredAttempt> = Vec::new();
        for command in self.engine.outstanding() {
            match command {
                Command::Dispatch { element, attempt, activity, parameters, timeout } => {
                    let task = self.task(element, attempt, activity, &parameters, timeout);
                    attempts.push(RecoveredAttempt { task, place: None, stop: false, paused: None });
                }
                Command::Delegate(delegation) => {
                    let task = self.subtree(&delegation);
                    let place = self.notes.place(task.key.element, task.key.attempt).cloned();
                    // A resume may not have reached the subtree before the crash.
                    attempts.push(RecoveredAttempt { task, place, stop: false, paused: Some(false) });
                }
                // These commands follow the attempt that they are about.
                Command::Cancel { .. } => attempts.last_mut().into_iter().for_each(|it| it.stop = true),
                Command::Pause { paused, .. } => {
                    attempts.last_mut().into_iter().for_each(|it| it.paused = Some(paused));
                }
                Command::Reply { .. } | Command::Continue | Command::Finish { .. } => {}
            }
        }
        attempts
    }
}
