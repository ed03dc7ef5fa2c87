//! Byte strings that wait to be sorted: packed into words if possible, otherwise concatenated.

use crate::sieve::key::axis::{Bytes, MAX_KEY_BYTES};
use crate::sieve::record::packing::Packing;
use crate::sieve::record::pairs::PairBuffer;
use crate::sieve::record::sorted::SortedRows;
use crate::sieve::record::words::Words;
use std::sync::{Arc, OnceLock};

/// The number of texts that show how to pack a column.
const SAMPLE: usize = 8192;

/// Texts are not sorted as words if more than one in this many cannot be packed.
const MOST_UNPACKED: usize = 8;

/// Byte strings with location and rows.
#[derive(Debug, Default)]
pub struct TextPairs {
    /// The packing that all siblings use: unknown before the first sample, and `None` if there is none.
    packing: Arc<OnceLock<Option<Packing>>>,
    packed: Words<u128>,
    /// The texts of the sample, and later the texts that cannot be packed.
    rest: Texts,
}

impl TextPairs {
    /// Chooses the packing, unless a sibling has done so, and packs the texts so far.
    fn decide(&mut self) {
        let Self { packing, packed, rest } = self;
        if let Some(packing) = packing.get_or_init(|| Packing::of(rest.entries.iter().map(|entry| rest.of(entry)))) {
            let Texts { bytes, entries } = std::mem::take(rest);
            for entry in entries {
                let text = &bytes[entry.range()];
                match packing.pack(text) {
                    Some(word) => packed.push(word, entry.location, entry.rows),
                    None => rest.push(text, entry.location, entry.rows),
                }
            }
        }
    }
}

impl PairBuffer<Bytes> for TextPairs {
    #[inline]
    fn push(&mut self, value: &[u8], location: u32, rows: u64) {
        let value = &value[..value.len().min(MAX_KEY_BYTES)];
        match self.packing.get() {
            Some(Some(packing)) => match packing.pack(value) {
                Some(word) => self.packed.push(word, location, rows),
                None => self.rest.push(value, location, rows),
            },
            Some(None) => self.rest.push(value, location, rows),
            None => {
                self.rest.push(value, location, rows);
                if self.rest.entries.len() >= SAMPLE {
                    self.decide();
                }
            }
        }
    }

    fn num_bytes(&self) -> usize {
        self.packed.num_bytes() + self.rest.num_bytes()
    }

    fn drain(&mut self, take: &mut dyn FnMut(Bytes, u32, u64)) {
        let (chunks, counted) = std::mem::take(&mut self.packed).into_parts();
        let mut rest = std::mem::take(&mut self.rest);
        let unpack = unpacker(&self.packing);
        for (word, location, rows) in counted {
            rest.push(unpack(word).as_slice(), location, rows);
        }
        rest.sort();
        SortedRows::new(chunks, unpack, Vec::new(), 1).drain_with(rest.iter(), take);
    }

    fn sibling(&self) -> Self {
        Self { packing: self.packing.clone(), ..Self::default() }
    }

    fn sort(mut buffers: Vec<Self>, threads: usize) -> Result<SortedRows<Bytes>, Vec<Self>> {
        let most_rest = |buffer: &Self| buffer.rest.entries.len();
        if let Some(most) = (0..buffers.len()).max_by_key(|&at| most_rest(&buffers[at])) {
            buffers[most].decide();
        }
        let packing = buffers.first().map(|buffer| buffer.packing.clone()).unwrap_or_default();
        if buffers.iter().any(|buffer| !Arc::ptr_eq(&buffer.packing, &packing)) {
            return Err(buffers);
        }
        buffers.iter_mut().for_each(Self::decide);
        let num_rows: usize = buffers.iter().map(|buffer| buffer.packed.len()).sum();
        let num_rest: usize = buffers.iter().map(most_rest).sum();
        if num_rest > SAMPLE + num_rows / MOST_UNPACKED {
            return Err(buffers);
        }
        let (unpack, mut chunks, mut counted) = (unpacker(&packing), Vec::new(), Vec::with_capacity(num_rest));
        for Self { packed, rest, .. } in buffers {
            let parts = packed.into_parts();
            chunks.extend(parts.0);
            counted.extend(parts.1.into_iter().map(|(word, location, rows)| (unpack(word), location, rows)));
            counted.extend(rest.entries.iter().map(|entry| (Bytes::new(rest.of(entry)), entry.location, entry.rows)));
        }
        Ok(SortedRows::new(chunks, unpack, counted, threads))
    }
}

/// Returns a function that restores texts. No word exists without a packing.
fn unpacker(packing: &Arc<OnceLock<Option<Packing>>>) -> impl Fn(u128) -> Bytes + Send + Sync + 'static {
    let packing = packing.clone();
    move |word| match packing.get() {
        Some(Some(packing)) => packing.unpack(word),
        _ => Bytes::new(&[]),
    }
}

/// Concatenated byte strings with location and rows.
#[derive(Debug, Default)]
struct Texts {
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

impl Text {
    fn range(&self) -> std::ops::Range<usize> {
        self.start..self.start + usize::from(self.len)
    }
}

impl Texts {
    fn of(&self, entry: &Text) -> &[u8] {
        &self.bytes[entry.range()]
    }

    fn push(&mut self, value: &[u8], location: u32, rows: u64) {
        // Rows of the same value are often adjacent.
        if let Some(last) = self.entries.last_mut()
            && last.location == location
            && self.bytes[last.range()] == *value
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

    /// Returns the memory in use, twice, because vectors double when they grow.
    fn num_bytes(&self) -> usize {
        2 * (self.bytes.capacity() + self.entries.capacity() * size_of::<Text>())
    }

    fn sort(&mut self) {
        let Self { bytes, entries } = self;
        entries.sort_unstable_by(|a, b| {
            let order = a.head.cmp(&b.head).then_with(|| bytes[a.range()].cmp(&bytes[b.range()]));
            order.then(a.location.cmp(&b.location))
        });
    }

    /// Returns the sorted pairs. Rows of equal pairs are summed.
    fn iter(&self) -> impl Iterator<Item = (Bytes, u32, u64)> {
        let same = |a: &Text, b: &Text| a.location == b.location && a.head == b.head && self.of(a) == self.of(b);
        self.entries.chunk_by(same).map(|same| {
            let rows = same.iter().fold(0u64, |rows, entry| rows.saturating_add(entry.rows));
            (Bytes::new(self.of(&same[0])), same[0].location, rows)
        })
    }
}
