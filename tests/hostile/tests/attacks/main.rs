//! Attacks on real nodes. Each test names an attack and asserts that the node answers, forgets nothing and stays usable.

mod answers;
mod budgets;
mod damage;
mod flood_connections;
mod flood_definitions;
mod flood_failures;
mod flood_messages;
mod flood_names;
mod flood_summaries;
mod flood_uploads;
mod forwarding;
mod moving_workers;
mod shared_objects;
mod silent_workers;
mod starting;
mod steering;
mod terminal;
mod unacknowledged;
