//! Random processes under random inputs: failures, lost attempts, cancels, pauses, repeated answers and crashes at any
//! moment. The checks of the invariants run at every step.

mod checker;
mod definitions;
mod driver;
mod states;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use xavantes_engine::{Command, Counts, Engine, EngineState};
use xavantes_model::definition::Program;
use xavantes_model::diagnostic::Source;
use xavantes_model::load::load;

use crate::checker::Checker;
use crate::definitions::{Tree, document, trees};
use crate::driver::Driver;

/// Seeds of earlier failures, relative to the package.
const REGRESSIONS: &str = "tests/properties/regressions.txt";

fn check(trees: &[Tree], seed: u64, delegations: u64) {
    let text = document(trees);
    let program =
        load(&[Source::new("random.xml", text.as_str())]).unwrap_or_else(|problems| panic!("{problems:#?}\n{text}"));
    let mut driver = Driver::new(program, seed);
    driver.engine.set_capacity(2);
    driver.engine.set_max_delegations(delegations);
    if seed.is_multiple_of(4) {
        // Room for a few elements: most processes exceed it sooner or later.
        driver.engine.set_max_bytes(4000);
    }
    for _ in 0..120 {
        if driver.checker.finished {
            break;
        }
        driver.act_randomly();
    }
    driver.settle();
    let last = driver.engine.state();
    assert_eq!(last.live(), 0, "elements are left");
    assert_eq!(last.shared_objects(), 0, "shared objects are left");
    let counts = last.counts();
    let ended =
        Counts { completed: counts.completed, failed: counts.failed, attempts: counts.attempts, ..Counts::default() };
    assert_eq!(counts, ended, "something is counted as live");
    // Every prefix replays. A snapshot with the events after it results in the same state as the whole journal.
    let mut state = EngineState::default();
    let mut snapshots = driver.snapshots.iter().peekable();
    for (length, event) in driver.journal.iter().enumerate() {
        while let Some((_, bytes)) = snapshots.next_if(|(at, _)| *at == length) {
            let snapshot: EngineState = postcard::from_bytes(bytes).unwrap();
            assert_eq!(snapshot, state, "the snapshot after {length} events is not the replayed state");
            let whole = Engine::replay(driver.program.clone(), snapshot, &driver.journal[length..]).unwrap();
            assert_eq!(whole.state(), last);
        }
        state.apply(&driver.program, event).unwrap();
    }
    assert_eq!(state, *last);
    // An engine that replays the journal up to the middle of a step also ends the process.
    let cut = driver.random.below(driver.journal.len()).max(1);
    let mut other = Driver::new(Program::clone(&driver.program), seed);
    other.journal.clear();
    other.checker = Checker::default();
    other.outstanding.clear();
    other.journal.extend_from_slice(&driver.journal[..cut]);
    other.journal.iter().for_each(|event| other.checker.on_event(&driver.program, event));
    other.engine = Engine::replay(driver.program.clone(), EngineState::default(), &driver.journal[..cut]).unwrap();
    other.engine.set_max_delegations(delegations);
    for command in other.engine.outstanding() {
        match command {
            Command::Dispatch { element, attempt, .. } => drop(other.outstanding.insert((element, attempt), false)),
            Command::Delegate(sent) => drop(other.outstanding.insert((sent.element, sent.attempt), true)),
            _ => {}
        }
    }
    other.settle();
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: ProptestConfig::default().cases.max(2000),
        max_shrink_iters: 4000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(REGRESSIONS))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]
    #[test]
    fn random_processes_keep_their_invariants(
        trees in proptest::collection::vec(trees(), 1..4),
        seed in any::<u64>(),
        delegations in 0..3u64,
    ) {
        check(&trees, seed, delegations);
    }
}
