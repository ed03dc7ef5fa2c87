//! The libFuzzer entry point of `parsieve_fuzz::rewrite`.
#![no_main]

use parsieve_fuzz::{memory, rewrite, seeds};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: seeds::write("rewrite"), |data: &[u8]| memory::bounded(data, rewrite::run));
