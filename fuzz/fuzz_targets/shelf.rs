//! The libFuzzer entry point of `parsieve_fuzz::shelf`.
#![no_main]

use parsieve_fuzz::{memory, seeds, shelf};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: seeds::write("shelf"), |data: &[u8]| memory::bounded(data, shelf::run));
