//! The output of attempts, in files of bounded size.
//!
//! | module | is about |
//! |---|---|
//! | `layout` | where in a file the beginning and the end of a stream are; pure |
//! | `live` | the log of a running attempt |
//! | `entry` | what the index says about an ended attempt |
//! | `store` | the logs of all attempts of a worker |
//! | `reader` | reading the log of one attempt |
//! | `send` | sending a log over the wire |

pub(crate) mod entry;
pub(crate) mod layout;
pub(crate) mod live;
pub(crate) mod reader;
pub(crate) mod send;
pub(crate) mod store;
