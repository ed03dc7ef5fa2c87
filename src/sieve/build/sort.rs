//! Builds segments from rows in any order: sorts ranges of keys in several threads, each with a separate builder.
//!
//! The bytes do not depend on the number of threads, because partitions join to the result of a single builder.

use std::collections::VecDeque;

use crate::error::Result;
use crate::sieve::build::builder::{Builder, BuiltPartition};
use crate::sieve::build::join::Join;
use crate::sieve::index::directory::Built;
use crate::sieve::key::axis::Key;
use crate::sieve::record::options::Options;
use crate::sieve::record::pairs::{NumberPairs, PairBuffer, sorted_numbers};
use crate::sieve::record::sorted::{RowShare, SortedPart, SortedRows};
use crate::sieve::segment::encode::EncodedSegment;

/// Each thread builds this many partitions, so that the caller can store segments early.
const PARTITIONS_PER_THREAD: usize = 4;

/// The least rows of a partition. The keys on its borders are encoded twice.
const MIN_PARTITION: usize = 1 << 18;

/// A build of rows in any order.
///
/// Threads build a few partitions at a time. The rows stay in memory until the end.
#[derive(Debug)]
pub struct SortedBuild<K> {
    rows: SortedRows<K>,
    waiting: VecDeque<RowShare>,
    joined: Join<K>,
    num_locations: u32,
    options: Options,
    threads: usize,
}

impl<K: Key> SortedBuild<K> {
    /// Creates a build over locations `0..num_locations` with the given number of threads.
    pub fn new(rows: SortedRows<K>, num_locations: u32, options: Options, threads: usize) -> Result<Self> {
        let threads = threads.max(1);
        let share = rows.len().div_ceil(threads.saturating_mul(PARTITIONS_PER_THREAD)).max(MIN_PARTITION);
        let waiting = rows.shares(share).into();
        // Checks the number of locations.
        Builder::<K>::new(num_locations, options)?;
        Ok(Self { rows, waiting, joined: Join::new(num_locations, options)?, num_locations, options, threads })
    }

    /// Builds the next partitions. Returns false if there are none left.
    pub fn step(&mut self) -> Result<bool> {
        let Self { rows, waiting, joined, num_locations, options, .. } = self;
        let shares: Vec<RowShare> = waiting.drain(..self.threads.min(waiting.len())).collect();
        for part in in_parallel(shares, |share| build(rows, share, *num_locations, *options)) {
            joined.push(part?)?;
        }
        Ok(!waiting.is_empty())
    }

    /// Returns the segments finished so far. Each segment is returned once.
    pub fn take_segments(&mut self) -> Vec<EncodedSegment<K>> {
        self.joined.take_segments()
    }

    /// Finishes the index.
    pub fn finish(mut self) -> Result<Built<K>> {
        while self.step()? {}
        Ok(self.joined.finish())
    }
}

fn build<K: Key>(
    rows: &SortedRows<K>,
    share: RowShare,
    num_locations: u32,
    options: Options,
) -> Result<BuiltPartition<K>> {
    let mut builder = Builder::partition(num_locations, options)?;
    rows.visit(share, &mut |part| match part {
        SortedPart::Rows(rows) => builder.push_rows(rows),
        SortedPart::Counted(key, location, rows) => builder.push(key, location, rows),
    })?;
    Ok(builder.finish_part())
}

