//! The libFuzzer entry point of `parsieve_fuzz::sieve_keys`.
#![no_main]

use parsieve_fuzz::{memory, seeds, sieve_keys};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: seeds::write("sieve_keys"), |data: &[u8]| memory::bounded(data, sieve_keys::run));
