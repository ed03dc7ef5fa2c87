//! Sorts rows into runs of `(key, location, rows)`, stored as chunks that can be spilled and merged.
//!
//! Each chunk is self-contained: `SvP1 · key code · pairs, each: key (relative to the previous one) · location · rows ·
//! CRC-32C`.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::int::to_u64;
use crate::sieve::code::format::{RUN, begin, cursor, end, malformed, take_u32, unframe};
use crate::sieve::code::offset::Offset;
use crate::sieve::key::arrow::{ArrowKey, Axis, ColumnCounts};
use crate::sieve::key::axis::{Bytes, Key};
use crate::sieve::record::sorted::{RowShare, SortedRows};
use crate::sieve::record::texts::TextPairs;
use crate::sieve::record::words::Words;
use crate::varint::put_varint;
use arrow_array::ArrayRef;
use std::collections::VecDeque;

/// The size at which a chunk is closed: large enough to be worth a read, small enough to merge many runs.
const CHUNK_BYTES: usize = 64 * 1024;

/// The rows that a call adds to a sorted run.
const ROWS_PER_CALL: usize = 1 << 18;

/// A key type that has a buffer in which values wait to be sorted.
pub trait SortableKey: ArrowKey {
    /// The type of the buffer.
    type Buffer: PairBuffer<Self>;
}

impl SortableKey for u64 {
    type Buffer = NumberPairs<Self>;
}

impl SortableKey for u128 {
    type Buffer = NumberPairs<Self>;
}

impl SortableKey for Bytes {
    type Buffer = TextPairs;
}

/// Collects the rows of columns until they are sorted.
#[derive(Debug)]
pub struct RunSorter<K: SortableKey> {
    pairs: K::Buffer,
    /// The run that is being written.
    open: Option<OpenRun<K>>,
}

#[derive(Debug)]
struct OpenRun<K> {
    rows: SortedRows<K>,
    waiting: VecDeque<RowShare>,
    out: RunWriter<K>,
}

impl<K: SortableKey> Default for RunSorter<K> {
    fn default() -> Self {
        Self::of(K::Buffer::default())
    }
}

/// A buffer of `(key, location, rows)` tuples.
pub trait PairBuffer<K: ArrowKey>: Default + std::fmt::Debug + Send {
    /// Adds rows of a value.
    fn push(&mut self, value: K::Value<'_>, location: u32, rows: u64);
    /// Returns the memory in use: zero only if there are no rows. Memory that may double when it grows counts twice.
    fn num_bytes(&self) -> usize;
    /// Empties the buffer and passes on all pairs in order of key and location. Rows of equal pairs are summed.
    fn drain(&mut self, take: &mut dyn FnMut(K, u32, u64));
    /// Returns an empty buffer whose rows can be sorted together with the rows of this one.
    fn sibling(&self) -> Self;
    /// Sorts the rows of several buffers together, in their own memory. Returns the buffers if their rows can only be
    /// sorted as runs.
    fn sort(buffers: Vec<Self>, threads: usize) -> std::result::Result<SortedRows<K>, Vec<Self>>;
}

impl<K: SortableKey> RunSorter<K> {
    fn of(pairs: K::Buffer) -> Self {
        Self { pairs, open: None }
    }

    /// Adds the rows of a column that belongs to a location.
    pub fn push(&mut self, axis: &Axis, column: &ArrayRef, location: u32) -> Result<ColumnCounts> {
        axis.visit::<K>(column, |value, rows| self.pairs.push(value, location, rows))
    }

    /// Returns the memory in use. Memory that may double when it grows counts twice.
    pub fn num_bytes(&self) -> usize {
        self.pairs.num_bytes()
    }

    /// Returns an empty sorter whose rows can be sorted together with the rows of this one.
    pub fn sibling(&self) -> Self {
        Self::of(self.pairs.sibling())
    }

    /// Returns the pairs as a sorted run in chunks, and empties the buffer.
    pub fn sort(&mut self) -> Vec<Vec<u8>> {
        let mut out = RunWriter::default();
        self.pairs.drain(&mut |key, location, rows| out.push(key, location, rows));
        out.finish()
    }

