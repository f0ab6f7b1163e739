//! Commands to a coordinator that is busy with large steps.
