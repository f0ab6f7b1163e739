//! External programs on workers, seen from outside: parameters and results, limits, ends and misbehaviour.

mod cgroups;
mod containers;
mod ends;
mod faithful_values;
mod kit;
mod limits;
mod logs;
mod misbehaving;
mod scripts;
mod variables;
