//! The libFuzzer entry point of `parsieve_fuzz::sieve_segment`.
#![no_main]

use parsieve_fuzz::{memory, seeds, sieve_segment};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: seeds::write("sieve_segment"), |data: &[u8]| memory::bounded(data, sieve_segment::run));
