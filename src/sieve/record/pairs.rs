//! Sorts rows into runs of `(key, location, rows)`, stored as chunks that can be spilled and merged.
//!
//! Each chunk is self-contained: `SvP1 · key code · pairs, each: key (relative to the previous one) · location · rows ·
//! CRC-32C`.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::int::to_u64;
use crate::sieve::code::format::{RUN, begin, cursor, end, malformed, take_u32, unframe};
use crate::sieve::key::arrow::{ArrowKey, Axis, ColumnCounts};
use crate::sieve::key::axis::{Bytes, MAX_KEY_BYTES};
use crate::varint::put_varint;
use arrow_array::ArrayRef;

/// The size at which a chunk is closed: large enough to be worth a read, small enough to merge many runs.
const CHUNK_BYTES: usize = 64 * 1024;

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
}

impl<K: SortableKey> Default for RunSorter<K> {
    fn default() -> Self {
        Self { pairs: K::Buffer::default() }
    }
}

/// A buffer of `(key, location, rows)` tuples.
pub trait PairBuffer<K: ArrowKey>: Default + std::fmt::Debug + Send {
    /// Adds rows of a value.
    fn push(&mut self, value: K::Value<'_>, location: u32, rows: u64);
    /// Returns the memory in use.
    fn num_bytes(&self) -> usize;
    /// Empties the buffer and passes on all pairs in order of key and location. Rows of equal pairs are summed.
    fn drain(&mut self, take: &mut dyn FnMut(K, u32, u64));
}

impl<K: SortableKey> RunSorter<K> {
    /// Adds the rows of a column that belongs to a location.
    pub fn push(&mut self, axis: &Axis, column: &ArrayRef, location: u32) -> Result<ColumnCounts> {
        axis.visit::<K>(column, |value, rows| self.pairs.push(value, location, rows))
    }

    /// Returns the memory in use.
    pub fn num_bytes(&self) -> usize {
        self.pairs.num_bytes()
    }

    /// Returns the pairs as a sorted run in chunks, and empties the buffer.
    pub fn sort(&mut self) -> Vec<Vec<u8>> {
        let mut out = RunWriter::default();
        self.pairs.drain(&mut |key, location, rows| out.push(key, location, rows));
        out.finish()
    }
}

/// Numeric keys with location and rows.
#[derive(Debug)]
pub struct NumberPairs<K>(Vec<(K, u32, u32)>);

impl<K> Default for NumberPairs<K> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: for<'a> ArrowKey<Value<'a> = K> + Copy> PairBuffer<K> for NumberPairs<K> {
    #[inline]
    fn push(&mut self, value: K, location: u32, mut rows: u64) {
        while rows > u64::from(u32::MAX) {
            self.0.push((value, location, u32::MAX));
            rows -= u64::from(u32::MAX);
        }
        self.0.push((value, location, u32::try_from(rows).unwrap_or(u32::MAX)));
    }

    fn num_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(K, u32, u32)>()
    }

    fn drain(&mut self, take: &mut dyn FnMut(K, u32, u64)) {
        let mut pairs = std::mem::take(&mut self.0);
        pairs.sort_unstable_by_key(|pair| (pair.0, pair.1));
        for same in pairs.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            take(same[0].0, same[0].1, same.iter().map(|pair| u64::from(pair.2)).sum());
        }
    }
}

/// Byte strings, concatenated, with location and rows.
#[derive(Debug, Default)]
pub struct TextPairs {
    bytes: Vec<u8>,
    entries: Vec<Text>,
}

#[derive(Debug, Clone, Copy)]
struct Text {
    /// The first eight bytes, which decide most comparisons.
    head: u64,
    start: usize,
    len: u16,
    location: u32,
    rows: u64,
}

impl TextPairs {
    fn of(&self, entry: &Text) -> &[u8] {
        &self.bytes[entry.start..entry.start + usize::from(entry.len)]
    }
}

impl PairBuffer<Bytes> for TextPairs {
    fn push(&mut self, value: &[u8], location: u32, rows: u64) {
        let value = &value[..value.len().min(MAX_KEY_BYTES)];
        // Rows of the same value are often adjacent.
        if let Some(last) = self.entries.last_mut()
            && last.location == location
            && self.bytes[last.start..last.start + usize::from(last.len)] == *value
        {
            last.rows = last.rows.saturating_add(rows);
            return;
        }
        let mut head = [0; 8];
        head[..value.len().min(8)].copy_from_slice(&value[..value.len().min(8)]);
        let (start, len) = (self.bytes.len(), u16::try_from(value.len()).unwrap_or(u16::MAX));
        self.bytes.extend_from_slice(value);
        self.entries.push(Text { head: u64::from_be_bytes(head), start, len, location, rows });
    }

    fn num_bytes(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Text>()
    }

    fn drain(&mut self, take: &mut dyn FnMut(Bytes, u32, u64)) {
        let mut texts = std::mem::take(self);
        let mut entries = std::mem::take(&mut texts.entries);
        entries.sort_unstable_by(|a, b| {
            let order = a.head.cmp(&b.head).then_with(|| texts.of(a).cmp(texts.of(b)));
            order.then(a.location.cmp(&b.location))
        });
        let same = |a: &Text, b: &Text| a.location == b.location && a.head == b.head && texts.of(a) == texts.of(b);
        for same in entries.chunk_by(same) {
            let rows = same.iter().fold(0u64, |rows, entry| rows.saturating_add(entry.rows));
            take(Bytes::new(texts.of(&same[0])), same[0].location, rows);
        }
    }
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
