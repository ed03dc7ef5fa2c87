//! Sorts words with their locations: each chunk is scattered into ranges of keys, then each range of all chunks is
//! collected and sorted in the cache.

use std::ops::Range;

use crate::int::{index, low_u32, to_u64, to_usize};
use crate::sieve::code::offset::Offset;
use crate::sieve::record::words::Chunk;

/// The mean number of rows per range of the first scatter. A range fits in the L2 cache, in which it is scattered
/// again.
const ROWS_PER_RANGE: usize = 8 * 1024;

/// The most rows to scatter together, so that 32 bits can number their positions.
const MOST_ROWS: usize = 1 << 31;

/// The most ranges of the first scatter. Each range is written at a separate position, and there should not be more
/// positions than the TLB has entries.
const MOST_RANGES: usize = 4096;

/// The most groups of the second scatter. With about one row per group, little remains to be sorted.
const MOST_GROUPS: usize = 1 << 16;

/// Groups of more rows are sorted separately, because insertion sort is quadratic if the keys are spread unevenly.
const INSERTED: usize = 16;

/// The unit that is scattered and sorted: a key with its location, or both packed into one word.
pub(in crate::sieve) trait Row<W>: Copy + Ord + Default + Send + Sync {
    fn new(word: W, location: u32, ranges: &KeyRanges<W>) -> Self;

    /// Restores the key and location of a row in a range.
    fn pair(self, range: usize, ranges: &KeyRanges<W>) -> (W, u32);

    /// Returns a number that ascends with the rows of a range.
    fn ordinal(self, ranges: &KeyRanges<W>) -> u64;

    /// Returns the memory of a chunk, if rows can be stored in it.
    fn memory_of(words: Vec<W>) -> Vec<Self>;
}

impl<W: Offset + Send + Sync> Row<W> for (W, u32) {
    #[inline]
    fn new(word: W, location: u32, _: &KeyRanges<W>) -> Self {
        (word, location)
    }

    #[inline]
    fn pair(self, _: usize, _: &KeyRanges<W>) -> (W, u32) {
        self
    }

    #[inline]
    fn ordinal(self, ranges: &KeyRanges<W>) -> u64 {
        (ranges.below(self.0) >> ranges.shift.saturating_sub(u64::BITS)).low()
    }

    fn memory_of(_: Vec<W>) -> Vec<Self> {
        Vec::new()
    }
}

/// The bits of the key that its range does not determine, above the location. It moves half as much memory and needs
/// one comparison to sort.
impl<W: Offset + Send + Sync> Row<W> for W {
    #[inline]
    fn new(word: W, location: u32, ranges: &KeyRanges<W>) -> Self {
        (ranges.below(word) << ranges.location_bits) + W::of(u128::from(location))
    }

    #[inline]
    fn pair(self, range: usize, ranges: &KeyRanges<W>) -> (W, u32) {
        let location = low_u32(self.low() & ((1 << ranges.location_bits) - 1));
        (ranges.start(range) + (self >> ranges.location_bits), location)
    }

    #[inline]
    fn ordinal(self, ranges: &KeyRanges<W>) -> u64 {
        (self >> (ranges.shift + ranges.location_bits).saturating_sub(u64::BITS)).low()
    }

    fn memory_of(words: Vec<W>) -> Vec<Self> {
        words
    }
}

/// Ranges of equal width between a least and a greatest key.
#[derive(Debug, Clone, Copy)]
pub(in crate::sieve) struct KeyRanges<W> {
    least: W,
    /// Less than the width of a word, so that it is always a valid shift.
    shift: u32,
    count: usize,
    location_bits: u32,
}

impl<W: Offset + Send + Sync> KeyRanges<W> {
    /// Divides the keys into at most `count` ranges, and at least about half as many.
    fn over((least, most): (W, W), count: usize) -> Self {
        // The range number is a shift of the key. `most` falls into the upper half of the ranges.
        let shift = (W::BITS - (most - least).leading_zeros()).saturating_sub(count.max(1).ilog2());
        // If one range would cover all keys, two are as good.
        let all = Self { least, shift: shift.min(W::BITS - 1), count: 0, location_bits: 32 };
        Self { count: all.of(most) + 1, ..all }
    }

