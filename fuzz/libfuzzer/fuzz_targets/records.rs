//! Records that the repository gives back, damaged in any way. See `xavantes_fuzz::records`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xavantes_fuzz::records::check(bytes));
