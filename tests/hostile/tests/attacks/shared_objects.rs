//! Calls of shared objects from attempts that are repeated.
