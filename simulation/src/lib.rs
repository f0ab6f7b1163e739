//! Groups of Xavantes nodes in one thread, without a clock and without a network. A seed decides everything that happens.
//!
//! The pure cores of coordinators and workers decide, as in the product. The simulation plays only the world around them:
//! network, disks, clocks, crashes and users.
//!
//! | file | is about |
//! |---|---|
//! | `world` | nodes, stores, streams and users of a seed |
//! | `world_event`, `run` | events, and the loop that takes them |
//! | `faults` | crashes, frozen nodes, partitions |
//! | `simulated_machine`, `store` | machines with clocks; repositories with leases |
//! | `stream`, `simulated_network` | streams that delay, break and lose messages |
//! | `call_request`, `call_delivery` | requests of users and coordinators that get lost |
//! | `coordinator`, `worker` | the nodes |
//! | `user` | users that submit and steer |
//! | `check` | the invariants |
//! | `free_slots`, `wasted_slots` | the invariant that work goes where there is room |
//! | `state_budgets` | how much the state of processes may take |
//! | `mutation` | bugs that the tests plant, to see that the invariants find them |
//! | `world_documents` | the processes, and their right results |

mod call_delivery;
mod call_request;
mod check;
mod coordinator;
mod faults;
mod free_slots;
mod mutation;
mod random;
mod run;
mod simulated_machine;
mod simulated_network;
mod state_budgets;
mod store;
mod stream;
mod user;
mod wasted_slots;
mod worker;
mod world;
mod world_documents;
mod world_event;

pub use mutation::Mutation;
pub use world_documents::Tools;

/// Runs the world of a seed. Gives the number of its events, or the violated invariant.
pub fn run(seed: u64, mutation: Option<Mutation>, trace: bool, tools: &mut Tools) -> Result<u64, String> {
    world::World::new(seed, mutation, trace, tools).run()
}
