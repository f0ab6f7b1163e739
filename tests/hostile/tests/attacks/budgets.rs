//! Processes whose state grows without bound.
