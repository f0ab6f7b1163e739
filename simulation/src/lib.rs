//! Groups of Xavantes nodes in one thread, without a clock and without a network: the pure cores of coordinators and
//! workers, and around them a shell that does what the real one does, in a world that a seed decides.
//!
//! | file | is about |
//! |---|---|
//! | `world` | the order of events, nodes, and what goes wrong |
//! | `network` | streams that delay, break and lose |
//! | `store` | repositories with leases |
//! | `coordinator`, `worker` | the shells around the pure cores |
//! | `user` | who submits and steers |
//! | `check` | what must hold |
//! | `mutation` | bugs that are planted to see that they are found |
//! | `documents` | the processes, and what must come out of them |

mod check;
mod coordinator;
mod documents;
mod mutation;
mod network;
mod random;
mod store;
mod user;
mod worker;
mod world;

pub use documents::Tools;
pub use mutation::Mutation;

/// Runs the world of a seed; gives how much happened in it, or what should not have happened.
pub fn run(seed: u64, mutation: Option<Mutation>, trace: bool, tools: &mut Tools) -> Result<u64, String> {
    world::World::new(seed, mutation, trace, tools).run()
}
