//! Files and directories of processes: stored by content, transferred between nodes, staged into working directories and
//! out of them.
//!
//! | module | contents |
//! |---|---|
//! | `allowed_path` | the paths and symbolic links that are allowed; pure |
//! | `hash` | digests of byte streams |
//! | `manifest` | a directory as the list of its entries; pure |
//! | `staged_paths` | the paths at which the files of a value are staged; pure |
//! | `store` | the content-addressed object store on disk |
//! | `confined_directory` | a directory that is read without leaving it |
//! | `directory_stage_in`, `directory_stage_out` | from the store into a working directory, and back |
//! | `fetch` | downloads objects from other nodes |
//! | `peers` | connections to other nodes |
//! | `chunk_writer` | writes the chunks of a transfer to the store |
//! | `send_files` | uploads files of a user to a node |
//! | `service` | the gRPC service: sends objects to other nodes, accepts uploads |
//! | `error_status` | errors as gRPC statuses, and fetch failures in their details |
//! | `sources` | data outside the grid, registered by administrators |
//! | `directory_source` | a data source that is a directory of this machine |
//! | `counters` | counters of transfers |
//! | `error` | the error of this crate |

mod allowed_path;
mod chunk_writer;
mod confined_directory;
mod counters;
mod directory_source;
mod directory_stage_in;
mod directory_stage_out;
mod error;
mod error_status;
mod fetch;
mod hash;
mod manifest;
mod peers;
mod send_files;
mod service;
mod sources;
mod staged_paths;
mod store;

pub use allowed_path::check_path;
pub use confined_directory::WorkingDirectory;
pub use counters::TransferCounts;
pub use directory_stage_in::{StageIn, StagedFiles};
pub use directory_stage_out::StagedOut;
pub use error::Error;
pub use fetch::{Fetcher, ObjectRequest};
pub use hash::{CHUNK_BYTES, digest_of};
pub use manifest::{EntryKind, Manifest, ManifestEntry};
pub use send_files::{LocalContent, Sender};
pub use service::Service;
pub use sources::Sources;
pub use staged_paths::{StageItem, StageTarget, file_name, plan_stage_in};
pub use store::file_index::StoreUsage;
pub use store::receive::{Receiving, Reception};
pub use store::store_state::FileStore;
pub use store::stored_objects::Hold;