/// Runs `work` on each item in a separate thread, the last one in this thread. Returns the results in order.
fn in_parallel<T: Send, R: Send>(mut items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let (work, last) = (&work, items.pop());
    std::thread::scope(|scope| {
        let workers: Vec<_> = items.into_iter().map(|item| scope.spawn(move || work(item))).collect();
        let last_result = last.map(work);
        let mut results = Vec::new();
        for worker in workers {
            match worker.join() {
                Ok(result) => results.push(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results.extend(last_result);
        results
    })
}

/// Sorts pairs by key and location: two scatters by the keys' highest bits, then small sorts. Unevenly distributed keys
/// are sorted correctly, but more slowly.
pub fn sort_pairs(pairs: &mut [(u64, u32)]) {
    let mut buffer = NumberPairs::<u64>::default();
    pairs.iter().for_each(|&(key, location)| buffer.push(key, location, 1));
    let mut slots = pairs.iter_mut();
    buffer.drain(&mut |key, location, rows| {
        (0..rows).zip(&mut slots).for_each(|(_, slot)| *slot = (key, location));
    });
}

/// Builds an index of pairs in any order, one row each, with the given number of threads.
///
/// In addition to the pairs, this holds two words per pair. The original pairs are freed before the first segment is
/// built.
pub fn build_pairs(pairs: Vec<(u64, u32)>, num_locations: u32, options: Options, threads: usize) -> Result<Built<u64>> {
    let mut buffer = NumberPairs::<u64>::default();
    pairs.iter().for_each(|&(key, location)| buffer.push(key, location, 1));
    drop(pairs);
    SortedBuild::new(sorted_numbers(vec![buffer], threads), num_locations, options, threads)?.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sieve::key::axis::Bytes;
    use crate::sieve::record::pairs::SortableKey;
    use proptest::prelude::*;

    /// Builds with a single builder.
    fn expected<K: SortableKey>(rows: &[(K::Value<'_>, u32, u64)], options: Options) -> Built<K> {
        let mut sorted: Vec<(K, u32, u64)> = rows.iter().map(|row| (K::owned(row.0), row.1, row.2)).collect();
        sorted.sort();
        let mut builder = Builder::new(5, options).unwrap();
        sorted.into_iter().for_each(|(key, location, rows)| builder.push(key, location, rows).unwrap());
        builder.finish()
    }

    /// Builds in shares of a few rows.
    fn check<K: SortableKey>(rows: &[(K::Value<'_>, u32, u64)], share: usize) {
        let options = Options { max_weight: 20, max_records: 30, max_key_bytes: 20_000, ..Options::default() };
        let mut buffers = vec![K::Buffer::default()];
        buffers.push(buffers[0].sibling());
        for (at, &(value, location, count)) in rows.iter().enumerate() {
            buffers[at % 2].push(value, location, count);
        }
        let rows_together = K::Buffer::sort(buffers, 2).unwrap();
        let mut build = SortedBuild::new(rows_together, 5, options, 2).unwrap();
        build.waiting = build.rows.shares(share).into();
        let mut segments = Vec::new();
        while build.step().unwrap() {
            segments.extend(build.take_segments());
        }
        let Built { segments: more, spans } = build.finish().unwrap();
        segments.extend(more);
        assert_eq!(Built { segments, spans }, expected::<K>(rows, options));
    }

    #[test]
    fn any_number_of_threads_is_allowed() {
        let pairs = vec![(5, 0), (3, 1)];
        let expected = build_pairs(pairs.clone(), 2, Options::default(), 1).unwrap();
        assert_eq!(build_pairs(pairs, 2, Options::default(), 1 << 62).unwrap(), expected);
    }

    #[test]
    fn a_key_with_many_rows_may_be_the_least_key_of_a_share() {
        check::<u64>(&[(0, 0, 1), (1 << 63, 3, 20), (1 << 63, 1, 1)], 1);
    }

    proptest! {
        #[test]
        fn pairs_are_sorted(mut pairs in proptest::collection::vec((prop_oneof![0u64..50, any::<u64>()], 0u32..5), 0..5000)) {
            let mut expected = pairs.clone();
            expected.sort_unstable();
            sort_pairs(&mut pairs);
            prop_assert_eq!(pairs, expected);
        }

        #[test]
        fn i5_any_number_of_threads_builds_the_same_bytes(pairs in proptest::collection::vec((prop_oneof![0u64..50, any::<u64>()], 0u32..5), 0..500), threads in 2usize..6) {
            let options = Options { max_weight: 20, max_records: 30, ..Options::default() };
            let single_thread = build_pairs(pairs.clone(), 5, options, 1).unwrap();
            prop_assert_eq!(build_pairs(pairs, 5, options, threads).unwrap(), single_thread);
        }

        #[test]
        fn i5_rows_in_any_order_build_the_same_bytes(
            rows in proptest::collection::vec((prop_oneof![0u64..50, any::<u64>()], 0u32..5, prop_oneof![8 => 1u64..3, 1 => 1u64..50]), 0..600),
            share in 1usize..200,
        ) {
            check::<u64>(&rows, share);
            let wide: Vec<(u128, u32, u64)> = rows.iter().map(|row| (u128::from(row.0) << 9, row.1, row.2)).collect();
            check::<u128>(&wide, share);
            let texts: Vec<String> = rows.iter().map(|row| format!("{:x}", row.0)).collect();
            let texts: Vec<(&[u8], u32, u64)> =
                rows.iter().zip(&texts).map(|(row, text)| (text.as_bytes(), row.1, row.2)).collect();
            check::<Bytes>(&texts, share);
        }
    }
}
