//! Documents with errors, and the findings about them. A `¦` marks the place of the expected finding.

mod elements;
mod estimates;
mod foreseen;
mod names;
mod report;
mod support;
mod types;
