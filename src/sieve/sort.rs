//! Shuffled `(key, location)` pairs -> segments: one scatter into ranges of keys, small sorts, and a builder for each thread.
//!
//! The bytes do not depend on the number of threads: partitions join to what one builder makes.

use super::axis::Key;
use super::builder::{Builder, Built, Part, join};
use super::options::Options;
use crate::error::Result;
use crate::int::to_usize;

/// Pairs per range of the first scatter, on average: few enough for the second one to stay within the cache.
const PAIRS_PER_RANGE: usize = 2048;

/// Pairs per range of the second scatter, on average: few enough to be sorted by insertion.
const PAIRS_PER_GROUP: usize = 8;

/// Sorts pairs by key and location: two scatters by the keys' highest bits, then small sorts. Keys that do not spread evenly
/// over their span are sorted as well, only slower.
pub fn sort_pairs(pairs: &mut [(u64, u32)]) {
    let mut sorted = vec![(0, 0); pairs.len()];
    let mut ends = Vec::new();
    scatter(pairs, &mut sorted, PAIRS_PER_RANGE, &mut ends);
    let mut groups = Vec::new();
    let mut start = 0;
    for &end in &ends {
        // What was scattered is scattered back, which brings it home to where it came from.
        let (from, to) = (&mut sorted[start..end], &mut pairs[start..end]);
        if from.len() <= 2 * PAIRS_PER_GROUP {
            to.copy_from_slice(from);
            to.sort_unstable();
        } else {
            scatter(from, to, PAIRS_PER_GROUP, &mut groups);
            let mut group_start = 0;
            for &group_end in &groups {
                to[group_start..group_end].sort_unstable();
                group_start = group_end;
            }
        }
        start = end;
    }
}

/// Puts pairs into ranges of equal width of their keys, in ascending order of the ranges, whose ends are told.
fn scatter(pairs: &[(u64, u32)], out: &mut [(u64, u32)], per_range: usize, ends: &mut Vec<usize>) {
    ends.clear();
    let Some(&(first, _)) = pairs.first() else { return };
    let (least, most) = pairs.iter().fold((first, first), |(least, most), pair| (least.min(pair.0), most.max(pair.0)));
    let bits = (pairs.len() / per_range).max(1).ilog2().min(16);
    // The range of a key is a shift; `most` lies in one of the last half of the ranges.
    let shift = (64 - (most - least).leading_zeros()).saturating_sub(bits);
    let range_of = |key: u64| to_usize((key - least).checked_shr(shift).unwrap_or(0)).unwrap_or(0);
    ends.resize(range_of(most) + 1, 0);
    pairs.iter().for_each(|&(key, _)| ends[range_of(key)] += 1);
    let mut start = 0;
    for end in ends.iter_mut() {
        start += std::mem::replace(end, start);
    }
    for &pair in pairs {
        let slot = &mut ends[range_of(pair.0)];
        out[*slot] = pair;
        *slot += 1;
    }
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
