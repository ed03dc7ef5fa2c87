//! Sorted rows of several buffers, range by range.

use crate::error::Result;
use crate::sieve::code::offset::Offset;
use crate::sieve::key::axis::Key;
use crate::sieve::record::ranges::Ranged;
use crate::sieve::record::words::Chunk;
use std::fmt::Debug;
use std::ops::Range;

/// Rows that are scattered into ranges of keys. Each range is sorted when it is visited.
#[derive(Debug)]
pub struct SortedRows<K> {
    rows: Box<dyn Ranges<K>>,
    /// Sorted keys with their location and a number of rows.
    counted: Vec<(K, u32, u64)>,
}

/// Takes sorted keys and their locations.
type TakeRows<'a, K> = &'a mut dyn FnMut(&[(K, u32)]) -> Result<()>;

/// Rows in ranges of ascending keys.
trait Ranges<K>: Debug + Send + Sync {
    /// Returns the number of rows in each range.
    fn lens(&self) -> Vec<usize>;
    /// Returns the least key of some ranges.
    fn least(&self, ranges: Range<usize>) -> Option<K>;
    /// Calls `take` with the sorted keys and locations of each of some ranges.
    fn visit(&self, ranges: Range<usize>, take: TakeRows<'_, K>) -> Result<()>;
}

/// Ranges of words that become keys when they are visited.
struct Unpacked<W, F> {
    rows: Ranged<W>,
    unpack: F,
}

impl<W, F> Debug for Unpacked<W, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacked").finish_non_exhaustive()
    }
}

impl<K, W: Offset + Send + Sync, F: Fn(W) -> K + Send + Sync> Ranges<K> for Unpacked<W, F> {
    fn lens(&self) -> Vec<usize> {
        self.rows.lens()
    }

    fn least(&self, ranges: Range<usize>) -> Option<K> {
        self.rows.least(ranges).map(&self.unpack)
    }

    fn visit(&self, ranges: Range<usize>, take: TakeRows<'_, K>) -> Result<()> {
        let mut keys = Vec::new();
        self.rows.sorted(ranges, |rows| {
            keys.clear();
            keys.extend(rows.iter().map(|&(word, location)| ((self.unpack)(word), location)));
            take(&keys)
        })
    }
}

/// A share of the rows: neighboring ranges, and the counted keys between them.
#[derive(Debug, Clone)]
pub(in crate::sieve) struct RowShare {
    pub(in crate::sieve) ranges: Range<usize>,
    pub(in crate::sieve) counted: Range<usize>,
}

/// Rows in ascending order.
pub(in crate::sieve) enum SortedPart<'a, K> {
    /// One row each.
    Rows(&'a [(K, u32)]),
    /// Several rows.
    Counted(K, u32, u64),
}

