//! Damaged and missing records of the embedded store.