    /// Empties the buffer in several calls. Each returns the next chunks of the sorted run, or `None` at its end. Rows
    /// added meanwhile are part of the next run.
    pub fn sort_next(&mut self) -> Option<Vec<Vec<u8>>> {
        if self.open.is_none() {
            if self.pairs.num_bytes() == 0 {
                return None;
            }
            let empty = self.pairs.sibling();
            let rows = match K::Buffer::sort(vec![std::mem::replace(&mut self.pairs, empty)], 1) {
                Ok(rows) => rows,
                Err(mut buffers) => {
                    let mut out = RunWriter::default();
                    buffers.iter_mut().for_each(|pairs| {
                        pairs.drain(&mut |key, location, rows| out.push(key, location, rows));
                    });
                    return Some(out.finish());
                }
            };
            let waiting = rows.shares(ROWS_PER_CALL).into();
            self.open = Some(OpenRun { rows, waiting, out: RunWriter::default() });
        }
        let OpenRun { rows, waiting, out } = self.open.as_mut()?;
        if let Some(share) = waiting.pop_front() {
            rows.drain_share(share, &mut |key, location, rows| out.push(key, location, rows));
            return Some(out.take());
        }
        self.open.take().map(|run| run.out.finish()).filter(|chunks| !chunks.is_empty())
    }

    /// Sorts the rows of several sorters together. Returns the sorters if their rows can only be sorted as runs.
    pub fn sort_all(sorters: Vec<Self>, threads: usize) -> std::result::Result<SortedRows<K>, Vec<Self>> {
        let buffers = sorters.into_iter().map(|sorter| sorter.pairs).collect();
        K::Buffer::sort(buffers, threads).map_err(|buffers| buffers.into_iter().map(Self::of).collect())
    }
}

/// Numeric keys with location and rows.
#[derive(Debug)]
pub struct NumberPairs<K>(Words<K>);

impl<K> Default for NumberPairs<K> {
    fn default() -> Self {
        Self(Words::default())
    }
}

impl<K: for<'a> ArrowKey<Value<'a> = K> + Offset + 'static> PairBuffer<K> for NumberPairs<K> {
    #[inline]
    fn push(&mut self, value: K, location: u32, rows: u64) {
        self.0.push(value, location, rows);
    }

    fn num_bytes(&self) -> usize {
        self.0.num_bytes()
    }

    fn drain(&mut self, take: &mut dyn FnMut(K, u32, u64)) {
        let (chunks, counted) = std::mem::take(&mut self.0).into_parts();
        SortedRows::new(chunks, |word| word, counted, 1).drain(take);
    }

    fn sibling(&self) -> Self {
        Self::default()
    }

    fn sort(buffers: Vec<Self>, threads: usize) -> std::result::Result<SortedRows<K>, Vec<Self>> {
        Ok(sorted_numbers(buffers, threads))
    }
}

/// Sorts the rows of several buffers together.
pub(in crate::sieve) fn sorted_numbers<K: Key + Offset + 'static>(
    buffers: Vec<NumberPairs<K>>,
    threads: usize,
) -> SortedRows<K> {
    let (mut chunks, mut counted) = (Vec::new(), Vec::new());
    for buffer in buffers {
        let parts = buffer.0.into_parts();
        chunks.extend(parts.0);
        counted.extend(parts.1);
    }
    SortedRows::new(chunks, |word| word, counted, threads)
}

/// Writes a sorted run as chunks.
#[derive(Debug)]
pub struct RunWriter<K> {
    done: Vec<Vec<u8>>,
    open: Option<(Vec<u8>, K)>,
}

impl<K> Default for RunWriter<K> {
    fn default() -> Self {
        Self { done: Vec::new(), open: None }
    }
}

impl<K: ArrowKey> RunWriter<K> {
    /// Adds a pair. Pairs must ascend.
    pub fn push(&mut self, key: K, location: u32, rows: u64) {
        let (mut body, previous) = match self.open.take() {
            Some((body, previous)) => (body, Some(previous)),
            None => {
                let mut body = begin(RUN, CHUNK_BYTES + CHUNK_BYTES / 8);
                body.push(K::CODE);
                (body, None)
            }
        };
        key.write_after(previous.as_ref(), &mut body);
        put_varint(&mut body, u64::from(location));
        put_varint(&mut body, rows);
        if body.len() >= CHUNK_BYTES {
            body.shrink_to_fit();
            self.done.push(end(body));
        } else {
            self.open = Some((body, key));
        }
    }

    /// Returns the chunks completed since the last call.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.done)
    }

    /// Returns the remaining chunks.
    pub fn finish(mut self) -> Vec<Vec<u8>> {
        if let Some((mut body, _)) = self.open.take() {
            body.shrink_to_fit();
            self.done.push(end(body));
        }
        self.done
    }
}

/// Reads the pairs of a chunk.
#[derive(Debug)]
pub struct RunChunk<K> {
    bytes: Vec<u8>,
    at: usize,
    previous: Option<K>,
}

