//! A set of hashes whose memory follows the distinct ones, however often they repeat.
//!
//! Hashes are as good as random, so their highest bits say where they stand in the table, and the table is nearly sorted: it
//! grows and is handed over in sequential passes. Whoever makes values whose hashes crowd into one place gets the slower way,
//! which sorts, and not an endless search.

use crate::error::{Error, ErrorKind, Result};
use crate::int::to_u64;

/// Slots of the first table, as a power of two.
const FIRST_BITS: u32 = 12;
/// A hash stands at most so many slots after its own. In a table that is half full, chance makes no row half as long.
const LONGEST: usize = 512;
/// Hashes that are looked up at once, so that the trips to memory overlap.
const AHEAD: usize = 64;
/// Hashes that the slower way keeps before it looks for repeated ones.
const FIRST_LIMIT: usize = 1 << 16;

/// A set of hashes whose memory is bounded by a few times the distinct ones, and these by the caller: a few bytes of a delta
/// encoding can stand for billions of values.
#[derive(Debug)]
pub(in crate::parquet) struct Distinct {
    /// Each hash at the slot of its highest bits or soon after; 0 is an empty slot. `LONGEST` more follow the last.
    slots: Vec<u64>,
    bits: u32,
    len: usize,
    zero: bool,
    most: u64,
    crowded: Option<Sorted>,
}

impl Distinct {
    /// An empty set that may take `most` hashes.
    pub(in crate::parquet) fn new(most: u64) -> Self {
        Self { slots: Vec::new(), bits: FIRST_BITS, len: 0, zero: false, most, crowded: None }
    }

    pub(in crate::parquet) fn extend(&mut self, hashes: &[u64]) -> Result<()> {
        for batch in hashes.chunks(AHEAD) {
            if self.crowded.is_none() && (self.len + batch.len()) * 2 > self.slots.len().saturating_sub(LONGEST) {
                self.grow();
            }
            if let Some(sorted) = &mut self.crowded {
                sorted.extend(batch)?;
                continue;
            }
            let mut there = [0; AHEAD];
            for (there, hash) in there.iter_mut().zip(batch) {
                *there = self.slots[self.home(*hash)];
            }
            for (at, (there, hash)) in there.iter().zip(batch).enumerate() {
                if (there != hash || *hash == 0) && !self.insert(*hash) {
                    self.crowd();
                    self.extend(&batch[at..])?;
                    break;
                }
            }
            if to_u64(self.len) > self.most {
                return Err(Error::new(ErrorKind::TooManyValues { ndv: to_u64(self.len) }));
            }
        }
        Ok(())
    }

    /// All hashes, sorted and each once.
    pub(in crate::parquet) fn into_sorted(mut self) -> Result<Vec<u64>> {
        if let Some(sorted) = self.crowded {
            return sorted.into_sorted();
        }
        let mut hashes = std::mem::take(&mut self.slots);
        hashes.retain(|hash| *hash != 0);
        if self.zero {
            hashes.insert(0, 0);
        }
        // Nearly sorted: a hash moves past the few that were pushed off their slots.
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
        // At most as many bits as the table has slots, which are in memory.
        (hash >> (u64::BITS - self.bits)) as usize
    }

