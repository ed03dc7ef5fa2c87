//! Shuffled `(key, location)` pairs -> segments: one scatter into ranges of keys, small sorts, and a builder for each thread.
//!
//! The bytes do not depend on the number of threads: partitions join to what one builder makes.

use super::axis::Key;
use super::builder::{Builder, Built, Part, join};
use super::options::Options;
use crate::error::Result;
use crate::int::{to_u64, to_usize};

/// Pairs per range, on average: few enough to be sorted within the second-level cache.
const PAIRS_PER_RANGE: usize = 2048;

/// Sorts pairs by key and location; keys spread evenly over their span are sorted in half the time of a comparison sort.
pub fn sort_pairs(pairs: &mut Vec<(u64, u32)>) {
    let span = pairs.iter().fold(None, |span: Option<(u64, u64)>, &(key, _)| {
        Some(span.map_or((key, key), |(least, most)| (least.min(key), most.max(key))))
    });
    let Some((least, most)) = span else { return };
    let ranges = to_u64(pairs.len() / PAIRS_PER_RANGE).next_power_of_two().min(1 << 16);
    let spread = (u128::from(most - least) + 1).div_ceil(u128::from(ranges));
    // The range of a key is a shift, so ranges are powers of two wide.
    let shift = 128 - (spread - 1).leading_zeros();
    let range_of = |key: u64| to_usize((key - least).checked_shr(shift).unwrap_or(0)).unwrap_or(0);
    let mut ends = vec![0usize; range_of(most) + 1];
    pairs.iter().for_each(|&(key, _)| ends[range_of(key)] += 1);
    let mut start = 0;
    for end in &mut ends {
        start += std::mem::replace(end, start);
    }
    let mut sorted = vec![(0, 0); pairs.len()];
    for &pair in pairs.iter() {
        let slot = &mut ends[range_of(pair.0)];
        sorted[*slot] = pair;
        *slot += 1;
    }
    let mut start = 0;
    for end in ends {
        sorted[start..end].sort_unstable();
        start = end;
    }
    *pairs = sorted;
}

/// Builds an index of pairs, one row each and in any order, with as many threads as are asked for.
pub fn build_pairs(
    mut pairs: Vec<(u64, u32)>,
    num_locations: u32,
    options: Options,
    threads: usize,
) -> Result<Built<u64>> {
    if threads <= 1 {
        sort_pairs(&mut pairs);
        return build_sorted(&pairs, Builder::new(num_locations, options)?).map(Builder::finish);
    }
    let parts = partition(pairs, threads);
    let built = std::thread::scope(|scope| {
        let workers: Vec<_> = parts
            .into_iter()
            .map(|mut part| {
                scope.spawn(move || -> Result<Part<u64>> {
                    sort_pairs(&mut part);
                    build_sorted(&part, Builder::partition(num_locations, options)?).map(Builder::finish_part)
                })
            })
            .collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, Result<Part<u64>>>| match worker.join() {
            Ok(part) => part,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        workers.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    join(built, num_locations, options)
}

/// Splits pairs at keys that a sample puts in the middle; equal keys stay together.
fn partition(pairs: Vec<(u64, u32)>, threads: usize) -> Vec<Vec<(u64, u32)>> {
    let step = (pairs.len() / 4096).max(1);
    let mut sample: Vec<u64> = pairs.iter().step_by(step).map(|pair| pair.0).collect();
    sample.sort_unstable();
    let mut borders: Vec<u64> =
        (1..threads).filter_map(|part| sample.get(sample.len() * part / threads).copied()).collect();
    borders.dedup();
    let mut parts = vec![Vec::with_capacity(pairs.len() / threads + pairs.len() / 16); borders.len() + 1];
    for pair in pairs {
        parts[borders.partition_point(|border| *border <= pair.0)].push(pair);
    }
    parts
}

fn build_sorted<K: Key + Copy>(pairs: &[(K, u32)], mut builder: Builder<K>) -> Result<Builder<K>> {
    pairs.iter().try_for_each(|&(key, location)| builder.push(key, location, 1))?;
    Ok(builder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pairs_are_sorted(mut pairs in proptest::collection::vec((prop_oneof![0u64..50, any::<u64>()], 0u32..5), 0..5000)) {
            let mut expected = pairs.clone();
            expected.sort_unstable();
            sort_pairs(&mut pairs);
            prop_assert_eq!(pairs, expected);
        }

        #[test]
        fn i5_any_number_of_threads_makes_the_same_bytes(pairs in proptest::collection::vec((prop_oneof![0u64..50, any::<u64>()], 0u32..5), 0..500), threads in 2usize..6) {
            let options = Options { max_weight: 20, max_records: 30, ..Options::default() };
            let one = build_pairs(pairs.clone(), 5, options, 1).unwrap();
            prop_assert_eq!(build_pairs(pairs, 5, options, threads).unwrap(), one);
        }
    }
}
