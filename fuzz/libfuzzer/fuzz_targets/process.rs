//! A process with any answers, calls and steering. See `xavantes_fuzz::process`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xavantes_fuzz::process::check(bytes));
