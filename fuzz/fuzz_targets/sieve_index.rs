//! The libFuzzer entry point of `parsieve_fuzz::sieve_index`.
#![no_main]

use parsieve_fuzz::{memory, seeds, sieve_index};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: seeds::write("sieve_index"), |data: &[u8]| memory::bounded(data, sieve_index::run));
