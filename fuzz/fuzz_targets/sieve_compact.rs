//! The libFuzzer entry point of `parsieve_fuzz::sieve_compact`.
#![no_main]

use parsieve_fuzz::{memory, seeds, sieve_compact};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: seeds::write("sieve_compact"), |data: &[u8]| memory::bounded(data, sieve_compact::run));
