//! Names of processes, kinds and keys that every store can hold, and random names.

use crate::error::Error;

/// Upper bound on the length of an id, kind or key in bytes.
pub const MAX_NAME: usize = 1024;

/// Refuses names that a store cannot hold.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if name.len() > MAX_NAME || name.contains('\0') { Err(Error::Name(name.into())) } else { Ok(()) }
}

/// Makes a name of 128 random bits, in hexadecimal digits.
pub(crate) fn random_name() -> String {
    let mut bits = [0; 16];
    // The system provides random bytes on every platform that supports the hash maps of the standard library.
    getrandom::fill(&mut bits).expect("the system has random numbers");
    bits.iter().map(|byte| format!("{byte:02x}")).collect()
}
