//! The functions of the fuzz targets. They need neither a fuzzer nor nightly Rust: `tests/rust/hostile.rs` runs them on
//! damaged seeds, so `cargo test` detects when one of them breaks.

pub mod avro;
pub mod bindings;
pub mod bloom_header;
pub mod decrypt;
pub mod delta_log;
pub mod footer;
pub mod memory;
pub mod page_map;
pub mod page_values;
pub mod probe;
pub mod rewrite;
pub mod rows;
pub mod samples;
pub mod seeds;
pub mod shelf;
pub mod sieve;
pub mod sieve_compact;
pub mod sieve_delta;
pub mod sieve_index;
pub mod sieve_keys;
pub mod sieve_root;
pub mod sieve_segment;
pub mod sieve_unit_root;

use parsieve::ranges::{Fetched, Step};
use parsieve::{Result, parquet::Footer};

/// The name of a target and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All targets.
pub const TARGETS: [Target; 20] = [
    ("footer", footer::run),
    ("bloom_header", bloom_header::run),
    ("rewrite", rewrite::run),
    ("decrypt", decrypt::run),
    ("avro", avro::run),
    ("delta_log", delta_log::run),
    ("bindings", bindings::run),
    ("page_map", page_map::run),
    ("page_values", page_values::run),
    ("probe", probe::run),
    ("rows", rows::run),
    ("shelf", shelf::run),
    ("sieve_segment", sieve_segment::run),
    ("sieve_root", sieve_root::run),
    ("sieve_delta", sieve_delta::run),
    ("sieve_keys", sieve_keys::run),
    ("sieve_index", sieve_index::run),
    ("sieve_unit_root", sieve_unit_root::run),
    ("sieve_unit_delta", sieve_unit_root::run_delta),
    ("sieve_compact", sieve_compact::run),
];

/// Runs a step on a complete file until it is ready. Panics if the step requests bytes outside of the file, or does not
/// end.
pub fn drive<T>(file: &[u8], step: impl FnMut(&Fetched) -> Result<Step<T>>) -> Result<T> {
    drive_from(Fetched::new(), file, step)
}

/// Runs a step as [`drive`] does, with some bytes that were fetched before.
pub fn drive_from<T>(
    mut fetched: Fetched,
    file: &[u8],
    mut step: impl FnMut(&Fetched) -> Result<Step<T>>,
) -> Result<T> {
    for _ in 0..1000 {
        match step(&fetched)? {
            Step::Ready(value) => return Ok(value),
            Step::Need(ranges) => {
                assert!(!ranges.is_empty(), "a step requested no ranges");
                for range in ranges {
                    assert!(range.start < range.end && range.end <= file.len() as u64, "{range:?}");
                    fetched.insert(range.start, file[range.start as usize..range.end as usize].to_vec());
                }
            }
        }
    }
    panic!("the step never ends");
}

/// Reads the footer of a complete file.
pub fn read_footer(file: &[u8]) -> Result<Footer> {
    drive(file, |fetched| Footer::read(file.len() as u64, 4096, fetched))
}
