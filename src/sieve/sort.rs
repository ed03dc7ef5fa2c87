//! Shuffled `(key, location)` pairs -> segments: one scatter into ranges of keys, small sorts, and a builder for each thread.
//!
//! The bytes do not depend on the number of threads: partitions join to what one builder makes.

use std::ops::Range;

use super::builder::{Builder, Built, Part, join};
use super::options::Options;
use crate::error::Result;
use crate::int::to_usize;

/// A row's key and location.
type Pair = (u64, u32);

/// Pairs per range of the first scatter, on average: a range is scattered again within the second cache.
const PAIRS_PER_RANGE: usize = 8 * 1024;

/// Ranges of the first scatter: each is written at its own place, and there should be no more places than pages that the
/// machine can address at once.
const MOST_RANGES: usize = 4096;

/// Groups of the second scatter, about as many as a range has pairs: with one pair in each, little is left to be sorted.
const MOST_GROUPS: usize = 1 << 16;

/// Groups of more pairs are sorted on their own: where keys do not spread evenly, insertion alone would take forever.
const INSERTED: usize = 16;

/// Ranges of equal width over the keys from a least to a greatest one.
#[derive(Debug, Clone, Copy)]
struct Ranges {
    least: u64,
    shift: u32,
    count: usize,
}

impl Ranges {
    /// At most `count` ranges, and about half as many at least.
    fn over(least: u64, most: u64, count: usize) -> Self {
        // The range of a key is a shift; `most` lies in one of the last half of the ranges.
        let shift = (64 - (most - least).leading_zeros()).saturating_sub(count.max(1).ilog2());
        let all = Self { least, shift, count: 0 };
        Self { count: all.of(most) + 1, ..all }
    }

    #[inline]
    fn of(&self, key: u64) -> usize {
        to_usize((key - self.least).checked_shr(self.shift).unwrap_or(0)).unwrap_or(0)
    }
}

/// The least and the greatest key.
fn span(pieces: &[&[Pair]]) -> (u64, u64) {
    pieces.iter().copied().flatten().fold((u64::MAX, 0), |(least, most), pair| (least.min(pair.0), most.max(pair.0)))
}

/// Puts pairs, given in pieces, into ranges of their keys, in ascending order of the ranges, whose ends are told.
fn scatter(pieces: &[&[Pair]], ranges: &Ranges, out: &mut [Pair], ends: &mut Vec<usize>) {
    ends.clear();
    ends.resize(ranges.count, 0);
    pieces.iter().copied().flatten().for_each(|pair| ends[ranges.of(pair.0)] += 1);
    let mut start = 0;
    for end in ends.iter_mut() {
        start += std::mem::replace(end, start);
    }
    for &pair in pieces.iter().copied().flatten() {
        let slot = &mut ends[ranges.of(pair.0)];
        out[*slot] = pair;
        *slot += 1;
    }
}

/// Sorts the pairs of one range, given in pieces, into `out`, which has room for just them.
fn sort_range(pieces: &[&[Pair]], out: &mut [Pair], ends: &mut Vec<usize>) {
    if out.is_empty() {
        return;
    }
    let (least, most) = span(pieces);
    scatter(pieces, &Ranges::over(least, most, out.len().min(MOST_GROUPS)), out, ends);
    let mut start = 0;
    for &end in ends.iter() {
        if end - start > INSERTED {
            out[start..end].sort_unstable();
        }
        start = end;
    }
    // Nearly all pairs are where they belong by now, and the others are close.
    for next in 1..out.len() {
        let pair = out[next];
        let mut place = next;
        while place > 0 && out[place - 1] > pair {
            out[place] = out[place - 1];
            place -= 1;
        }
        out[place] = pair;
    }
}

/// Pairs scattered once.
struct Scattered {
    pairs: Vec<Pair>,
    ends: Vec<usize>,
}

impl Scattered {
    fn new(pairs: &[Pair], ranges: &Ranges) -> Self {
        let mut scattered = Self { pairs: vec![(0, 0); pairs.len()], ends: Vec::new() };
        scatter(&[pairs], ranges, &mut scattered.pairs, &mut scattered.ends);
        scattered
    }

