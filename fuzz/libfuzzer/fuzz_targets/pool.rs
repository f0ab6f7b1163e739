//! The pool of a coordinator with any sequence of inputs. See `xavantes_fuzz::pool`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| xavantes_fuzz::pool::check(bytes));
