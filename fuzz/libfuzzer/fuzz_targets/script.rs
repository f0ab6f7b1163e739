//! Lua code. See `xavantes_fuzz::script`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xavantes_fuzz::script::check(bytes));
