//! Programs on workers, seen from outside: what they get, what they leave, what they may use, and how they misbehave.

mod cgroups;
mod containers;
mod ends;
mod kit;
mod limits;
mod logs;
mod misbehaving;
mod scripts;