impl<K: ArrowKey> RunChunk<K> {
    /// Opens a chunk and verifies its checksum.
    pub fn new(bytes: Vec<u8>) -> Result<Self> {
        let body = unframe(RUN, &bytes)?;
        if body.first() != Some(&K::CODE) {
            return Err(malformed(&cursor(body), "key width"));
        }
        Ok(Self { bytes, at: 5, previous: None })
    }

    /// Counts the remaining pairs and returns up to `count` of their keys, evenly spaced and starting with the first.
    pub fn sample(mut self, count: usize) -> Result<(usize, Vec<K>)> {
        let mut keys = Vec::new();
        while let Some((key, _, _)) = self.next_pair()? {
            keys.push(key);
        }
        let (len, count) = (keys.len(), count.min(keys.len()));
        Ok((len, (0..count).map(|at| keys[at * len / count].clone()).collect()))
    }

    /// Returns the next pair, or `None` at the end.
    pub fn next_pair(&mut self) -> Result<Option<(K, u32, u64)>> {
        let end = self.bytes.len() - 4;
        if self.at >= end {
            return Ok(None);
        }
        let mut cursor = Cursor::new(&self.bytes[self.at..end], to_u64(self.at));
        let key = K::read_after(self.previous.as_ref(), &mut cursor)?;
        let (location, rows) = (take_u32(&mut cursor)?, cursor.varint()?);
        self.at += cursor.position();
        self.previous = Some(key.clone());
        Ok(Some((key, location, rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Reads all pairs of a run.
    fn read<K: ArrowKey>(chunks: Vec<Vec<u8>>) -> Vec<(K, u32, u64)> {
        let mut pairs = Vec::new();
        for chunk in chunks {
            let mut chunk = RunChunk::<K>::new(chunk).unwrap();
            while let Some(pair) = chunk.next_pair().unwrap() {
                pairs.push(pair);
            }
        }
        pairs
    }

    fn check<K: SortableKey>(rows: &[(K::Value<'_>, u32, u64)]) {
        let [mut sorter, mut other] = [RunSorter::<K>::default(), RunSorter::<K>::default()];
        let mut expected = Vec::new();
        for &(value, location, count) in rows {
            sorter.pairs.push(value, location, count);
            other.pairs.push(value, location, count);
        }
        rows.iter().for_each(|&(value, location, count)| expected.push((K::owned(value), location, count)));
        let mut chunks = Vec::new();
        while let Some(more) = sorter.sort_next() {
            chunks.extend(more);
        }
        expected.sort();
        expected.dedup_by(|next, sum| {
            let same = (&next.0, next.1) == (&sum.0, sum.1);
            sum.2 += if same { next.2 } else { 0 };
            same
        });
        assert_eq!(read::<K>(chunks), expected);
        assert_eq!(read::<K>(other.sort()), expected);
        assert_eq!((sorter.num_bytes(), other.num_bytes()), (0, 0));
        assert!(sorter.sort_next().is_none());
    }

    proptest! {
        #[test]
        fn a_run_in_several_calls_holds_all_rows(
            rows in proptest::collection::vec((prop_oneof![0u64..9, any::<u64>()], 0u32..3, prop_oneof![Just(1u64), 1u64..50]), 0..30),
        ) {
            check::<u64>(&rows);
            let texts: Vec<String> = rows.iter().map(|row| row.0.to_string()).collect();
            let texts: Vec<(&[u8], u32, u64)> =
                rows.iter().zip(&texts).map(|(row, text)| (text.as_bytes(), row.1, row.2)).collect();
            check::<Bytes>(&texts);
            let long: Vec<String> = rows.iter().map(|row| format!("{} does not fit into 128 bits", row.0)).collect();
            let long: Vec<(&[u8], u32, u64)> =
                rows.iter().zip(&long).map(|(row, text)| (text.as_bytes(), row.1, row.2)).collect();
            check::<Bytes>(&long);
        }
    }

    #[test]
    fn only_siblings_sort_texts_together() {
        let buffer = |mut buffer: TextPairs, text: &str| {
            buffer.push(text.as_bytes(), 1, 2);
            buffer
        };
        let first = TextPairs::default();
        let sibling = first.sibling();
        let mut pairs = Vec::new();
        let sorted = TextPairs::sort(vec![buffer(first, "b"), buffer(sibling, "a")], 1).unwrap();
        sorted.drain(&mut |key, location, rows| pairs.push((key, location, rows)));
        assert_eq!(pairs, [(Bytes::new(b"a"), 1, 2), (Bytes::new(b"b"), 1, 2)]);
        let strangers = [TextPairs::default(), TextPairs::default()].map(|pairs| buffer(pairs, "a"));
        assert_eq!(TextPairs::sort(strangers.into(), 1).unwrap_err().len(), 2);
    }
}
