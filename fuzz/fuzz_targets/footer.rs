//! The libFuzzer entry point of `parsieve_fuzz::footer`.
#![no_main]

use parsieve_fuzz::{footer, memory, seeds};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: seeds::write("footer"), |data: &[u8]| memory::bounded(data, footer::run));
