//! Answers on disk, so that they survive a restart of the worker until coordinators acknowledge them.
//!
//! | module | is about |
//! |---|---|
//! | `record` | the encoding of one record |
//! | `log` | the files that hold the records |
//! | `writer` | the thread that writes |

pub(crate) mod log;
pub(crate) mod record;
pub(crate) mod writer;
