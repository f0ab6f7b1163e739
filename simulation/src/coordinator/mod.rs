//! Coordinators: the pure cores of the product, and the world around them.
//!
//! | file | is about |
//! |---|---|
//! | `state` | memory and writes of a coordinator |
//! | `lifecycle` | starts, crashes, leases, take-overs |
//! | `requests` | requests of users and of other coordinators |
//! | `process`, `simulated_journal` | processes that run here, and their journals |
//! | `retried_processes` | ended processes that go on |
//! | `pool`, `links` | the pool, its peers and their reports |
//! | `borrowing` | workers of other groups |
//! | `memory_turns` | budgets of processes and of coordinators |
//! | `damage` | processes of which the store has lost records |
//! | `parents`, `moves` | subtrees that run here for other coordinators |

mod borrowing;
mod damage;
mod lifecycle;
mod links;
mod memory_turns;
mod moves;
mod parents;
mod pool;
mod process;
mod requests;
mod retried_processes;
mod simulated_journal;
pub mod state;
