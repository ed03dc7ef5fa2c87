//! Where segments end: at the borders of the axis's dyadic cells, as a function of the sorted keys alone.
//!
//! A page is a largest cell (keys that share some leading bits) within the limits on records, bytes and weight. The limits
//! only grow with the keys of a cell, so whether a cell is a page depends on nothing outside of its parent, and a stream
//! can tell: when the first key that does not fit arrives, the first page is the largest cell that holds the first key in
//! memory, but neither this one nor any key before.

use crate::int::{to_u64, to_usize};
use crate::sieve::key::axis::Key;
use crate::sieve::record::options::Options;
use crate::sieve::record::records::Records;

/// Cuts a sorted stream of keys into pages.
#[derive(Debug, Clone)]
pub(in crate::sieve) struct Cutter<K> {
    options: Options,
    records: Records<K>,
    /// Locations of all runs in the buffer, whose first key is the first of a run.
    weight: u64,
    heap_bytes: usize,
    /// The last key before the buffer.
    before: Option<K>,
}

impl<K: Key> Cutter<K> {
    /// A cutter whose stream begins after `before`, which belongs to another page.
    pub(in crate::sieve) fn new(options: Options, before: Option<K>) -> Self {
        Self { options, records: Records::default(), weight: 0, heap_bytes: 0, before }
    }

    /// The buffer, whose pairs the caller appends before it closes their key.
    pub(in crate::sieve) fn records(&mut self) -> &mut Records<K> {
        &mut self.records
    }

    /// The keys that belong to no page yet.
    pub(in crate::sieve) fn into_records(self) -> Records<K> {
        self.records
    }

    /// Closes a key and gives every page that it completes to `page`, which must not change the order of keys.
    pub(in crate::sieve) fn close(&mut self, key: K, page: &mut impl FnMut(&Records<K>, usize)) {
        self.heap_bytes += key.heap_bytes();
        self.records.close(key);
        let last = self.records.keys.len() - 1;
        self.weight += self.records.weight(last..last + 1);
        while !self.fits() && self.cut_before_last(page) {}
    }

    /// Gives the rest as pages; `next` is the first key after the stream, which belongs to another page.
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

    /// Cuts off the first page before the last key; false where no cell can separate the two.
    fn cut_before_last(&mut self, page: &mut impl FnMut(&Records<K>, usize)) -> bool {
        let keys = &self.records.keys;
        let shared = keys[0].common_bits(&keys[keys.len() - 1]);
        if shared == u32::MAX {
            return false;
        }
        self.cut(Some(shared), self.records.keys.len() - 1, page);
        true
    }

    /// Cuts off the page of the first key among the first `len`; it shares `shared` bits with a key outside.
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
            // It becomes the first of a run.
            self.weight += to_u64(self.records.set(count).len());
        }
        self.records.forget(count);
    }
}

/// Keys that occupy no more than their fixed size.
impl<K: Key + Copy> Cutter<K> {
    /// Closes keys of one row in one location each, after all others, if there is [`Self::room`] for them.
    pub(in crate::sieve) fn close_rows(&mut self, rows: &[(K, u32)]) {
        let start = self.records.keys.len();
        self.records.extend(rows);
        self.weight += self.records.weight(start..start + rows.len());
    }

    /// So many more keys of one location each complete no page, whatever they are.
    pub(in crate::sieve) fn room(&self) -> usize {
        let weight = u64::from(self.options.max_weight).saturating_sub(self.weight);
        let records = self.options.max_records.saturating_sub(self.records.locations.len());
        to_usize(weight).unwrap_or(usize::MAX).min(records)
    }
}
