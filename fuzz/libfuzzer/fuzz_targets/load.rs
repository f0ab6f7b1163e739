//! Documents. See `xavantes_fuzz::load`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xavantes_fuzz::load::check(bytes));
