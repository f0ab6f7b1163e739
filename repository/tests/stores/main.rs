//! The stores, through what they offer to everybody.

mod embedded;
mod memory;
mod shared;
mod suite;
