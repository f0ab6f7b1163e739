//! The semantics of the process language, rule by rule. Each module covers one subject; `harness` is what they share.

mod budget;
mod cancel;
mod choice;
mod delegation;
mod failure;
mod handlers;
mod harness;
mod history;
mod journal;
mod loops;
mod order;
mod parallel;
mod parameters;
mod pause;
mod products;
mod reopening;
mod retry;
mod scopes;
mod set;
mod shared;
