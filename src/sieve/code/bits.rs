//! Bit streams, least significant bit first: one writer, and readers that walk forwards or backwards.

use crate::int::{low_u8, low_u32, saturating_u32, to_u64};

/// Where a coder puts its fields; a field has at most 32 bits.
pub(in crate::sieve) trait Sink {
    fn put(&mut self, value: u64, bits: u32);

    /// A prefix code whose first bit is its lowest.
    fn put_code(&mut self, code: u8, bits: u32) {
        self.put(u64::from(code), bits);
    }

    /// A phase-in code: `value < bound` in the fewest whole bits, the small values first.
    fn put_below(&mut self, value: u32, bound: u32) {
        debug_assert!(value < bound);
        let (short, spare) = phase_in(bound);
        if value < spare {
            self.put(u64::from(value), short);
        } else {
            let long = u64::from(value) + u64::from(spare);
            self.put(long >> 1, short);
            self.put(long & 1, 1);
        }
    }
}

/// Where a decoder takes its fields. Past its end a source gives zeros and remembers it, so that loops stay simple.
pub(in crate::sieve) trait Source {
    fn take(&mut self, bits: u32) -> u64;

    /// Whether more was taken than there is.
    fn exhausted(&self) -> bool;

    #[inline]
    fn take_below(&mut self, bound: u32) -> u32 {
        let (short, spare) = phase_in(bound);
        let value = low_u32(self.take(short));
        if value < spare {
            return value;
        }
        // The last code of a damaged stream could name one value too many.
        let long = (u64::from(value) << 1 | self.take(1)) - u64::from(spare);
        low_u32(long).min(bound.saturating_sub(1))
    }
}

/// Bits of the short codes below `bound`, and how many values have one.
#[inline]
fn phase_in(bound: u32) -> (u32, u32) {
    let short = 31 - bound.max(1).leading_zeros();
    let spare = (2u64 << short) - u64::from(bound.max(1));
    (short, low_u32(spare))
}

/// Bits that hold every number up to `largest`.
pub(in crate::sieve) fn width_of(largest: u64) -> u32 {
    64 - largest.leading_zeros()
}

/// Writes a stream forwards.
#[derive(Debug, Default, Clone)]
pub(in crate::sieve) struct BitWriter {
    bytes: Vec<u8>,
    word: u64,
    used: u32,
}

impl BitWriter {
    /// A writer with memory for about so many bytes.
    pub(in crate::sieve) fn with_room(bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ..Self::default() }
    }

    pub(in crate::sieve) fn len(&self) -> u64 {
        to_u64(self.bytes.len()) * 8 + u64::from(self.used)
    }

    /// Puts a field of up to 64 bits.
    #[inline]
    fn put_wide(&mut self, value: u64, bits: u32) {
        let low = bits.min(32);
        self.put(mask(value, low), low);
        self.put(value >> low, bits - low);
    }

    /// The bytes, the last one filled up with zeros.
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

/// Fields that a reader will take from the end of a region towards its start: each lies below those before it.
#[derive(Debug, Default, Clone)]
pub(in crate::sieve) struct BackWriter {
    word: u64,
    used: u32,
    /// Words that are full, the first one highest.
    full: Vec<(u64, u32)>,
}

impl BackWriter {
    /// Puts a field of few bits and a phase-in code behind it in one go.
    #[inline]
    pub(in crate::sieve) fn put_after(&mut self, (field, field_bits): (u8, u32), value: u32, bound: u32) {
        debug_assert!(value < bound);
        // Both fields of a long code follow each other as the bits of one.
        let (short, spare) = phase_in(bound);
        let is_long = value >= spare;
        let code = u64::from(value) + if is_long { u64::from(spare) } else { 0 };
        let bits = short + u32::from(is_long);
        self.put(u64::from(field) << bits | code, field_bits + bits);
    }

    /// Puts the fields into `out`, the first one last, and forgets them.
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

    /// The reader meets the highest bit first, so a prefix code is turned round.
    #[inline]
    fn put_code(&mut self, code: u8, bits: u32) {
        self.put(u64::from(code.reverse_bits() >> (8 - bits)), bits);
    }
}

/// 56 or more bits of `bytes` from bit `position` on, zeros past the end.
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

/// Reads forwards from a bit to a bit.
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

    /// The next bits without taking them.
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

    /// The bit below which the next one is taken.
    #[inline]
    pub(in crate::sieve) fn position(&self) -> usize {
        self.position
    }

    /// The next bits without taking them, the first one lowest: as a prefix code is looked up.
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
