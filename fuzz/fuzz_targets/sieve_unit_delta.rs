//! The libFuzzer entry point of `parsieve_fuzz::sieve_unit_root::run_delta`.
#![no_main]

use parsieve_fuzz::{memory, seeds, sieve_unit_root};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: seeds::write("sieve_unit_delta"), |data: &[u8]| memory::bounded(data, sieve_unit_root::run_delta));
