//! Grids of separate processes, seen from outside: through the commands, the protocol and the network.

mod definitions;
mod delegation;
mod examples;
mod far_files;
mod files;
mod free_slots;
mod groups;
mod history;
mod kit;
mod large;
mod lines;
mod managers;
mod many;
mod protocol;
mod recovery;
mod rerunning;
mod retrying;
mod reuse;
mod shared;
mod states;
mod steering;
mod streams;
mod traffic;
mod workers;
