//! The libFuzzer entry point of `parsieve_fuzz::sieve_root`.
#![no_main]

use parsieve_fuzz::{memory, seeds, sieve_root};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: seeds::write("sieve_root"), |data: &[u8]| memory::bounded(data, sieve_root::run));
