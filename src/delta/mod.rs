//! Delta's log as Arrow columns: the files that commits add, and the statistics of files.
//!
//! Both are JSON. What is not read here exactly as by a complete JSON parser is left to the caller.

mod adds;
mod statistics;

pub use adds::{Adds, Other};
pub use statistics::{Bound, Statistics};
