//! Attacks on real nodes. Each test names an attack and asserts that the node answers, forgets nothing and stays usable.

mod answers;
mod budgets;
mod damage;
mod flood;
mod forwarding;
mod shared_objects;
mod silent_workers;
mod starting;
mod steering;
mod terminal;
