//! Hosted subtrees with any sequence of orders of parents. See `xavantes_fuzz::parents`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xavantes_fuzz::parents::check(bytes));
