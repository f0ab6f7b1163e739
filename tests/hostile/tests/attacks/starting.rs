//! Nodes that start while their disk is full, their database is down, or the clock has jumped.
