//! Counts the bytes that a thread allocates, to detect allocations of a size claimed by untrusted input.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Maximum number of bytes in memory for an input, in addition to a multiple of its size.
pub const BOUND: usize = 8 << 20;

/// The system allocator, with counters.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn count(more: usize, less: usize) {
    // Memory of another thread may be freed here. A thread that is ending no longer counts.
    let _ = LIVE.try_with(|live| {
        live.set(live.get().saturating_add(more).saturating_sub(less));
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: forwarded with the caller's guarantees.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: forwarded with the caller's guarantees.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: forwarded with the caller's guarantees.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both blocks exist while the content is copied.
        count(size, 0);
        count(0, layout.size());
        // SAFETY: forwarded with the caller's guarantees.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Returns the maximum number of bytes that `work` holds at any time. Requires `Counting` as the global allocator.
pub fn peak_of(work: impl FnOnce()) -> usize {
    let before = LIVE.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    work();
    PEAK.with(Cell::get).saturating_sub(before)
}

/// Runs a target, and panics if it allocates too much memory.
pub fn bounded(data: &[u8], run: fn(&[u8])) {
    let peak = peak_of(|| run(data));
    assert!(peak <= BOUND + data.len() * 64, "{peak} bytes in memory for an input of {}", data.len());
}
