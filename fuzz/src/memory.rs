//! Counts what a thread allocates, so that a claim in foreign bytes which is believed is noticed at once.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Bytes that one input may have in memory beyond its own size, times a few for what is made of it.
pub const BOUND: usize = 8 << 20;

/// The system's allocator, counting.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn count(more: usize, less: usize) {
    // Bytes of another thread may be freed here; and a thread that ends counts no more.
    let _ = LIVE.try_with(|live| {
        live.set(live.get().saturating_add(more).saturating_sub(less));
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both exist while the content moves.
        count(size, 0);
        count(0, layout.size());
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// The most bytes that `work` had in memory at once, if the program counts them.
pub fn peak_of(work: impl FnOnce()) -> usize {
    let before = LIVE.with(Cell::get);
    PEAK.with(|peak| peak.set(before));
    work();
    PEAK.with(Cell::get).saturating_sub(before)
}

/// Runs a target on some bytes and holds it to the bound.
pub fn bounded(data: &[u8], run: fn(&[u8])) {
    let peak = peak_of(|| run(data));
    assert!(peak <= BOUND + data.len() * 64, "{peak} bytes in memory for an input of {}", data.len());
}
