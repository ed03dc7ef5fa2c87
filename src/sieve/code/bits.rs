//! Bit streams, least significant bit first, with readers that walk forwards or backwards.

use crate::int::{low_u8, low_u32, saturating_u32, to_u64};

/// The output of an encoder. A field has at most 32 bits.
pub(in crate::sieve) trait Sink {
    fn put(&mut self, value: u64, bits: u32);

    /// Writes a prefix code whose first bit is its lowest.
    fn put_code(&mut self, code: u8, bits: u32) {
        self.put(u64::from(code), bits);
    }

    /// Writes `value < bound` as a phase-in code: the shortest whole number of bits, where small values may take one
    /// bit less.
    fn put_below(&mut self, value: u32, bound: u32) {
        debug_assert!(value < bound);
        let (short, num_short) = phase_in(bound);
        if value < num_short {
            self.put(u64::from(value), short);
        } else {
            let long = u64::from(value) + u64::from(num_short);
            self.put(long >> 1, short);
            self.put(long & 1, 1);
        }
    }
}

/// The input of a decoder. Reading past its end returns meaningless bits, which [`Source::exhausted`] reports, so decoding
/// loops need not check every read.
pub(in crate::sieve) trait Source {
    fn take(&mut self, bits: u32) -> u64;

    /// Returns true if a reader took more bits than the source holds.
    fn exhausted(&self) -> bool;

    #[inline]
    fn take_below(&mut self, bound: u32) -> u32 {
        let (short, num_short) = phase_in(bound);
        let value = low_u32(self.take(short));
        if value < num_short {
            return value;
        }
        // The last code of a corrupt stream can denote a value that is one too large.
        let long = (u64::from(value) << 1 | self.take(1)) - u64::from(num_short);
        low_u32(long).min(bound.saturating_sub(1))
    }
}

/// Returns the length in bits of the short codes below `bound`, and how many values have a short code.
#[inline]
fn phase_in(bound: u32) -> (u32, u32) {
    let short = 31 - bound.max(1).leading_zeros();
    let num_short = (2u64 << short) - u64::from(bound.max(1));
    (short, low_u32(num_short))
}

/// Returns the number of bits that can represent every number up to `largest`.
pub(in crate::sieve) fn width_of(largest: u64) -> u32 {
    64 - largest.leading_zeros()
}

/// Writes a bit stream forwards.
#[derive(Debug, Default, Clone)]
pub(in crate::sieve) struct BitWriter {
    bytes: Vec<u8>,
    word: u64,
    used: u32,
}

impl BitWriter {
    /// Creates a writer with capacity for about `bytes` bytes.
    pub(in crate::sieve) fn with_room(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    pub(in crate::sieve) fn len(&self) -> u64 {
        to_u64(self.bytes.len()) * 8 + u64::from(self.used)
    }

    /// Writes a field of up to 64 bits.
    #[inline]
    fn put_wide(&mut self, value: u64, bits: u32) {
        let low = bits.min(32);
        self.put(mask(value, low), low);
        self.put(value >> low, bits - low);
    }

    /// Returns the bytes. Zeros fill the last one.
    pub(in crate::sieve) fn finish(mut self) -> Vec<u8> {
        while self.used > 0 {
            self.bytes.push(low_u8(self.word));
            self.word >>= 8;
            self.used = self.used.saturating_sub(8);
        }
        self.bytes
    }
}

impl Sink for BitWriter {
    #[inline]
    fn put(&mut self, value: u64, bits: u32) {
        debug_assert!(bits <= 32 && value >> bits == 0);
        self.word |= value << self.used;
        self.used += bits;
        if self.used >= 32 {
            self.bytes.extend_from_slice(&low_u32(self.word).to_le_bytes());
            self.word >>= 32;
            self.used -= 32;
        }
    }
}

/// Collects fields that a reader takes from the end of a region towards its start. Each field is stored below the
/// fields written before it.
#[derive(Debug, Default, Clone)]
pub(in crate::sieve) struct BackWriter {
    word: u64,
    used: u32,
    /// The full words, highest first, with the number of bits in each.
    full: Vec<(u64, u32)>,
}

impl BackWriter {
    /// Writes a short field and the phase-in code that follows it in one step.
    #[inline]
    pub(in crate::sieve) fn put_after(&mut self, (field, field_bits): (u8, u32), value: u32, bound: u32) {
        debug_assert!(value < bound);
        // The two fields of a long code are adjacent, so they can be written as one.
        let (short, num_short) = phase_in(bound);
        let is_long = value >= num_short;
        let code = u64::from(value) + if is_long { u64::from(num_short) } else { 0 };
        let bits = short + u32::from(is_long);
        self.put(u64::from(field) << bits | code, field_bits + bits);
    }

    /// Moves the fields into `out`, last one first.
    #[inline]
    pub(in crate::sieve) fn drain_into(&mut self, out: &mut BitWriter) {
        out.put_wide(std::mem::take(&mut self.word), std::mem::take(&mut self.used));
        while let Some((word, bits)) = self.full.pop() {
            out.put_wide(word, bits);
        }
    }
}

impl Sink for BackWriter {
    #[inline]
    fn put(&mut self, value: u64, bits: u32) {
        debug_assert!(bits <= 48 && value >> bits == 0);
        if self.used + bits > u64::BITS {
            self.full.push((self.word, self.used));
            (self.word, self.used) = (0, 0);
        }
        self.word = self.word << bits | value;
        self.used += bits;
    }

