//! The libFuzzer entry point of `parsieve_fuzz::bindings`.
#![no_main]

use parsieve_fuzz::{bindings, memory, seeds};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: seeds::write("bindings"), |data: &[u8]| memory::bounded(data, bindings::run));
