//! The libFuzzer entry point of `parsieve_fuzz::probe`.
#![no_main]

use parsieve_fuzz::{memory, probe, seeds};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: seeds::write("probe"), |data: &[u8]| memory::bounded(data, probe::run));
