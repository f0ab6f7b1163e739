//! Connections of other nodes and of clients: how many there may be, which of them give way when there are too many, and how
//! much memory their messages may take.
//!
//! | module | is about |
//! |---|---|
//! | `descriptors` | how many files and sockets the node may have open |
//! | `connection` | what the node knows of a connection |
//! | `table` | the open connections, and which of them gives way; without I/O |
//! | `accept` | new connections |
//! | `stream` | the bytes of a connection: it must begin with HTTP/2 soon, and may be told to give way |
//! | `calls` | the calls of a connection |
//! | `intake` | messages of a call that have begun to arrive |
//! | `errors` | texts of errors, which must fit into a header |

pub(crate) mod accept;
pub(crate) mod calls;
mod connection;
pub(crate) mod descriptors;
mod errors;
mod intake;
mod stream;
mod table;
