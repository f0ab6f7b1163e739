//! What the process is doing, and the counts of its activities: those here, and those in subtrees at other coordinators.

use xavantes_engine::ElementId;
use xavantes_proto::v1::wait_reason::Kind as WaitKind;
use xavantes_proto::{AttemptKey, v1};

use super::Driver;
use crate::definitions::definition_places::name_files;
use crate::workers::worker_messages::PoolLoad;

/// Upper bound on the elements among which the status looks for a paused one.
const MAX_SEARCHED: usize = 10_000;

impl<C, A> Driver<C, A> {
    /// The pool tells where the activities of the process are.
    pub fn set_load(&mut self, load: PoolLoad) {
        self.load = load;
    }

    /// The coordinator of a delegated attempt reports what the subtree is doing. A late report changes nothing.
    pub(super) fn on_subtree_reported(&mut self, key: &AttemptKey, status: v1::SubtreeStatus) {
        if self.is_outstanding(key) {
            self.subtrees.insert((key.element, key.attempt), status);
        }
    }

    /// Whether there are workers that may get activities of this process.
    pub fn has_workers(&self) -> bool {
        self.capacity > 0
    }

    /// Adds the names of the files to a failure of this process.
    pub fn name_files(&self, failure: &mut v1::Failure) {
        name_files(failure, self.engine.program(), self.root, self.engine.id());
    }

    /// What must be done for an attempt before the pool gets it, if anything.
    pub fn preparation(&self, element: ElementId, attempt: u32) -> Option<v1::WaitReason> {
        let key = self.key(element, attempt);
        if self.lookups.is_pending(&key) {
            Some(WaitKind::SearchingCache(v1::Nothing {}).into())
        } else {
            self.repairs.is_waiting(&key).then(|| WaitKind::RestoringFiles(v1::Nothing {}).into())
        }
    }

    /// What a delegated attempt is doing, as its coordinator reported last.
    pub fn subtree_status(&self, element: u64, attempt: u32) -> Option<&v1::SubtreeStatus> {
        self.subtrees.get(&(element, attempt))
    }

    /// Counts of the activities here and at other coordinators. The pool tells with a delay where activities are; what it
    /// has not told of waits.
    pub fn counts(&self) -> v1::Counts {
        let (counts, ended) = (self.engine.state().counts(), &self.notes.subtrees);
        let running = self.load.running.min(counts.outstanding);
        let queued = self.load.queued.min(counts.outstanding - running);
        let mut all = v1::Counts {
            completed: counts.completed,
            failed: counts.failed,
            // The engine counts a reuse as an attempt.
            attempts: counts.attempts.saturating_sub(self.notes.reused),
            running,
            reused: self.notes.reused,
            queued,
            waiting: counts.outstanding - running - queued + counts.ready + counts.delayed,
            held: counts.held,
        };
        all.add(&v1::Counts {
            completed: ended.completed,
            failed: ended.failed,
            attempts: ended.attempts,
            reused: ended.reused,
            ..v1::Counts::default()
        });
        self.subtrees.values().filter_map(|status| status.counts.as_ref()).for_each(|counts| all.add(counts));
        all
    }

    /// The state of the process, and what it waits for, if it does not stand still.
    pub fn state(&self, counts: &v1::Counts) -> (v1::State, Option<v1::WaitReason>) {
        if self.engine.is_cancelled() {
            return (v1::State::Stopping, None);
        }
        if self.engine.is_root_paused() {
            return (v1::State::Paused, None);
        }
        // A subtree may be held, or wait, without any activity that does.
        let reported = || self.subtrees.values().map(v1::SubtreeStatus::state).find(|state| state.is_live());
        let state = counts.state().or_else(reported);
        match state {
            Some(v1::State::Waiting) => (v1::State::Waiting, Some(self.wait_reason())),
            Some(state) => (state, None),
            None if self.engine.state().counts().delegated > 0 => {
                (v1::State::Waiting, Some(WaitKind::Placing(v1::Nothing {}).into()))
            }
            // The coordinator runs the code of controllers, or a pause keeps it from that.
            None => match self.paused_element() {
                Some(paused) => (v1::State::Waiting, Some(paused)),
                None if !self.has_workers() => (v1::State::Waiting, Some(WaitKind::NoWorker(v1::Nothing {}).into())),
                None => (v1::State::Running, None),
            },
        }
    }

    /// What the activities of the process wait for.
    fn wait_reason(&self) -> v1::WaitReason {
        let counts = self.engine.state().counts();
        let elsewhere = || self.subtrees.values().find_map(|status| status.wait_reason.clone());
        let here = self.load.wait_reason.clone().filter(|_| counts.outstanding > 0);
        let timer = || {
            let next = self.engine.next_deadline().filter(|_| counts.delayed > 0 && counts.paused == 0)?;
            Some(WaitKind::RetryInMs(next.0.saturating_sub(self.now.0)).into())
        };
        let other = || match counts.outstanding {
            1.. if self.lookups.pending() > 0 => WaitKind::SearchingCache(v1::Nothing {}).into(),
            1.. if self.repairs.are_awaited() => WaitKind::RestoringFiles(v1::Nothing {}).into(),
            1.. => WaitKind::Preparing(v1::Nothing {}).into(),
            0 if !self.has_workers() => WaitKind::NoWorker(v1::Nothing {}).into(),
            0 => WaitKind::Room(v1::Nothing {}).into(),
        };
        let paused = || self.paused_element();
        here.or_else(elsewhere).or_else(timer).or_else(paused).unwrap_or_else(other)
    }

    /// A paused element, if there is one, as what others wait for.
    fn paused_element(&self) -> Option<v1::WaitReason> {
        if self.engine.state().counts().paused == 0 {
            return None;
        }
        let root = self.engine.root()?;
        let mut all = self.engine.live_elements(root, MAX_SEARCHED).into_iter();
        let paused = all.find_map(|it| self.engine.paused_path(it.id))?;
        Some(WaitKind::Paused(paused).into())
    }
}
