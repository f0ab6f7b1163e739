//! Correct documents, and the definitions that the loader makes of them.

mod activities;
mod controllers;
mod estimates;
mod program;
mod scale;
mod support;
