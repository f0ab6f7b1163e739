//! Documents that attack the loader. Each is accepted or refused with the expected finding, on a small stack, in
//! bounded time and memory.

mod code;
mod markup;
mod size;
mod support;
