//! Connections of other nodes and of clients: how many there may be, which of them give way when there are too many, and how
//! much memory their messages may take.
//!
//! | module | is about |
//! |---|---|
//! | `open_file_limit` | how many files and sockets the node may have open |
//! | `peer_connection` | what the node knows of a connection |
//! | `connection_table` | the open connections, and which of them gives way; without I/O |
//! | `accept_connections` | new connections |
//! | `connection_bytes` | the bytes of a connection: it must begin with HTTP/2 soon, and may be told to give way |
//! | `open_calls` | the calls of a connection |
//! | `arriving_messages` | messages of a call that have begun to arrive |
//! | `errors` | texts of errors, which must fit into a header |

pub(crate) mod accept_connections;
mod arriving_messages;
mod connection_bytes;
mod connection_table;
mod errors;
pub(crate) mod open_calls;
pub(crate) mod open_file_limit;
mod peer_connection;
