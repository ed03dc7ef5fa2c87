//! The libFuzzer entry point of `parsieve_fuzz::delta_log`.
#![no_main]

use parsieve_fuzz::{delta_log, memory, seeds};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: seeds::write("delta_log"), |data: &[u8]| memory::bounded(data, delta_log::run));
