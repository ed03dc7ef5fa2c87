//! The libFuzzer entry point of `parsieve_fuzz::page_values`.
#![no_main]

use parsieve_fuzz::{memory, page_values, seeds};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

fn init() {
    seeds::write("page_values");
    // The core contains panics of the `parquet` crate, which libFuzzer would count as crashes. A panic that leaves the
    // target still ends the process.
    std::panic::set_hook(Box::new(|_| ()));
}

libfuzzer_sys::fuzz_target!(init: init(), |data: &[u8]| {
    if std::panic::catch_unwind(|| memory::bounded(data, page_values::run)).is_err() {
        std::process::abort();
    }
});
