//! The attempt table of a worker with any sequence of orders. See `xavantes_fuzz::table`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xavantes_fuzz::table::check(bytes));
