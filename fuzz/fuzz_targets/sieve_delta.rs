//! The libFuzzer entry point of `parsieve_fuzz::sieve_delta`.
#![no_main]

use parsieve_fuzz::{memory, seeds, sieve_delta};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: seeds::write("sieve_delta"), |data: &[u8]| memory::bounded(data, sieve_delta::run));
