//! All Rust integration tests in one binary, because linking one binary is faster than linking one per file.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests read files; only the core must not")]

#[cfg(feature = "decode")]
mod files;
// Runs the functions of the fuzz targets on stable Rust, without a fuzzer.
#[cfg(all(feature = "crypto", feature = "rows"))]
#[allow(
    dead_code,
    unreachable_pub,
    unnameable_types,
    reason = "also a separate crate, whose functions only fuzzers call"
)]
#[path = "../../fuzz/src/lib.rs"]
mod fuzz;
#[cfg(all(feature = "crypto", feature = "rows"))]
mod hostile;
mod layers;
mod page_map;
mod parquet_crate;
mod properties;
mod vectors;

/// Counts the memory that damaged input makes the library allocate.
#[cfg(all(feature = "crypto", feature = "rows"))]
#[global_allocator]
static ALLOCATOR: fuzz::memory::Counting = fuzz::memory::Counting;