    /// Chooses the ranges for some chunks.
    fn of_chunks(chunks: &[Chunk<W>]) -> Self {
        let (mut least, mut most, mut last, mut rows) = (None, W::ZERO, 0, 0);
        for chunk in chunks {
            rows += chunk.words.len();
            let Some(&first) = chunk.words.first() else { continue };
            let (low, high) =
                chunk.words.iter().fold((first, first), |(low, high), &word| (low.min(word), high.max(word)));
            (least, most) = (Some(least.map_or(low, |least: W| least.min(low))), most.max(high));
            last = chunk.spans.iter().fold(last, |last, span| last.max(span.1));
        }
        let span = least.map_or((W::ZERO, W::ZERO), |least| (least, most));
        let count = (rows / ROWS_PER_RANGE).min(MOST_RANGES);
        let location_bits = u32::BITS - last.leading_zeros();
        // More ranges leave fewer bits of the key to store.
        let finer = [count, MOST_RANGES].map(|count| Self { location_bits, ..Self::over(span, count) });
        if finer[0].fit_words() || rows < ROWS_PER_RANGE { finer[0] } else { finer[1] }
    }

    /// Returns true if a word can hold the location and the part of a key that its range does not determine.
    fn fit_words(&self) -> bool {
        self.shift + self.location_bits <= W::BITS
    }

    #[inline]
    fn of(&self, word: W) -> usize {
        to_usize(((word - self.least) >> self.shift).low()).unwrap_or(0)
    }

    /// Returns the least key that a range can have.
    #[inline]
    fn start(&self, range: usize) -> W {
        self.least + (W::of(u128::from(to_u64(range))) << self.shift)
    }

    /// Returns the distance of a key from the start of its range.
    #[inline]
    fn below(&self, word: W) -> W {
        (word - self.least) & ((W::ONE << self.shift) - W::ONE)
    }
}

/// Turns counts into ends while rows are written: first into starts, which then advance.
fn starts(counts: &mut [u32]) {
    let mut start = 0;
    for count in counts {
        start += std::mem::replace(count, start);
    }
}

/// A chunk after the first scatter.
#[derive(Debug)]
struct Scattered<R> {
    rows: Vec<R>,
    ends: Vec<u32>,
}

impl<R: Copy + Default> Scattered<R> {
    /// Scatters a chunk into `memory`, which is then replaced by the memory of the chunk.
    fn new<W: Offset + Send + Sync>(chunk: Chunk<W>, ranges: &KeyRanges<W>, memory: &mut Vec<R>) -> Self
    where
        R: Row<W>,
    {
        let Chunk { words, spans } = chunk;
        let (mut rows, mut ends) = (std::mem::take(memory), vec![0; ranges.count]);
        rows.resize(words.len(), R::default());
        words.iter().for_each(|&word| ends[ranges.of(word)] += 1);
        starts(&mut ends);
        let mut start = 0;
        for (end, location) in spans {
            let end = index(end);
            for &word in &words[start..end] {
                let slot = &mut ends[ranges.of(word)];
                rows[index(*slot)] = R::new(word, location, ranges);
                *slot += 1;
            }
            start = end;
        }
        *memory = R::memory_of(words);
        Self { rows, ends }
    }

    #[inline]
    fn range(&self, range: usize) -> &[R] {
        let start = if range == 0 { 0 } else { self.ends[range - 1] };
        &self.rows[index(start)..index(self.ends[range])]
    }
}

/// Rows that are sorted range by range.
#[derive(Debug)]
pub(in crate::sieve) enum Ranged<W> {
    /// The usual case.
    Words(KeyRanges<W>, ScatteredWords<W>),
    /// Key and location do not fit in a word.
    Pairs(KeyRanges<W>, ScatteredPairs<W>),
}

/// Chunks of words after the first scatter.
#[derive(Debug)]
pub(in crate::sieve) struct ScatteredWords<W>(Vec<Scattered<W>>);

/// Chunks of pairs after the first scatter.
#[derive(Debug)]
pub(in crate::sieve) struct ScatteredPairs<W>(Vec<Scattered<(W, u32)>>);

impl<W: Offset + Send + Sync> Ranged<W> {
    /// Scatters chunks into ranges.
    pub(in crate::sieve) fn new(chunks: Vec<Chunk<W>>, threads: usize) -> Self {
        let ranges = KeyRanges::of_chunks(&chunks);
        if ranges.fit_words() {
            Self::Words(ranges, ScatteredWords(scatter(chunks, &ranges, threads)))
        } else {
            Self::Pairs(ranges, ScatteredPairs(scatter(chunks, &ranges, threads)))
        }
    }

    /// Returns the number of rows in each range.
    pub(in crate::sieve) fn lens(&self) -> Vec<usize> {
        fn lens<R: Copy + Default>(chunks: &[Scattered<R>], count: usize) -> Vec<usize> {
            let mut lens = vec![0; count];
            for chunk in chunks {
                let mut start = 0;
                for (len, &end) in lens.iter_mut().zip(&chunk.ends) {
                    *len += index(end - start);
                    start = end;
                }
            }
            lens
        }
        match self {
            Self::Words(ranges, chunks) => lens(&chunks.0, ranges.count),
            Self::Pairs(ranges, chunks) => lens(&chunks.0, ranges.count),
        }
    }

