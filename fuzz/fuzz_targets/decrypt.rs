//! The libFuzzer entry point of `parsieve_fuzz::decrypt`.
#![no_main]

use parsieve_fuzz::{decrypt, memory, seeds};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: seeds::write("decrypt"), |data: &[u8]| memory::bounded(data, decrypt::run));
