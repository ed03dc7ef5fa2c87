//! Rows that wait to be sorted: their keys as words, in chunks, and runs of rows in the same location.

use crate::int::saturating_u32;
use crate::sieve::code::offset::Offset;

/// The rows of a full chunk. A chunk of wide words fits in the L2 cache, in which it is scattered.
const CHUNK_ROWS: usize = 1 << 16;

/// Keys that repeat this often in neighboring rows are stored once, with the number of rows.
const MANY: u64 = 16;

/// A key with its location and a number of rows.
pub(in crate::sieve) type Counted<W> = (W, u32, u64);

/// Rows of keys that are stored as words.
#[derive(Debug)]
pub(in crate::sieve) struct Words<W> {
    chunks: Vec<Chunk<W>>,
    /// The memory of these chunks.
    num_bytes: usize,
    open: Chunk<W>,
    /// The last key and location, and the number of its neighboring rows.
    last: Option<Counted<W>>,
    /// Keys with their location and a number of rows.
    counted: Vec<Counted<W>>,
}

impl<W> Default for Words<W> {
    fn default() -> Self {
        Self { chunks: Vec::new(), num_bytes: 0, open: Chunk::default(), last: None, counted: Vec::new() }
    }
}

/// The keys of at most [`CHUNK_ROWS`] rows.
#[derive(Debug)]
pub(in crate::sieve) struct Chunk<W> {
    pub(in crate::sieve) words: Vec<W>,
    /// The end of each sequence of rows in the same location, and the location.
    pub(in crate::sieve) spans: Vec<(u32, u32)>,
}

impl<W> Default for Chunk<W> {
    fn default() -> Self {
        Self { words: Vec::new(), spans: Vec::new() }
    }
}

impl<W> Chunk<W> {
    fn num_bytes(&self) -> usize {
        self.words.capacity() * size_of::<W>() + self.spans.capacity() * size_of::<(u32, u32)>()
    }
}

impl<W: Offset> Chunk<W> {
    fn push(&mut self, word: W, location: u32) {
        self.words.push(word);
        let end = saturating_u32(self.words.len());
        match self.spans.last_mut() {
            Some(span) if span.1 == location => span.0 = end,
            _ => self.spans.push((end, location)),
        }
    }
}

impl<W: Offset> Words<W> {
    /// Adds rows of a key.
    #[inline]
    pub(in crate::sieve) fn push(&mut self, word: W, location: u32, rows: u64) {
        if let Some(last) = &mut self.last
            && (last.0, last.1) == (word, location)
        {
            last.2 = last.2.saturating_add(rows);
            return;
        }
        if let Some(last) = self.last.replace((word, location, rows)) {
            self.store(last);
        }
    }

    #[inline]
    fn store(&mut self, (word, location, rows): Counted<W>) {
        if rows > MANY {
            return self.counted.push((word, location, rows));
        }
        for _ in 0..rows {
            self.open.push(word, location);
            if self.open.words.len() == CHUNK_ROWS {
                self.num_bytes += self.open.num_bytes();
                self.chunks.push(std::mem::take(&mut self.open));
                // Only a chunk after a full one is likely to become full.
                self.open.words.reserve_exact(CHUNK_ROWS);
            }
        }
    }

    /// Returns the number of rows, without the rows of counted keys.
    pub(in crate::sieve) fn len(&self) -> usize {
        self.chunks.len() * CHUNK_ROWS + self.open.words.len()
    }

    /// Returns the memory in use: zero only if there are no rows. Memory that may double when it grows counts twice.
    pub(in crate::sieve) fn num_bytes(&self) -> usize {
        let pair = size_of::<Counted<W>>();
        let last = usize::from(self.last.is_some()) * pair;
        self.num_bytes + self.open.num_bytes() + last + 2 * self.counted.capacity() * pair
    }

    /// Returns the chunks, and the keys with a number of rows.
    pub(in crate::sieve) fn into_parts(mut self) -> (Vec<Chunk<W>>, Vec<Counted<W>>) {
        if let Some(last) = self.last.take() {
            self.store(last);
        }
        if !self.open.words.is_empty() {
            self.open.words.shrink_to_fit();
            self.chunks.push(self.open);
        }
        (self.chunks, self.counted)
    }
}
