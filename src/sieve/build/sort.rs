//! Builds segments from unsorted `(key, location)` pairs: scatters them into ranges of keys, sorts each range, and runs
//! one builder per thread.
//!
//! The bytes do not depend on the number of threads, because partitions join to the result of a single builder.

use std::ops::Range;

use crate::error::Result;
use crate::int::{index, low_u32, to_u64, to_usize};
use crate::sieve::build::builder::{Builder, BuiltPartition, join};
use crate::sieve::index::directory::Built;
use crate::sieve::record::options::Options;

/// The key and location of a row.
type Pair = (u64, u32);

/// The mean number of rows per range of the first scatter. A range fits in the L2 cache, in which it is scattered
/// again.
const ROWS_PER_RANGE: usize = 8 * 1024;

/// The most rows to scatter together, so that 32 bits can number their positions.
const MOST_ROWS: usize = 1 << 31;

/// The most ranges of the first scatter. Each range is written at a position of its own, and there should not be more
/// positions than the TLB has entries.
const MOST_RANGES: usize = 4096;

/// The most groups of the second scatter. With about one pair per group, little remains to be sorted.
const MOST_GROUPS: usize = 1 << 16;

/// Groups of more pairs are sorted separately, because insertion sort is quadratic if the keys are spread unevenly.
const INSERTED: usize = 16;

/// The unit that is scattered and sorted: a pair, or a pair packed into one word.
trait Row: Copy + Ord + Default + Send + Sync {
    fn from_pair(pair: Pair, ranges: &KeyRanges) -> Self;

    /// Restores the pair of a row in a range.
    fn pair(self, range: usize, ranges: &KeyRanges) -> Pair;

    /// Returns a number that ascends with the rows of a range.
    fn ordinal(self) -> u64;
}

impl Row for Pair {
    #[inline]
    fn from_pair(pair: Pair, _: &KeyRanges) -> Self {
        pair
    }

    #[inline]
    fn pair(self, _: usize, _: &KeyRanges) -> Pair {
        self
    }

    #[inline]
    fn ordinal(self) -> u64 {
        self.0
    }
}

/// A packed pair: the bits of the key that its range does not determine, above the location. It moves half as much
/// memory and needs one comparison to sort.
impl Row for u64 {
    #[inline]
    fn from_pair((key, location): Pair, ranges: &KeyRanges) -> Self {
        // The bits shifted out are the number of the range.
        let above = 63 - ranges.shift;
        let below = ((key - ranges.least) << above << 1) >> above >> 1;
        below << ranges.location_bits | Self::from(location)
    }

    #[inline]
    fn pair(self, range: usize, ranges: &KeyRanges) -> Pair {
        let location = low_u32(self & ((1 << ranges.location_bits) - 1));
        (ranges.least + (to_u64(range) << ranges.shift) + (self >> ranges.location_bits), location)
    }

    #[inline]
    fn ordinal(self) -> u64 {
        self
    }
}

/// KeyRanges of equal width between a least and a greatest key.
#[derive(Debug, Clone, Copy)]
struct KeyRanges {
    least: u64,
    /// At most 63, so that it is always a valid shift.
    shift: u32,
    count: usize,
    location_bits: u32,
}

impl KeyRanges {
    /// Divides the keys into at most `count` ranges, and at least about half as many.
    fn over((least, most): (u64, u64), count: usize) -> Self {
        // The range number is a shift of the key. `most` falls into the upper half of the ranges.
        let shift = (64 - (most - least).leading_zeros()).saturating_sub(count.max(1).ilog2());
        // If one range would cover all 64 bits, two are as good.
        let all = Self { least, shift: shift.min(63), count: 0, location_bits: 32 };
        Self { count: all.of(most) + 1, ..all }
    }

    /// Chooses the ranges for some pairs.
    fn of_pairs(pairs: &[Pair]) -> Self {
        let (mut least, mut most, mut last) = (u64::MAX, 0, 0);
        for &(key, location) in pairs {
            (least, most, last) = (least.min(key), most.max(key), last.max(location));
        }
        let span = if pairs.is_empty() { (0, 0) } else { (least, most) };
        let count = (pairs.len() / ROWS_PER_RANGE).min(MOST_RANGES);
        let location_bits = 32 - last.leading_zeros();
        // More ranges leave fewer bits of the key to store.
        let finer = [count, MOST_RANGES].map(|count| Self { location_bits, ..Self::over(span, count) });
        if finer[0].fit_words() || pairs.len() < ROWS_PER_RANGE { finer[0] } else { finer[1] }
    }

