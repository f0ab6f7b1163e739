//! What the pool exchanges with the rest of the coordinator.

pub use super::pool::{MoveOutcome, Order, Peer as PeerKind, Share, Told as PoolNotice, Vicinity, Whereabouts};
