//! The output of attempts, in files of bounded size.
//!
//! | module | is about |
//! |---|---|
//! | `stream_layout` | where in a file the beginning and the end of a stream are; pure |
//! | `live_log` | the log of a running attempt |
//! | `log_entry` | what the index says about an ended attempt |
//! | `log_store` | the logs of all attempts of a worker |
//! | `reader` | reading the log of one attempt |
//! | `send_logs` | sending a log over the wire |

pub(crate) mod live_log;
pub(crate) mod log_entry;
pub(crate) mod log_store;
pub(crate) mod reader;
pub(crate) mod send_logs;
pub(crate) mod stream_layout;