    /// Returns true if a word can hold the part of a pair that its range does not determine.
    fn fit_words(&self) -> bool {
        self.shift + self.location_bits <= u64::BITS
    }

    #[inline]
    fn of(&self, key: u64) -> usize {
        to_usize((key - self.least) >> self.shift).unwrap_or(0)
    }
}

/// Scatters items from several chunks into ranges, in ascending order of the ranges, and returns the ends of the
/// ranges.
fn scatter<T: Copy, R>(
    chunks: &[&[T]],
    count: usize,
    range_of: impl Fn(T) -> usize,
    row_of: impl Fn(T) -> R,
    out: &mut [R],
    ends: &mut Vec<u32>,
) {
    ends.clear();
    ends.resize(count, 0);
    chunks.iter().copied().flatten().for_each(|&item| ends[range_of(item)] += 1);
    let mut start = 0;
    for end in ends.iter_mut() {
        start += std::mem::replace(end, start);
    }
    for chunk in chunks {
        for &item in *chunk {
            let slot = &mut ends[range_of(item)];
            out[index(*slot)] = row_of(item);
            *slot += 1;
        }
    }
}

/// Sorts the rows of one range from several chunks into `out`, which has exactly their length.
fn sort_range<R: Row>(chunks: &[&[R]], out: &mut [R], ends: &mut Vec<u32>) {
    if out.is_empty() {
        return;
    }
    if out.len() > MOST_ROWS {
        let mut rest = out.iter_mut();
        chunks.iter().copied().flatten().zip(&mut rest).for_each(|(row, slot)| *slot = *row);
        return out.sort_unstable();
    }
    let (mut least, mut most) = (u64::MAX, 0);
    for chunk in chunks {
        for row in *chunk {
            (least, most) = (least.min(row.ordinal()), most.max(row.ordinal()));
        }
    }
    let groups = KeyRanges::over((least, most), out.len().min(MOST_GROUPS));
    scatter(chunks, groups.count, |row| groups.of(row.ordinal()), |row| row, out, ends);
    let mut start = 0;
    for &end in ends.iter() {
        let end = index(end);
        if end - start > INSERTED {
            out[start..end].sort_unstable();
        }
        start = end;
    }
    // Nearly all rows are in their final position, and the others are close to it.
    for next in 1..out.len() {
        let row = out[next];
        let mut position = next;
        while position > 0 && out[position - 1] > row {
            out[position] = out[position - 1];
            position -= 1;
        }
        out[position] = row;
    }
}

/// Rows after the first scatter.
struct Scattered<R> {
    rows: Vec<R>,
    ends: Vec<u32>,
}

impl<R: Row> Scattered<R> {
    /// Scatters fewer than 2^32 pairs.
    fn new(pairs: &[Pair], ranges: &KeyRanges) -> Self {
        let mut scattered = Self { rows: vec![R::default(); pairs.len()], ends: Vec::new() };
        let Self { rows, ends } = &mut scattered;
        scatter(&[pairs], ranges.count, |pair| ranges.of(pair.0), |pair| R::from_pair(pair, ranges), rows, ends);
        scattered
    }

    fn range(&self, range: usize) -> &[R] {
        let start = if range == 0 { 0 } else { self.ends[range - 1] };
        &self.rows[index(start)..index(self.ends[range])]
    }
}

/// Sorts pairs by key and location: two scatters by the keys' highest bits, then small sorts. Unevenly distributed keys
/// are sorted correctly, but more slowly.
pub fn sort_pairs(pairs: &mut [(u64, u32)]) {
    let ranges = KeyRanges::of_pairs(pairs);
    if ranges.fit_words() { sort_rows::<u64>(pairs, &ranges) } else { sort_rows::<Pair>(pairs, &ranges) }
}

fn sort_rows<R: Row>(pairs: &mut [Pair], ranges: &KeyRanges) {
    let scattered: Vec<Scattered<R>> = pairs.chunks(MOST_ROWS).map(|chunk| Scattered::new(chunk, ranges)).collect();
    let (mut rest, mut sorter) = (pairs, Sorter::default());
    for range in 0..ranges.count {
        let sorted = sorter.range(&scattered, range, ranges);
        let (out, after) = rest.split_at_mut(sorted.len());
        out.copy_from_slice(sorted);
        rest = after;
    }
}

/// Memory that is reused for every range.
#[derive(Default)]
struct Sorter<R> {
    rows: Vec<R>,
    ends: Vec<u32>,
    pairs: Vec<Pair>,
}