    fn range(&self, range: usize) -> &[Pair] {
        let start = if range == 0 { 0 } else { self.ends[range - 1] };
        &self.pairs[start..self.ends[range]]
    }
}

fn ranges_of(pairs: &[Pair]) -> Ranges {
    let (least, most) = if pairs.is_empty() { (0, 0) } else { span(&[pairs]) };
    Ranges::over(least, most, (pairs.len() / PAIRS_PER_RANGE).min(MOST_RANGES))
}

/// Sorts pairs by key and location: two scatters by the keys' highest bits, then small sorts. Keys that do not spread evenly
/// over their span are sorted as well, only slower.
pub fn sort_pairs(pairs: &mut [(u64, u32)]) {
    let ranges = ranges_of(pairs);
    let scattered = Scattered::new(pairs, &ranges);
    let (mut rest, mut ends) = (pairs, Vec::new());
    for range in 0..ranges.count {
        let piece = scattered.range(range);
        let (sorted, after) = rest.split_at_mut(piece.len());
        sort_range(&[piece], sorted, &mut ends);
        rest = after;
    }
}

/// Builds an index of pairs, one row each and in any order, with as many threads as are asked for.
///
/// No thread waits for another but once: each scatters its share of the pairs, then each sorts its share of the ranges, one
/// in the cache at a time, and gives it to its builder at once.
pub fn build_pairs(pairs: Vec<(u64, u32)>, num_locations: u32, options: Options, threads: usize) -> Result<Built<u64>> {
    let threads = threads.clamp(1, pairs.len().max(1));
    let ranges = ranges_of(&pairs);
    let share = pairs.len().div_ceil(threads).max(1);
    let scattered = in_parallel(pairs.chunks(share), |chunk| Scattered::new(chunk, &ranges));
    drop(pairs);
    if threads == 1 {
        let mut builder = Builder::new(num_locations, options)?;
        build_ranges(&scattered, 0..ranges.count, &mut builder)?;
        return Ok(builder.finish());
    }
    let parts = in_parallel(shares(&scattered, ranges.count, share).into_iter(), |ranges| -> Result<Part<u64>> {
        let mut builder = Builder::partition(num_locations, options)?;
        build_ranges(&scattered, ranges, &mut builder)?;
        Ok(builder.finish_part())
    });
    join(parts.into_iter().collect::<Result<Vec<_>>>()?, num_locations, options)
}

/// Ranges in neighbouring stretches of about `share` pairs.
fn shares(scattered: &[Scattered], count: usize, share: usize) -> Vec<Range<usize>> {
    let (mut stretches, mut start, mut pairs) = (Vec::new(), 0, 0);
    for range in 0..count {
        pairs += scattered.iter().map(|part| part.range(range).len()).sum::<usize>();
        if pairs >= share || range + 1 == count {
            stretches.push(start..range + 1);
            (start, pairs) = (range + 1, 0);
        }
    }
    stretches
}

/// The work of each item in a thread of its own, the last one in this one; the results in their order.
fn in_parallel<T: Send, R: Send>(items: impl ExactSizeIterator<Item = T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let (work, last) = (&work, items.len().saturating_sub(1));
    std::thread::scope(|scope| {
        let (mut workers, mut results) = (Vec::new(), Vec::new());
        let mut here = None;
        for (number, item) in items.enumerate() {
            if number == last {
                here = Some(work(item));
            } else {
                workers.push(scope.spawn(move || work(item)));
            }
        }
        for worker in workers {
            match worker.join() {
                Ok(result) => results.push(result),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        results.extend(here);
        results
    })
}

/// Gives the pairs of some ranges to a builder, sorted.
fn build_ranges(scattered: &[Scattered], ranges: Range<usize>, builder: &mut Builder<u64>) -> Result<()> {
    let (mut sorted, mut ends) = (Vec::new(), Vec::new());
    for range in ranges {
        let pieces: Vec<&[Pair]> = scattered.iter().map(|part| part.range(range)).collect();
        sorted.resize(pieces.iter().map(|piece| piece.len()).sum(), (0, 0));
        sort_range(&pieces, &mut sorted, &mut ends);
        sorted.iter().try_for_each(|&(key, location)| builder.push(key, location, 1))?;
    }
    Ok(())
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
