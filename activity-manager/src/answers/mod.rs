//! Answers on disk, so that they survive a restart of the worker until coordinators acknowledge them.
//!
//! | module | is about |
//! |---|---|
//! | `answer_record` | the encoding of one record |
//! | `answer_log` | the files that hold the records |
//! | `answer_writer` | the thread that writes |

pub(crate) mod answer_log;
pub(crate) mod answer_record;
pub(crate) mod answer_writer;