impl<R: Row> Sorter<R> {
    /// Returns the pairs of a range in order.
    fn range(&mut self, scattered: &[Scattered<R>], range: usize, ranges: &KeyRanges) -> &[Pair] {
        let chunks: Vec<&[R]> = scattered.iter().map(|part| part.range(range)).collect();
        self.rows.resize(chunks.iter().map(|chunk| chunk.len()).sum(), R::default());
        sort_range(&chunks, &mut self.rows, &mut self.ends);
        self.pairs.clear();
        self.pairs.extend(self.rows.iter().map(|row| row.pair(range, ranges)));
        &self.pairs
    }
}

/// Builds an index of pairs in any order, one row each, with the given number of threads.
///
/// The threads synchronize only once. Each one scatters its share of the pairs. Then each sorts its share of the
/// ranges, one cached range after the other, and feeds its builder. In addition to the pairs, this holds one word per
/// pair, or another pair if key and location do not fit in a word. The original pairs are freed before the first
/// segment is built.
pub fn build_pairs(pairs: Vec<(u64, u32)>, num_locations: u32, options: Options, threads: usize) -> Result<Built<u64>> {
    let ranges = KeyRanges::of_pairs(&pairs);
    if ranges.fit_words() {
        build_rows::<u64>(pairs, &ranges, (num_locations, options), threads)
    } else {
        build_rows::<Pair>(pairs, &ranges, (num_locations, options), threads)
    }
}

fn build_rows<R: Row>(
    pairs: Vec<Pair>,
    ranges: &KeyRanges,
    (num_locations, options): (u32, Options),
    threads: usize,
) -> Result<Built<u64>> {
    let threads = threads.clamp(1, pairs.len().max(1));
    let share = pairs.len().div_ceil(threads).max(1);
    let scattered = in_parallel(pairs.chunks(share.min(MOST_ROWS)), |chunk| Scattered::<R>::new(chunk, ranges));
    drop(pairs);
    if threads == 1 {
        let mut builder = Builder::new(num_locations, options)?;
        build_ranges(&scattered, 0..ranges.count, ranges, &mut builder)?;
        return Ok(builder.finish());
    }
    let parts =
        in_parallel(shares(&scattered, ranges.count, share).into_iter(), |numbers| -> Result<BuiltPartition<u64>> {
            let mut builder = Builder::partition(num_locations, options)?;
            build_ranges(&scattered, numbers, ranges, &mut builder)?;
            Ok(builder.finish_part())
        });
    join(parts.into_iter().collect::<Result<Vec<_>>>()?, num_locations, options)
}

/// Groups the ranges into consecutive shares of about `share` rows.
fn shares<R: Row>(scattered: &[Scattered<R>], count: usize, share: usize) -> Vec<Range<usize>> {
    let (mut shares, mut start, mut rows) = (Vec::new(), 0, 0);
    for range in 0..count {
        rows += scattered.iter().map(|part| part.range(range).len()).sum::<usize>();
        if rows >= share || range + 1 == count {
            shares.push(start..range + 1);
            (start, rows) = (range + 1, 0);
        }
    }
    shares
}

/// Runs `work` on each item in a separate thread, the last one in this thread. Returns the results in order.
fn in_parallel<T: Send, R: Send>(items: impl ExactSizeIterator<Item = T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let (work, last) = (&work, items.len().saturating_sub(1));
    std::thread::scope(|scope| {
        let (mut workers, mut results) = (Vec::new(), Vec::new());
        let mut last_result = None;
        for (number, item) in items.enumerate() {
            if number == last {
                last_result = Some(work(item));
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
        results.extend(last_result);
        results
    })
}

/// Sorts the pairs of some ranges and passes them to a builder.
fn build_ranges<R: Row>(
    scattered: &[Scattered<R>],
    numbers: Range<usize>,
    ranges: &KeyRanges,
    builder: &mut Builder<u64>,
) -> Result<()> {
    let mut sorter = Sorter::default();
    numbers.into_iter().try_for_each(|range| builder.push_rows(sorter.range(scattered, range, ranges)))
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
        fn i5_any_number_of_threads_builds_the_same_bytes(pairs in proptest::collection::vec((prop_oneof![0u64..50, any::<u64>()], 0u32..5), 0..500), threads in 2usize..6) {
            let options = Options { max_weight: 20, max_records: 30, ..Options::default() };
            let single_thread = build_pairs(pairs.clone(), 5, options, 1).unwrap();
            prop_assert_eq!(build_pairs(pairs, 5, options, threads).unwrap(), single_thread);
        }
    }
}
