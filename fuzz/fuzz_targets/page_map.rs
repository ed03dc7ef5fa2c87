//! The libFuzzer entry point of `parsieve_fuzz::page_map`.
#![no_main]

use parsieve_fuzz::{memory, page_map, seeds};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: seeds::write("page_map"), |data: &[u8]| memory::bounded(data, page_map::run));