    /// Returns the least key of the first of some ranges that is not empty.
    pub(in crate::sieve) fn least(&self, mut numbers: Range<usize>) -> Option<W> {
        fn least<W: Copy, R: Row<W>>(chunks: &[Scattered<R>], range: usize, ranges: &KeyRanges<W>) -> Option<W> {
            let row = chunks.iter().flat_map(|chunk| chunk.range(range)).min()?;
            Some(row.pair(range, ranges).0)
        }
        numbers.find_map(|range| match self {
            Self::Words(ranges, chunks) => least(&chunks.0, range, ranges),
            Self::Pairs(ranges, chunks) => least(&chunks.0, range, ranges),
        })
    }

    /// Calls `take` with the sorted rows of each of some ranges.
    pub(in crate::sieve) fn sorted<E>(
        &self,
        numbers: Range<usize>,
        take: impl FnMut(&[(W, u32)]) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Words(ranges, chunks) => Sorter::default().ranges(&chunks.0, ranges, numbers, take),
            Self::Pairs(ranges, chunks) => Sorter::default().ranges(&chunks.0, ranges, numbers, take),
        }
    }
}

/// Scatters chunks with several threads. Each chunk is scattered into the memory of the chunk before it.
fn scatter<W: Offset + Send + Sync, R: Row<W>>(
    mut chunks: Vec<Chunk<W>>,
    ranges: &KeyRanges<W>,
    threads: usize,
) -> Vec<Scattered<R>> {
    let share = chunks.len().div_ceil(threads.max(1)).max(1);
    let scatter_all = |chunks: Vec<Chunk<W>>| {
        let mut memory = Vec::new();
        chunks.into_iter().map(|chunk| Scattered::new(chunk, ranges, &mut memory)).collect::<Vec<_>>()
    };
    let mut shares = Vec::new();
    while chunks.len() > share {
        shares.push(chunks.split_off(chunks.len() - share));
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = shares.into_iter().map(|share| scope.spawn(move || scatter_all(share))).collect();
        let mut scattered = scatter_all(chunks);
        for worker in workers {
            match worker.join() {
                Ok(more) => scattered.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        scattered
    })
}

/// Memory that is reused for every range.
#[derive(Debug, Default)]
struct Sorter<R> {
    rows: Vec<R>,
    ends: Vec<u32>,
}

impl<R: Copy + Default> Sorter<R> {
    fn ranges<W: Offset + Send + Sync, E>(
        &mut self,
        scattered: &[Scattered<R>],
        ranges: &KeyRanges<W>,
        numbers: Range<usize>,
        mut take: impl FnMut(&[(W, u32)]) -> Result<(), E>,
    ) -> Result<(), E>
    where
        R: Row<W>,
    {
        let (mut chunks, mut pairs): (Vec<&[R]>, Vec<(W, u32)>) = (Vec::new(), Vec::new());
        for range in numbers {
            chunks.clear();
            chunks.extend(scattered.iter().map(|part| part.range(range)).filter(|rows| !rows.is_empty()));
            self.sort(&chunks, ranges);
            pairs.clear();
            pairs.extend(self.rows.iter().map(|row| row.pair(range, ranges)));
            take(&pairs)?;
        }
        Ok(())
    }

    /// Sorts the rows of one range from several chunks.
    fn sort<W: Offset + Send + Sync>(&mut self, chunks: &[&[R]], ranges: &KeyRanges<W>)
    where
        R: Row<W>,
    {
        let Self { rows: out, ends } = self;
        out.resize(chunks.iter().map(|chunk| chunk.len()).sum(), R::default());
        if out.is_empty() {
            return;
        }
        let rows = || chunks.iter().copied().flatten().copied();
        if out.len() > MOST_ROWS {
            out.iter_mut().zip(rows()).for_each(|(slot, row)| *slot = row);
            return out.sort_unstable();
        }
        let (mut least, mut most) = (u64::MAX, 0);
        rows().for_each(|row| {
            let ordinal = row.ordinal(ranges);
            (least, most) = (least.min(ordinal), most.max(ordinal));
        });
        let groups = KeyRanges::over((least, most), out.len().min(MOST_GROUPS));
        ends.clear();
        ends.resize(groups.count, 0);
        rows().for_each(|row| ends[groups.of(row.ordinal(ranges))] += 1);
        starts(ends);
        rows().for_each(|row| {
            let slot = &mut ends[groups.of(row.ordinal(ranges))];
            out[index(*slot)] = row;
            *slot += 1;
        });
        finish(out, ends);
    }
}

/// Sorts rows whose groups, which have these ends, are in order.
fn finish<R: Copy + Ord>(out: &mut [R], ends: &[u32]) {
    let mut start = 0;
    for &end in ends {
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
