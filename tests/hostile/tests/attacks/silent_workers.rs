//! Workers that accept jobs and do not run them, and workers that cannot write.
