//! Runs the target that `XAVANTES_TARGET` names under libFuzzer. One binary for all targets is linked once.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;
use xavantes_fuzz::{MAX_MEMORY_BYTES, TARGETS, Target};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("XAVANTES_TARGET").unwrap_or_default();
    let found = TARGETS.into_iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("XAVANTES_TARGET is one of {:?}", TARGETS.map(|target| target.name)))
});

fuzz_target!(|bytes: &[u8]| {
    let target = &*TARGET;
    MEMORY.reset_peak_usage();
    let before = MEMORY.current_usage();
    (target.check)(bytes);
    let used = MEMORY.peak_usage().saturating_sub(before);
    assert!(used <= MAX_MEMORY_BYTES, "{} bytes of input took {used} bytes of memory", bytes.len());
});
