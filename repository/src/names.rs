//! The bound on names of processes, kinds and keys, and random names.

/// Upper bound on the length of an id, kind or key in bytes.
pub const MAX_NAME: usize = 1024;

/// Makes a name of 128 random bits, in hexadecimal digits.
pub(crate) fn random_name() -> String {
    let mut bits = [0; 16];
    // The system provides random bytes on every platform that supports the hash maps of the standard library.
    getrandom::fill(&mut bits).expect("the system has random numbers");
    bits.iter().map(|byte| format!("{byte:02x}")).collect()
}