    #[inline]
    fn put_below(&mut self, value: u32, bound: u32) {
        self.put_after((0, 0), value, bound);
    }

    /// Reverses a prefix code, because the reader sees its highest bit first.
    #[inline]
    fn put_code(&mut self, code: u8, bits: u32) {
        self.put(u64::from(code.reverse_bits() >> (8 - bits)), bits);
    }
}

/// Returns at least 56 bits of `bytes`, starting at bit `position`. Bits past the end are zero.
#[inline]
pub(in crate::sieve) fn peek(bytes: &[u8], position: usize) -> u64 {
    let start = position >> 3;
    let word = match bytes.get(start..).and_then(|rest| rest.first_chunk::<8>()) {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => {
            let mut chunk = [0; 8];
            let rest = bytes.get(start..).unwrap_or_default();
            chunk[..rest.len()].copy_from_slice(rest);
            u64::from_le_bytes(chunk)
        }
    };
    word >> (position & 7)
}

#[inline]
fn mask(word: u64, bits: u32) -> u64 {
    word & ((1u64 << bits) - 1)
}

/// Reads forwards from one bit position to another.
#[derive(Debug, Clone)]
pub(in crate::sieve) struct BitReader<'a> {
    bytes: &'a [u8],
    position: usize,
    end: usize,
}

impl<'a> BitReader<'a> {
    pub(in crate::sieve) fn new(bytes: &'a [u8], position: usize, end: usize) -> Self {
        Self { bytes, position, end: end.min(bytes.len().saturating_mul(8)) }
    }

    /// Returns the next bits without consuming them.
    #[inline]
    pub(in crate::sieve) fn peek(&self) -> u64 {
        peek(self.bytes, self.position)
    }

    #[inline]
    pub(in crate::sieve) fn skip(&mut self, bits: u32) {
        self.position += crate::int::index(bits);
    }
}

impl Source for BitReader<'_> {
    #[inline]
    fn take(&mut self, bits: u32) -> u64 {
        let value = mask(self.peek(), bits);
        self.skip(bits);
        value
    }

    #[inline]
    fn exhausted(&self) -> bool {
        self.position > self.end
    }
}

/// Reads backwards from the end of a region.
#[derive(Debug, Clone)]
pub(in crate::sieve) struct BackReader<'a> {
    bytes: &'a [u8],
    start: usize,
    position: usize,
    exhausted: bool,
}

impl<'a> BackReader<'a> {
    pub(in crate::sieve) fn new(bytes: &'a [u8], start: usize, end: usize) -> Self {
        Self { bytes, start, position: end, exhausted: end > bytes.len().saturating_mul(8) }
    }

    /// The bit position below which the next field ends.
    #[inline]
    pub(in crate::sieve) fn position(&self) -> usize {
        self.position
    }

    /// Returns the next bits without consuming them, in the order of a prefix code: the first bit is the lowest.
    #[inline]
    pub(in crate::sieve) fn peek_reversed(&self, bits: u32) -> u64 {
        let have = crate::int::index(bits).min(self.position);
        let word = mask(peek(self.bytes, self.position - have), saturating_u32(have));
        word.reverse_bits() >> (64 - have.max(1))
    }
}

impl Source for BackReader<'_> {
    #[inline]
    fn take(&mut self, bits: u32) -> u64 {
        let count = crate::int::index(bits);
        if self.position < self.start + count {
            self.exhausted = true;
            self.position = self.start;
            return 0;
        }
        self.position -= count;
        mask(peek(self.bytes, self.position), bits)
    }

    #[inline]
    fn exhausted(&self) -> bool {
        self.exhausted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_read_back_in_both_directions(fields in proptest::collection::vec((0u32..=u32::MAX, 0u32..=32), 0..60)) {
            let fields: Vec<(u64, u32)> = fields.iter().map(|&(v, b)| (mask(u64::from(v), b), b)).collect();
            let (mut forward, mut back) = (BitWriter::default(), BackWriter::default());
            fields.iter().for_each(|&(value, bits)| { forward.put(value, bits); back.put(value, bits) });
            let end = usize::try_from(forward.len()).unwrap();
            back.drain_into(&mut forward);
            let total = usize::try_from(forward.len()).unwrap();
            let bytes = forward.finish();
            let mut reader = BitReader::new(&bytes, 0, end);
            let mut reversed = BackReader::new(&bytes, end, total);
            for &(value, bits) in &fields {
                prop_assert_eq!(reader.take(bits), value);
                prop_assert_eq!(reversed.take(bits), value);
            }
            prop_assert!(!reader.exhausted() && !reversed.exhausted());
            prop_assert_eq!((reversed.take(1), reversed.exhausted()), (0, true));
        }

        #[test]
        fn phase_in_codes_are_complete(bound in 1u32..3000, extra in 0u32..u32::MAX) {
            for value in [0, bound / 2, bound - 1, extra % bound] {
                let mut writer = BitWriter::default();
                writer.put_below(value, bound);
                prop_assert!(writer.len() <= u64::from(width_of(u64::from(bound - 1))));
                let bytes = writer.finish();
                prop_assert_eq!(BitReader::new(&bytes, 0, 64).take_below(bound), value);
            }
        }
    }
}
