//! The libFuzzer entry point of `parsieve_fuzz::avro`.
#![no_main]

use parsieve_fuzz::{avro, memory, seeds};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

libfuzzer_sys::fuzz_target!(init: seeds::write("avro"), |data: &[u8]| memory::bounded(data, avro::run));
