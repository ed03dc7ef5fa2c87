//! A set of hashes. Its memory depends on the number of distinct hashes, not on how often they are inserted.
//!
//! Hashes are uniformly distributed, so the position of a hash in the table is given by its highest bits, and the table
//! is nearly sorted. Growing and sorting it are sequential passes. Malicious values may have hashes that cluster in one
//! place. The set then falls back to a slower sorted vector instead of long searches.

use crate::error::{Error, ErrorKind, Result};
use crate::int::to_u64;

/// Size of the first table, as a power of two.
const FIRST_BITS: u32 = 12;
/// Maximum distance between a hash and its home slot. In a table that is at most half full, random clusters stay far
/// shorter.
const MAX_DISPLACEMENT: usize = 512;
/// Number of hashes looked up at once, so that memory accesses overlap.
const AHEAD: usize = 64;
/// Minimum number of hashes in the fallback before it removes duplicates.
const MIN_LIMIT: usize = 1 << 16;

/// A set of hashes. Its memory is bounded by a small multiple of the distinct hashes, whose number the caller limits,
/// because a few bytes of a delta encoding can encode billions of values.
#[derive(Debug)]
pub(in crate::parquet) struct Distinct {
    /// Each hash is in the slot of its highest bits or shortly after. 0 marks an empty slot. `MAX_DISPLACEMENT` slots follow the
    /// last home slot.
    slots: Vec<u64>,
    bits: u32,
    len: usize,
    zero: bool,
    max_hashes: u64,
    fallback: Option<Sorted>,
}

impl Distinct {
    /// Creates an empty set for at most `max_hashes`.
    pub(in crate::parquet) fn new(max_hashes: u64) -> Self {
        Self { slots: Vec::new(), bits: FIRST_BITS, len: 0, zero: false, max_hashes, fallback: None }
    }

    pub(in crate::parquet) fn extend(&mut self, hashes: &[u64]) -> Result<()> {
        for batch in hashes.chunks(AHEAD) {
            if self.fallback.is_none()
                && (self.len + batch.len()) * 2 > self.slots.len().saturating_sub(MAX_DISPLACEMENT)
            {
                self.grow();
            }
            if let Some(sorted) = &mut self.fallback {
                sorted.extend(batch)?;
                continue;
            }
            let mut found = [0; AHEAD];
            for (found, hash) in found.iter_mut().zip(batch) {
                *found = self.slots[self.home(*hash)];
            }
            for (at, (found, hash)) in found.iter().zip(batch).enumerate() {
                if (found != hash || *hash == 0) && !self.insert(*hash) {
                    self.fall_back();
                    self.extend(&batch[at..])?;
                    break;
                }
            }
            if to_u64(self.len) > self.max_hashes {
                return Err(Error::new(ErrorKind::TooManyValues { ndv: to_u64(self.len) }));
            }
        }
        Ok(())
    }

    /// Returns the distinct hashes in order.
    pub(in crate::parquet) fn into_sorted(mut self) -> Result<Vec<u64>> {
        if let Some(sorted) = self.fallback {
            return sorted.into_sorted();
        }
        let mut hashes = std::mem::take(&mut self.slots);
        hashes.retain(|hash| *hash != 0);
        if self.zero {
            hashes.insert(0, 0);
        }
        // The hashes are nearly sorted, so insertion sort only moves the displaced hashes.
        for at in 1..hashes.len() {
            let hash = hashes[at];
            let mut to = at;
            while to > 0 && hashes[to - 1] > hash {
                hashes[to] = hashes[to - 1];
                to -= 1;
            }
            hashes[to] = hash;
        }
        Ok(hashes)
    }

    fn home(&self, hash: u64) -> usize {
        // The table has 2^bits home slots and is in memory, so this fits into a usize.
        (hash >> (u64::BITS - self.bits)) as usize
    }

    /// Inserts a hash. Returns false if the cluster around its slot is too long.
    fn insert(&mut self, hash: u64) -> bool {
        if hash == 0 {
            self.len += usize::from(!self.zero);
            self.zero = true;
            return true;
        }
        let home = self.home(hash);
        for slot in &mut self.slots[home..home + MAX_DISPLACEMENT] {
            if *slot == hash {
                return true;
            }
            if *slot == 0 {
                *slot = hash;
                self.len += 1;
                return true;
            }
        }
        false
    }

