//! Commands at a coordinator that does not own the process.
