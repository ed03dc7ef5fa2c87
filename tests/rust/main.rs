//! All Rust integration tests in one binary: one link instead of one for each file. Each file is one subject.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests read files; only the core must not")]

#[cfg(feature = "decode")]
mod files;
// What fuzzing does with its bytes, here on stable Rust and without a fuzzer.
#[cfg(all(feature = "crypto", feature = "decode"))]
#[allow(dead_code, unreachable_pub, unnameable_types, reason = "a crate of its own, with doors that only fuzzers open")]
#[path = "../../fuzz/src/lib.rs"]
mod fuzz;
#[cfg(all(feature = "crypto", feature = "decode"))]
mod hostile;
mod layers;
mod parquet_crate;
mod properties;
mod vectors;

/// Counts what damaged bytes make us allocate.
#[cfg(all(feature = "crypto", feature = "decode"))]
#[global_allocator]
static ALLOCATOR: fuzz::memory::Counting = fuzz::memory::Counting;
