//! Texts that contain terminal control sequences.
