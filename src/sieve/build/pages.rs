//! Divides the sorted keys into pages, which end at the boundaries of the axis's dyadic cells.
//!
//! A page is a largest cell (keys that share their leading bits) within the limits on records, bytes and weight. More
//! keys in a cell can only exceed the limits further, so whether a cell is a page depends only on the keys of its
//! parent cell. A stream can therefore decide early. When the first key arrives that does not fit, the first page is
//! the largest cell that contains the first buffered key, but neither the new key nor any key before the buffer.

use crate::int::{to_u64, to_usize};
use crate::sieve::key::axis::{Key, MAX_KEY_BYTES};
use crate::sieve::record::options::Options;
use crate::sieve::record::records::Records;

/// Splits a sorted stream of keys into pages.
#[derive(Debug, Clone)]
pub(in crate::sieve) struct PageSplitter<K> {
    options: Options,
    records: Records<K>,
    /// The number of locations of all runs in the buffer. The first buffered key begins a run.
    weight: u64,
    heap_bytes: usize,
    /// The last key before the buffer.
    before: Option<K>,
}

impl<K: Key> PageSplitter<K> {
    /// Creates a splitter for keys after `before`, which belongs to another page.
    pub(in crate::sieve) fn new(options: Options, before: Option<K>) -> Self {
        Self { options, records: Records::default(), weight: 0, heap_bytes: 0, before }
    }

    /// Returns the buffer. The caller appends the pairs of a key before closing it.
    pub(in crate::sieve) fn records(&mut self) -> &mut Records<K> {
        &mut self.records
    }

    /// Returns the keys that do not belong to a page yet.
    pub(in crate::sieve) fn into_records(self) -> Records<K> {
        self.records
    }

    /// Closes a key, and calls `page` with every page that this completes.
    pub(in crate::sieve) fn close(&mut self, key: K, page: &mut impl FnMut(&Records<K>, usize)) {
        self.heap_bytes += key.heap_bytes();
        self.records.close(key);
        let last = self.records.keys.len() - 1;
        self.weight += self.records.weight(last..last + 1);
        while !self.fits() && self.cut_before_last(page) {}
    }

    /// Passes on the remaining keys as pages. `next` is the first key after the stream, which belongs to another page.
    pub(in crate::sieve) fn finish(&mut self, next: Option<&K>, page: &mut impl FnMut(&Records<K>, usize)) {
        while let Some(first) = self.records.keys.first() {
            let shared = next.map(|next| first.common_bits(next));
            self.cut(shared, self.records.keys.len(), page);
        }
    }

    fn fits(&self) -> bool {
        self.records.locations.len() <= self.options.max_records
            && self.weight <= u64::from(self.options.max_weight)
            && self.heap_bytes <= self.options.max_key_bytes
    }

    /// Splits off the first page before the last key. Returns false if no cell can separate the first key from the
    /// last.
    fn cut_before_last(&mut self, page: &mut impl FnMut(&Records<K>, usize)) -> bool {
        let keys = &self.records.keys;
        let shared = keys[0].common_bits(&keys[keys.len() - 1]);
        if shared == u32::MAX {
            return false;
        }
        self.cut(Some(shared), self.records.keys.len() - 1, page);
        true
    }

    /// Splits off the page of the first key from the first `len` keys. The key shares `shared` bits with a key outside.
    fn cut(&mut self, shared: Option<u32>, len: usize, page: &mut impl FnMut(&Records<K>, usize)) {
        let first = &self.records.keys[0];
        let outside = self.before.as_ref().map(|before| before.common_bits(first)).max(shared);
        let depth = outside.map_or(0, |bits| bits.saturating_add(1));
        let count = self.records.keys[..len].partition_point(|key| first.common_bits(key) >= depth);
        page(&self.records, count);
        self.before = Some(self.records.keys[count - 1].clone());
        self.heap_bytes -= self.records.keys[..count].iter().map(Key::heap_bytes).sum::<usize>();
        self.weight -= self.records.weight(0..count);
        if count < self.records.keys.len() && self.records.repeats(count) {
            // The key now begins a run.
            self.weight += to_u64(self.records.set(count).len());
        }
        self.records.forget(count);
    }

    /// Closes keys with one row in one location each. There must be [`Self::room`] for them.
    pub(in crate::sieve) fn close_rows(&mut self, rows: &[(K, u32)]) {
        self.heap_bytes += rows.iter().map(|row| row.0.heap_bytes()).sum::<usize>();
        let start = self.records.keys.len();
        self.records.extend(rows);
        self.weight += self.records.weight(start..start + rows.len());
    }

    /// Returns how many more keys with one location each cannot complete a page.
    pub(in crate::sieve) fn room(&self) -> usize {
        let weight = u64::from(self.options.max_weight).saturating_sub(self.weight);
        let records = self.options.max_records.saturating_sub(self.records.locations.len());
        let keys = self.options.max_key_bytes.saturating_sub(self.heap_bytes) / MAX_KEY_BYTES;
        to_usize(weight).unwrap_or(usize::MAX).min(records).min(keys)
    }
}
