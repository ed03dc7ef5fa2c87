//! The libFuzzer entry point of `parsieve_fuzz::bloom_header`.
#![no_main]

use parsieve_fuzz::{bloom_header, memory, seeds};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: seeds::write("bloom_header"), |data: &[u8]| memory::bounded(data, bloom_header::run));
