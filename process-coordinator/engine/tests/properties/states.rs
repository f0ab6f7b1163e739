//! Invariants of the states that monitoring shows: every live element is in one state, and the sums hold.

use std::collections::BTreeSet;

use xavantes_engine::{Counts, ElementState, Engine, LivePhase, WaitsFor};

/// Checks the states of all live elements.
pub fn check_states(engine: &Engine) {
    let state = engine.state();
    let counts = state.counts();
    assert_eq!(counts, state.recount(), "the counts are not those of the live elements");
    let Some(root) = engine.root() else { return };
    let all = engine.live_elements(root, usize::MAX);
    assert_eq!(all.len(), state.live(), "an element is not listed, or twice");
    assert_eq!(all.iter().map(|it| it.id).collect::<BTreeSet<_>>().len(), all.len(), "an element is listed twice");
    let mut sums = Counts { completed: counts.completed, failed: counts.failed, attempts: counts.attempts, ..counts };
    (sums.ready, sums.outstanding, sums.delegated, sums.delayed, sums.held) = (0, 0, 0, 0, 0);
    let mut children = vec![0; all.len()];
    for (position, element) in all.iter().enumerate() {
        let view = engine.view(element.id).expect("a listed element is live");
        if let Some(parent) = element.parent {
            assert!(parent < position, "an element is listed before the one around it");
            children[parent] += 1;
        }
        match element.phase {
            LivePhase::Ready => sums.ready += 1,
            LivePhase::Outstanding if element.delegated => sums.delegated += 1,
            LivePhase::Outstanding => sums.outstanding += 1,
            LivePhase::Delayed => sums.delayed += 1,
            LivePhase::Held => sums.held += 1,
            LivePhase::Inner => {}
        }
        let fits = match &view.state {
            ElementState::Waiting(WaitsFor::Room) => element.phase == LivePhase::Ready && !view.paused,
            ElementState::Waiting(WaitsFor::Retry(..)) => element.phase == LivePhase::Delayed && !view.paused,
            ElementState::Waiting(WaitsFor::Paused(_)) => {
                view.paused && element.phase != LivePhase::Outstanding && element.phase != LivePhase::Held
            }
            ElementState::Waiting(WaitsFor::Siblings(_)) => false,
            ElementState::Outstanding => view.outstanding,
            ElementState::Held(_) => element.phase == LivePhase::Held,
            ElementState::Paused => element.phase != LivePhase::Held,
            ElementState::Stopping => matches!(element.phase, LivePhase::Outstanding | LivePhase::Inner),
            ElementState::Running => element.phase == LivePhase::Inner,
        };
        assert!(fits, "{} is {:?} in {:?}", view.path, view.state, element.phase);
        let pending = engine.pending(element.id).count() as u64;
        if let (true, Some(ended), Some(total)) = (pending > 0, view.ended, view.total) {
            let begun = ended.completed + ended.failed + ended.cancelled + view.children.len() as u64;
            assert!(begun + pending <= total, "{}: an element that has begun is said to wait", view.path);
        }
        for (_, pending) in engine.pending(element.id) {
            assert_eq!(engine.find(&pending.path), Ok(None), "{} has begun", pending.path);
            assert_eq!(engine.find_pending(&pending.path).as_ref(), Some(&pending));
            if let WaitsFor::Siblings(names) = &pending.waits_for {
                assert!(!names.is_empty(), "{} waits for nothing", pending.path);
            }
        }
    }
    assert_eq!(sums, counts, "the sums of the states are not the counts");
    for (element, children) in all.iter().zip(children) {
        assert_eq!(engine.view(element.id).map(|view| view.children.len()), Some(children));
    }
}
