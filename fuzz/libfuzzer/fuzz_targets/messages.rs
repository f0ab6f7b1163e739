//! Every message that a node accepts. See `xavantes_fuzz::messages`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xavantes_fuzz::messages::check(bytes));
