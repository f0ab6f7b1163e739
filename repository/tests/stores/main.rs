//! The stores, through their public interface. `suite` runs over every store.

mod damage;
mod memory;
mod postgres;
mod sled_store;
mod suite;
