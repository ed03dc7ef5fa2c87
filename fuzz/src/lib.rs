//! What each fuzz target does with its bytes. Stable Rust without a fuzzer: `tests/rust/hostile.rs` replays damaged seeds
//! through the same functions, so `cargo test` knows at once when one of them breaks.

pub mod bloom_header;
pub mod decrypt;
pub mod footer;
pub mod memory;
pub mod rewrite;
pub mod seeds;
pub mod sieve;
pub mod sieve_delta;
pub mod sieve_index;
pub mod sieve_keys;
pub mod sieve_root;
pub mod sieve_segment;

use parsieve::ranges::{Fetched, Step};
use parsieve::{Result, parquet::Footer};

/// A target's name and what it does.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 9] = [
    ("footer", footer::run),
    ("bloom_header", bloom_header::run),
    ("rewrite", rewrite::run),
    ("decrypt", decrypt::run),
    ("sieve_segment", sieve_segment::run),
    ("sieve_root", sieve_root::run),
    ("sieve_delta", sieve_delta::run),
    ("sieve_keys", sieve_keys::run),
    ("sieve_index", sieve_index::run),
];

/// Runs a step to its end over a whole file, and holds it to its promise: what it asks for lies inside, and it ends.
pub fn drive<T>(file: &[u8], mut step: impl FnMut(&Fetched) -> Result<Step<T>>) -> Result<T> {
    let mut fetched = Fetched::new();
    for _ in 0..1000 {
        match step(&fetched)? {
            Step::Ready(value) => return Ok(value),
            Step::Need(ranges) => {
                assert!(!ranges.is_empty(), "a step asked for nothing");
                for range in ranges {
                    assert!(range.start < range.end && range.end <= file.len() as u64, "{range:?}");
                    fetched.insert(range.start, file[range.start as usize..range.end as usize].to_vec());
                }
            }
        }
    }
    panic!("the step never ends");
}

/// The footer of a whole file.
pub fn read_footer(file: &[u8]) -> Result<Footer> {
    drive(file, |fetched| Footer::read(file.len() as u64, 4096, fetched))
}