    /// Doubles the table. Hashes keep their order, so both tables are accessed sequentially.
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        if !old.is_empty() {
            self.bits += 1;
        }
        self.slots = vec![0; (1 << self.bits) + MAX_DISPLACEMENT];
        self.len = usize::from(self.zero);
        for at in 0..old.len() {
            if old[at] != 0 && !self.insert(old[at]) {
                // Move the rest of the old table and the new table to the fallback.
                let mut sorted = Sorted::new(self.max_hashes);
                sorted.hashes = old;
                self.fall_back_to(sorted);
                return;
            }
        }
    }

    fn fall_back(&mut self) {
        let sorted = Sorted::new(self.max_hashes);
        self.fall_back_to(sorted);
    }

    fn fall_back_to(&mut self, mut sorted: Sorted) {
        sorted.hashes.append(&mut self.slots);
        sorted.hashes.retain(|hash| *hash != 0);
        if self.zero {
            sorted.hashes.push(0);
        }
        sorted.limit = sorted.hashes.len().max(MIN_LIMIT);
        self.fallback = Some(sorted);
    }

    #[cfg(test)]
    pub(in crate::parquet) fn capacity(&self) -> usize {
        self.slots.capacity().max(self.fallback.as_ref().map_or(0, |sorted| sorted.hashes.capacity()))
    }
}

/// A vector of hashes that is sorted and deduplicated each time it doubles.
#[derive(Debug)]
struct Sorted {
    hashes: Vec<u64>,
    limit: usize,
    max_hashes: u64,
}

impl Sorted {
    fn new(max_hashes: u64) -> Self {
        Self { hashes: Vec::new(), limit: MIN_LIMIT, max_hashes }
    }

    fn extend(&mut self, hashes: &[u64]) -> Result<()> {
        self.hashes.extend_from_slice(hashes);
        if self.hashes.len() >= self.limit {
            self.compact()?;
            self.limit = (self.hashes.len() * 2).max(MIN_LIMIT);
        }
        Ok(())
    }

    fn compact(&mut self) -> Result<()> {
        self.hashes.sort_unstable();
        self.hashes.dedup();
        match to_u64(self.hashes.len()) {
            ndv if ndv > self.max_hashes => Err(Error::new(ErrorKind::TooManyValues { ndv })),
            _ => Ok(()),
        }
    }

    fn into_sorted(mut self) -> Result<Vec<u64>> {
        self.compact()?;
        Ok(self.hashes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    use super::*;

    fn sorted(hashes: &[u64], batch: usize) -> Vec<u64> {
        let mut distinct = Distinct::new(u64::MAX);
        for batch in hashes.chunks(batch) {
            distinct.extend(batch).unwrap();
        }
        distinct.into_sorted().unwrap()
    }

    proptest! {
        #[test]
        fn the_result_is_sorted_and_distinct(
            hashes in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..9, (u64::MAX - 700)..=u64::MAX], 0..9000),
            batch in 1usize..2000,
        ) {
            let expect: Vec<u64> = BTreeSet::from_iter(hashes.iter().copied()).into_iter().collect();
            prop_assert_eq!(sorted(&hashes, batch), expect);
        }
    }

    #[test]
    fn clustered_hashes_give_the_same_result() {
        for cluster_start in [0, 1 << 60, u64::MAX - 300_000] {
            let mut hashes: Vec<u64> = (0..300_000).map(|n| cluster_start + n).collect();
            let expect = hashes.clone();
            hashes.reverse();
            hashes.extend_from_within(..5000);
            assert_eq!(sorted(&hashes, 1024), expect);
        }
        // A cluster that appears late, after evenly distributed hashes.
        let spread = (0..100_000u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let hashes: Vec<u64> = spread.chain((0..2000).map(|n| (1 << 63) + n)).collect();
        let expect: Vec<u64> = BTreeSet::from_iter(hashes.iter().copied()).into_iter().collect();
        assert_eq!(sorted(&hashes, 1024), expect);
    }

    #[test]
    fn memory_depends_on_the_number_of_distinct_hashes() {
        for three in [[1, 2, 3], [1 << 20, 1 << 40, u64::MAX]] {
            let mut distinct = Distinct::new(10);
            for _ in 0..1000 {
                distinct.extend(&three.repeat(500)).unwrap();
            }
            assert!(distinct.capacity() < 4 * MIN_LIMIT);
            assert_eq!(distinct.into_sorted().unwrap(), three);
        }
    }

    #[test]
    fn exceeding_the_limit_is_an_error() {
        for spread in [1, 0x9E37_79B9_7F4A_7C15] {
            let mut distinct = Distinct::new(1000);
            let hashes: Vec<u64> = (1..200_000u64).map(|n| n.wrapping_mul(spread)).collect();
            let error = hashes.chunks(100).find_map(|batch| distinct.extend(batch).err()).unwrap();
            assert!(matches!(error.kind(), ErrorKind::TooManyValues { .. }), "{error}");
            assert!(distinct.capacity() < 4 * MIN_LIMIT);
        }
    }
}
