//! Records that the repository gives back, damaged in any way: reading them gives an error, or a process that can go on.

use std::sync::Arc;

use xavantes_engine::Time;
use xavantes_files::Manifest;
use xavantes_model::script::{Sandbox, ScriptLimits};
use xavantes_process_coordinator::cache::cache_entry::{CacheEntry, ReuseDecision, StoredResults};
use xavantes_process_coordinator::process::driver::Driver;
use xavantes_process_coordinator::process::driver_input::ProcessInput;
use xavantes_process_coordinator::process::ended_summary::Summary;
use xavantes_process_coordinator::process::journal::{Head, restore};
use xavantes_process_coordinator::record_codec::decode;

use crate::byte_choices::ByteChoices;
use crate::process::{FuzzedProcess, program};

/// Checks a damaged record.
pub fn check(bytes: &[u8]) {
    let input = &mut ByteChoices(bytes);
    match input.below(4) {
        0 => on_any_bytes(input.0),
        _ => on_damaged_journal(input),
    }
}

fn on_any_bytes(bytes: &[u8]) {
    if let Ok(manifest) = Manifest::decode(bytes) {
        assert_eq!(Manifest::decode(&manifest.encode()).expect("its own encoding"), manifest);
    }
    let _ = decode::<Head>("head", bytes);
    let _ = decode::<CacheEntry>("cache entry", bytes);
    let _ = decode::<StoredResults>("results", bytes);
    let _ = decode::<ReuseDecision>("decision", bytes);
    if let Ok(summary) = decode::<Summary>("summary", bytes) {
        let _ = (summary.status(), summary.results(), summary.history());
    }
}

/// The journal of a process with some bytes changed, removed or swapped.
fn on_damaged_journal(input: &mut ByteChoices<'_>) {
    let mut run = FuzzedProcess::start(input.byte().into());
    for _ in 0..input.below(12) {
        run.step(input);
    }
    let mut parts: Vec<Vec<u8>> = run.snapshot.iter().chain(&run.records).map(|part| part.to_vec()).collect();
    parts.push(run.head.first.clone());
    for _ in 0..=input.below(4) {
        let part = usize::from(input.byte()) % parts.len();
        let count = parts.len();
        let at = usize::from(input.byte()) * 7 + usize::from(input.byte());
        let bytes = &mut parts[part];
        match input.below(5) {
            0 => bytes.truncate(at),
            1 => parts.swap(part, at % count),
            2 => bytes.extend_from_slice(input.bytes()),
            _ => {
                let length = bytes.len().max(1);
                bytes.get_mut(at % length).into_iter().for_each(|byte| *byte ^= input.byte().max(1));
            }
        }
    }
    run.head.first = parts.pop().unwrap_or_default();
    let mut parts = parts.into_iter().map(bytes::Bytes::from);
    let snapshot = run.snapshot.and_then(|_| parts.next());
    let records: Vec<bytes::Bytes> = parts.collect();
    if let Ok(restored) = restore(program(), &run.head, snapshot.as_deref(), &records) {
        let root = run.head.root();
        let (mut driver, _) = Driver::<u8, u8>::recover("f".into(), program().clone(), Arc::default(), root, restored);
        let mut sandbox = Sandbox::new(ScriptLimits::CONTROL, false).expect("a sandbox");
        for input in [ProcessInput::Continued, ProcessInput::TimePassed, ProcessInput::ParentCancelled] {
            driver.handle(&mut sandbox, input, Time(1_000_000));
            while driver.next_batch().is_some() {}
        }
    }
}
