//! Generators of problems with seeds: those of the papers, and one for tests and benchmarks.
//!
//! | module | generates |
//! |---|---|
//! | [`examples`] | small problems with known results |
//! | [`connected`] | the random workflows of Aguilar 2016, chapter 5 |
//! | [`dense`] | the random workflows of Monge and others, section 5 |
//! | [`gpu`] | GPUs for workflows and platforms without, as in Stockinger 2020, section 5.3 |
//! | [`layered`] | layered workflows of any size, and platforms of any kind |

pub mod connected;
pub mod dense;
pub mod examples;
pub mod gpu;
pub mod layered;
