//! Peers and clients that send too much, or open connections and stay silent.
