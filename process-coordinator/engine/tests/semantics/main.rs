//! What the language promises, rule by rule. Each module is about one subject; `kit` is what they share.

mod cancel;
mod choice;
mod delegation;
mod failure;
mod handlers;
mod history;
mod journal;
mod kit;
mod loops;
mod order;
mod parallel;
mod parameters;
mod pause;
mod products;
mod retry;
mod scopes;
mod set;
mod shared;