impl<K: Key> SortedRows<K> {
    /// Sorts words, which `unpack` turns into keys in the same order, and counted keys in any order.
    pub(in crate::sieve) fn new<W: Offset + Send + Sync + 'static>(
        chunks: Vec<Chunk<W>>,
        unpack: impl Fn(W) -> K + Send + Sync + 'static,
        mut counted: Vec<(K, u32, u64)>,
        threads: usize,
    ) -> Self {
        counted.sort_unstable();
        Self { rows: Box::new(Unpacked { rows: Ranged::new(chunks, threads), unpack }), counted }
    }

    /// Returns the number of rows, where counted keys are one row each.
    pub(in crate::sieve) fn len(&self) -> usize {
        self.rows.lens().iter().sum::<usize>() + self.counted.len()
    }

    /// Divides the rows into shares of at least `rows` rows, as far as the ranges allow.
    pub(in crate::sieve) fn shares(&self, rows: usize) -> Vec<RowShare> {
        let lens = self.rows.lens();
        let (mut shares, mut start, mut sum) = (Vec::new(), 0, 0);
        for (range, len) in lens.iter().enumerate() {
            sum += len;
            if sum >= rows || range + 1 == lens.len() {
                shares.push(RowShare { ranges: start..range + 1, counted: 0..0 });
                (start, sum) = (range + 1, 0);
            }
        }
        // The counted keys before the least key of the next share.
        let mut at = 0;
        for number in 0..shares.len() {
            let next = shares.get(number + 1).and_then(|next| self.rows.least(next.ranges.start..lens.len()));
            let end = next.map_or(self.counted.len(), |next| self.counted.partition_point(|counted| counted.0 < next));
            shares[number].counted = at..end.max(at);
            at = end.max(at);
        }
        shares
    }

    /// Visits the rows of a share in ascending order of key and location.
    pub(in crate::sieve) fn visit(
        &self,
        share: RowShare,
        take: &mut dyn FnMut(SortedPart<'_, K>) -> Result<()>,
    ) -> Result<()> {
        self.visit_with(share.ranges, self.counted[share.counted].iter().cloned(), take)
    }

    fn visit_with(
        &self,
        ranges: Range<usize>,
        counted: impl Iterator<Item = (K, u32, u64)>,
        take: &mut dyn FnMut(SortedPart<'_, K>) -> Result<()>,
    ) -> Result<()> {
        let mut counted = counted.peekable();
        self.rows.visit(ranges, &mut |mut rows| {
            while let (Some((key, location, _)), Some(last)) = (counted.peek(), rows.last()) {
                let place = (key, *location);
                if (&last.0, last.1) < place {
                    break;
                }
                let (before, after) = rows.split_at(rows.partition_point(|row| (&row.0, row.1) < place));
                take(SortedPart::Rows(before))?;
                rows = after;
                if let Some((key, location, count)) = counted.next() {
                    take(SortedPart::Counted(key, location, count))?;
                }
            }
            take(SortedPart::Rows(rows))
        })?;
        counted.try_for_each(|(key, location, rows)| take(SortedPart::Counted(key, location, rows)))
    }

    /// Passes on all pairs in order of key and location. Rows of equal pairs are summed.
    pub(in crate::sieve) fn drain(&self, take: &mut dyn FnMut(K, u32, u64)) {
        self.drain_with(self.counted.iter().cloned(), take);
    }

    /// Like [`Self::drain`], with other counted keys.
    pub(in crate::sieve) fn drain_with(
        &self,
        counted: impl Iterator<Item = (K, u32, u64)>,
        take: &mut dyn FnMut(K, u32, u64),
    ) {
        self.drain_ranges(0..self.rows.lens().len(), counted, take);
    }

    /// Like [`Self::drain`], for one share.
    pub(in crate::sieve) fn drain_share(&self, share: RowShare, take: &mut dyn FnMut(K, u32, u64)) {
        self.drain_ranges(share.ranges, self.counted[share.counted].iter().cloned(), take);
    }

    fn drain_ranges(
        &self,
        ranges: Range<usize>,
        counted: impl Iterator<Item = (K, u32, u64)>,
        take: &mut dyn FnMut(K, u32, u64),
    ) {
        let mut last: Option<(K, u32, u64)> = None;
        let mut add = |key: K, location: u32, rows: u64| match &mut last {
            Some(last) if (&last.0, last.1) == (&key, location) => last.2 = last.2.saturating_add(rows),
            _ => {
                if let Some((key, location, rows)) = last.replace((key, location, rows)) {
                    take(key, location, rows);
                }
            }
        };
        let visited = self.visit_with(ranges, counted, &mut |part| {
            match part {
                SortedPart::Rows(rows) => rows.iter().for_each(|(key, location)| add(key.clone(), *location, 1)),
                SortedPart::Counted(key, location, rows) => add(key, location, rows),
            }
            Ok(())
        });
        debug_assert!(visited.is_ok(), "the closure does not fail");
        if let Some((key, location, rows)) = last {
            take(key, location, rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sieve::key::axis::Bytes;
    use crate::sieve::record::pairs::{PairBuffer, SortableKey};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Distributes rows over two buffers, which are then sorted apart and together.
    fn check<K: SortableKey>(rows: &[(K::Value<'_>, u32, u64)], share_rows: usize) {
        let mut expected = BTreeMap::<(K, u32), u64>::new();
        for &(value, location, count) in rows {
            *expected.entry((K::owned(value), location)).or_default() += count;
        }
        let filled = || {
            let mut buffers = vec![K::Buffer::default()];
            buffers.push(buffers[0].sibling());
            for (&(value, location, count), at) in rows.iter().zip([0, 0, 1].into_iter().cycle()) {
                buffers[at].push(value, location, count);
            }
            buffers
        };
        let mut apart = BTreeMap::<(K, u32), u64>::new();
        for mut buffer in filled() {
            let mut last = None;
            buffer.drain(&mut |key, location, count| {
                assert!(last.as_ref().is_none_or(|last| *last < (key.clone(), location)));
                last = Some((key.clone(), location));
                *apart.entry((key, location)).or_default() += count;
            });
            assert!(buffer.num_bytes() == 0);
        }
        assert_eq!(apart, expected);
        let Ok(sorted) = K::Buffer::sort(filled(), 2) else { return };
        let mut together = Vec::new();
        for share in sorted.shares(share_rows) {
            sorted
                .visit(share, &mut |part| {
                    match part {
                        SortedPart::Rows(rows) => together.extend(rows.iter().map(|row| (row.0.clone(), row.1, 1))),
                        SortedPart::Counted(key, location, count) => together.push((key, location, count)),
                    }
                    Ok(())
                })
                .unwrap();
        }
        assert!(together.is_sorted_by(|a, b| (&a.0, a.1) <= (&b.0, b.1)));
        let mut summed = BTreeMap::<(K, u32), u64>::new();
        together.into_iter().for_each(|(key, location, count)| *summed.entry((key, location)).or_default() += count);
        assert_eq!(summed, expected);
    }

    fn counts() -> impl Strategy<Value = u64> {
        prop_oneof![Just(1u64), Just(1), 2u64..5, 15u64..40]
    }

    proptest! {
        #[test]
        fn sorted_numbers_are_the_same_rows(
            rows in proptest::collection::vec((prop_oneof![0u64..50, any::<u64>()], prop_oneof![0u32..5, any::<u32>()], counts()), 0..2000),
            share in 1usize..300,
        ) {
            check::<u64>(&rows, share);
            let wide: Vec<(u128, u32, u64)> =
                rows.iter().map(|&(key, location, count)| (u128::from(key) * u128::from(key), location, count)).collect();
            check::<u128>(&wide, share);
        }

        #[test]
        fn sorted_texts_are_the_same_rows(
            rows in proptest::collection::vec((text(), 0u32..5, counts()), 0..400),
            share in 1usize..300,
        ) {
            let rows: Vec<(&[u8], u32, u64)> =
                rows.iter().map(|(text, location, count)| (text.as_bytes(), *location, *count)).collect();
            check::<Bytes>(&rows, share);
        }
    }

    /// Mostly texts that can be packed.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof![40 => "[0-9a-f]{8}", 20 => "0[01]{2}", 1 => "[a-z ]{20,50}"]
    }

    #[test]
    fn many_chunks_of_rows_in_two_ranges_of_keys() {
        let rows: Vec<(u64, u32, u64)> = (0..200_000u64)
            .map(|row| (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (row % 2 * 40), (row / 999) as u32, 1))
            .collect();
        check::<u64>(&rows, 20_000);
        let texts: Vec<String> = rows.iter().map(|row| format!("{:016x}", row.0)).collect();
        let odd = "not a number".to_owned();
        let texts: Vec<(&[u8], u32, u64)> = texts
            .iter()
            .enumerate()
            .map(|(row, text)| (if row % 1000 == 1 { odd.as_bytes() } else { text.as_bytes() }, (row / 999) as u32, 1))
            .collect();
        check::<Bytes>(&texts, 20_000);
    }
}