    /// Takes one hash; `false` where too many others crowd around its slot.
    fn insert(&mut self, hash: u64) -> bool {
        if hash == 0 {
            self.len += usize::from(!self.zero);
            self.zero = true;
            return true;
        }
        let home = self.home(hash);
        for slot in &mut self.slots[home..home + LONGEST] {
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

    /// Twice the slots. What stood in order still does, so both tables are walked from front to back.
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        if !old.is_empty() {
            self.bits += 1;
        }
        self.slots = vec![0; (1 << self.bits) + LONGEST];
        self.len = usize::from(self.zero);
        for at in 0..old.len() {
            if old[at] != 0 && !self.insert(old[at]) {
                // The rest of the old table goes with what the new one holds.
                let mut sorted = Sorted::new(self.most);
                sorted.hashes = old;
                self.crowd_into(sorted);
                return;
            }
        }
    }

    fn crowd(&mut self) {
        let sorted = Sorted::new(self.most);
        self.crowd_into(sorted);
    }

    fn crowd_into(&mut self, mut sorted: Sorted) {
        sorted.hashes.append(&mut self.slots);
        sorted.hashes.retain(|hash| *hash != 0);
        if self.zero {
            sorted.hashes.push(0);
        }
        sorted.limit = sorted.hashes.len().max(FIRST_LIMIT);
        self.crowded = Some(sorted);
    }

    #[cfg(test)]
    pub(in crate::parquet) fn capacity(&self) -> usize {
        self.slots.capacity().max(self.crowded.as_ref().map_or(0, |sorted| sorted.hashes.capacity()))
    }
}

/// Hashes in a heap that is sorted whenever it has doubled.
#[derive(Debug)]
struct Sorted {
    hashes: Vec<u64>,
    limit: usize,
    most: u64,
}

impl Sorted {
    fn new(most: u64) -> Self {
        Self { hashes: Vec::new(), limit: FIRST_LIMIT, most }
    }

    fn extend(&mut self, hashes: &[u64]) -> Result<()> {
        self.hashes.extend_from_slice(hashes);
        if self.hashes.len() >= self.limit {
            self.compact()?;
            self.limit = (self.hashes.len() * 2).max(FIRST_LIMIT);
        }
        Ok(())
    }

    fn compact(&mut self) -> Result<()> {
        self.hashes.sort_unstable();
        self.hashes.dedup();
        match to_u64(self.hashes.len()) {
            ndv if ndv > self.most => Err(Error::new(ErrorKind::TooManyValues { ndv })),
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
        fn a_set_is_a_set(
            hashes in prop::collection::vec(prop_oneof![any::<u64>(), 0u64..9, (u64::MAX - 700)..=u64::MAX], 0..9000),
            batch in 1usize..2000,
        ) {
            let expect: Vec<u64> = BTreeSet::from_iter(hashes.iter().copied()).into_iter().collect();
            prop_assert_eq!(sorted(&hashes, batch), expect);
        }
    }

    #[test]
    fn crowds_are_sorted_and_not_searched() {
        for crowd in [0, 1 << 60, u64::MAX - 300_000] {
            let mut hashes: Vec<u64> = (0..300_000).map(|n| crowd + n).collect();
            let expect = hashes.clone();
            hashes.reverse();
            hashes.extend_from_within(..5000);
            assert_eq!(sorted(&hashes, 1024), expect);
        }
        // A crowd that comes late, behind hashes that stand well.
        let spread = (0..100_000u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let hashes: Vec<u64> = spread.chain((0..2000).map(|n| (1 << 63) + n)).collect();
        let expect: Vec<u64> = BTreeSet::from_iter(hashes.iter().copied()).into_iter().collect();
        assert_eq!(sorted(&hashes, 1024), expect);
    }

    #[test]
    fn memory_follows_the_distinct_values() {
        for three in [[1, 2, 3], [1 << 20, 1 << 40, u64::MAX]] {
            let mut distinct = Distinct::new(10);
            for _ in 0..1000 {
                distinct.extend(&three.repeat(500)).unwrap();
            }
            assert!(distinct.capacity() < 4 * FIRST_LIMIT);
            assert_eq!(distinct.into_sorted().unwrap(), three);
        }
    }

    #[test]
    fn too_many_are_refused() {
        for spread in [1, 0x9E37_79B9_7F4A_7C15] {
            let mut distinct = Distinct::new(1000);
            let hashes: Vec<u64> = (1..200_000u64).map(|n| n.wrapping_mul(spread)).collect();
            let error = hashes.chunks(100).find_map(|batch| distinct.extend(batch).err()).unwrap();
            assert!(matches!(error.kind(), ErrorKind::TooManyValues { .. }), "{error}");
            assert!(distinct.capacity() < 4 * FIRST_LIMIT);
        }
    }
}
