//! Bit streams with the three codes of a map: fields, numbers of unknown size, and lists of similar numbers.

use crate::error::Result;
use crate::int::{low_u8, low_u64, to_u64};
use crate::page_map::malformed;

/// Bits that store the width of a number.
const WIDTH_BITS: u32 = 6;
/// All numbers are below this bound, so that sums of two of them do not overflow.
pub(super) const LIMIT: u64 = 1 << 62;

/// Writes bits, least significant bit first.
#[derive(Debug, Default, Clone)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    word: u128,
    used: u32,
}

impl BitWriter {
    /// Returns the number of bits.
    pub(super) fn len(&self) -> u64 {
        to_u64(self.bytes.len()) * 8 + u64::from(self.used)
    }

    /// Writes a field of up to 64 bits.
    pub(super) fn put(&mut self, value: u64, bits: u32) {
        debug_assert!(bits == 64 || value >> bits == 0);
        self.word |= u128::from(value) << self.used;
        self.used += bits;
        while self.used >= 8 {
            self.bytes.push(low_u8(low_u64(self.word)));
            self.word >>= 8;
            self.used -= 8;
        }
    }

    /// Writes one bit.
    pub(super) fn flag(&mut self, flag: bool) {
        self.put(flag.into(), 1);
    }

    /// Writes a number: its width, then its bits below the highest one.
    pub(super) fn number(&mut self, value: u64) {
        debug_assert!(value < LIMIT * 2);
        let width = width_of(value);
        self.put(width.into(), WIDTH_BITS);
        if width > 1 {
            self.put(value & mask(width - 1), width - 1);
        }
    }

    /// Writes a number that is likely close to zero.
    pub(super) fn difference(&mut self, value: u64, expected: u64) {
        let difference = value.wrapping_sub(expected).cast_signed();
        self.number(((difference << 1) ^ (difference >> 63)).cast_unsigned());
    }

    /// Writes numbers of similar size, whose count the reader knows: their least one, the number of zero bits at the end
    /// of all differences from it, and each shifted difference as an Exp-Golomb code with the best parameter.
    pub(super) fn list(&mut self, values: &[u64]) {
        let Some(&least) = values.iter().min() else { return };
        self.number(least);
        let union = values.iter().fold(0, |bits, value| bits | (value - least));
        let shift = if union == 0 { 0 } else { union.trailing_zeros() };
        let (mut parameter, mut best) = (0, u64::MAX);
        for candidate in 0..=width_of(union >> shift) {
            let cost = values.iter().map(|value| exp_golomb_bits((value - least) >> shift, candidate)).sum();
            if cost < best {
                (parameter, best) = (candidate, cost);
            }
        }
        self.put(shift.into(), WIDTH_BITS);
        self.put(parameter.into(), WIDTH_BITS);
        for value in values {
            let value = (value - least) >> shift;
            let high = (value >> parameter) + 1;
            let zeros = width_of(high) - 1;
            // The highest bit comes right after the zeros, so that the reader knows how many bits follow.
            self.put(1 << zeros, zeros + 1);
            self.put(high & mask(zeros), zeros);
            self.put(value & mask(parameter), parameter);
        }
    }

    /// Returns the bytes. Zeros fill the last one.
    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.used > 0 {
            self.bytes.push(low_u8(low_u64(self.word)));
        }
        self.bytes
    }
}

fn exp_golomb_bits(value: u64, parameter: u32) -> u64 {
    u64::from(2 * width_of((value >> parameter) + 1) - 1 + parameter)
}

/// Returns the number of bits of a number, 0 for zero.
fn width_of(value: u64) -> u32 {
    64 - value.leading_zeros()
}

fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

/// Reads what a [`BitWriter`] wrote. Every read is checked.
#[derive(Debug, Clone)]
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    /// The next bit.
    at: u64,
    /// The offset of the bytes in their block, for error messages.
    base: u64,
}

impl<'a> BitReader<'a> {
    /// Creates a reader of `bytes`, which begin at offset `base` of their block.
    pub(super) fn new(bytes: &'a [u8], base: u64) -> Self {
        Self { bytes, at: 0, base }
    }

    /// Returns the offset of the next bit's byte in the block.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.at / 8
    }

    /// Reads a field of up to 64 bits.
    pub(super) fn take(&mut self, bits: u32) -> Result<u64> {
        if self.at + u64::from(bits) > to_u64(self.bytes.len()) * 8 {
            return Err(malformed("the end of a run", self.offset()));
        }
        let field = self.window() & mask(bits);
        self.at += u64::from(bits);
        Ok(field)
    }

    /// Reads zeros up to a one, and returns their number, which is 64 if there are more.
    fn zeros(&mut self) -> Result<u32> {
        let zeros = self.window().trailing_zeros();
        self.take(if zeros < 64 { zeros + 1 } else { 64 })?;
        Ok(zeros)
    }

    /// Returns the next 64 bits, or zeros after the end.
    fn window(&self) -> u64 {
        let first = usize::try_from(self.at / 8).unwrap_or(usize::MAX);
        let offset = u32::try_from(self.at % 8).unwrap_or(0);
        let rest = self.bytes.get(first..).unwrap_or_default();
        let word = match rest.first_chunk::<16>() {
            Some(chunk) => u128::from_le_bytes(*chunk),
            None => rest.iter().rev().fold(0, |word, &byte| word << 8 | u128::from(byte)),
        };
        low_u64(word >> offset)
    }

    /// Reads one bit.
    pub(super) fn flag(&mut self) -> Result<bool> {
        Ok(self.take(1)? == 1)
    }

    /// Reads a number.
    pub(super) fn number(&mut self) -> Result<u64> {
        let width = u32::try_from(self.take(WIDTH_BITS)?).unwrap_or(0);
        match width {
            0 => Ok(0),
            width => Ok(1 << (width - 1) | self.take(width - 1)?),
        }
    }

    /// Reads a number that was written as a difference.
    pub(super) fn difference(&mut self, expected: u64) -> Result<u64> {
        let at = self.offset();
        let code = self.number()?;
        let difference = (code >> 1).cast_signed() ^ -(code & 1).cast_signed();
        let value = expected.checked_add_signed(difference).filter(|&value| value < LIMIT);
        value.ok_or_else(|| malformed("a difference", at))
    }

    /// Reads the parameters of a list, whose numbers the caller then takes.
    pub(super) fn list(&mut self) -> Result<List> {
        let least = self.number()?;
        let shift = u32::try_from(self.take(WIDTH_BITS)?).unwrap_or(0);
        Ok(List { least, shift, parameter: u32::try_from(self.take(WIDTH_BITS)?).unwrap_or(0) })
    }
}

/// The parameters of a list.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    least: u64,
    shift: u32,
    parameter: u32,
}

impl List {
    /// Reads the next number.
    pub(super) fn next(&self, reader: &mut BitReader<'_>) -> Result<u64> {
        let at = reader.offset();
        let zeros = reader.zeros()?;
        if zeros > 62 {
            return Err(malformed("a number of a list", at));
        }
        let high = (1 << zeros | reader.take(zeros)?) - 1;
        let low = reader.take(self.parameter)?;
        let value = u128::from(high) << self.parameter | u128::from(low);
        let value = (value << self.shift).checked_add(self.least.into()).filter(|&value| value < LIMIT.into());
        value.map(low_u64).ok_or_else(|| malformed("a number of a list", at))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn fields_numbers_and_differences_read_back(
            fields in prop::collection::vec((any::<u64>(), 0u32..=64), 0..30),
            numbers in prop::collection::vec((0..LIMIT, 0u32..62, 0..LIMIT), 0..30),
        ) {
            let fields: Vec<_> = fields.into_iter().map(|(value, bits)| (value & mask(bits), bits)).collect();
            let numbers: Vec<_> = numbers.into_iter().map(|(value, shift, expected)| (value >> shift, expected >> shift)).collect();
            let mut writer = BitWriter::default();
            fields.iter().for_each(|&(value, bits)| writer.put(value, bits));
            for &(value, expected) in &numbers {
                writer.number(value);
                writer.difference(value, expected);
                writer.flag(value % 2 == 1);
            }
            let len = writer.len();
            let bytes = writer.finish();
            prop_assert_eq!(to_u64(bytes.len()), len.div_ceil(8));
            let mut reader = BitReader::new(&bytes, 0);
            for (value, bits) in fields {
                prop_assert_eq!(reader.take(bits), Ok(value));
            }
            for (value, expected) in numbers {
                prop_assert_eq!(reader.number(), Ok(value));
                prop_assert_eq!(reader.difference(expected), Ok(value));
                prop_assert_eq!(reader.flag(), Ok(value % 2 == 1));
            }
            prop_assert!(reader.take(8).is_err(), "only the bits that fill a byte are left");
        }

        #[test]
        fn lists_read_back(values in prop::collection::vec((0..LIMIT, 0u32..62), 0..40), shift in 0u32..20) {
            let values: Vec<u64> = values.into_iter().map(|(value, narrow)| value >> narrow >> shift << shift).collect();
            let mut writer = BitWriter::default();
            writer.list(&values);
            let bytes = writer.finish();
            let mut reader = BitReader::new(&bytes, 0);
            if !values.is_empty() {
                let list = reader.list().unwrap();
                for value in values {
                    prop_assert_eq!(list.next(&mut reader), Ok(value));
                }
            }
        }

        #[test]
        fn any_bytes_are_read_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let mut reader = BitReader::new(&bytes, 0);
            while let Ok(list) = reader.list() {
                while let Ok(value) = list.next(&mut reader) {
                    prop_assert!(value < LIMIT);
                }
                if reader.number().is_err() || reader.difference(7).is_err() {
                    break;
                }
            }
        }
    }

    #[test]
    fn similar_numbers_take_few_bits() {
        let bits = |values: &[u64]| {
            let mut writer = BitWriter::default();
            writer.list(values);
            writer.len()
        };
        let header = |least: u64| u64::from(3 * WIDTH_BITS + width_of(least) - 1);
        assert_eq!(bits(&[20_000; 50]), header(20_000) + 50);
        let batches: Vec<u64> = (0..64).map(|i| 8192 + 1024 * (i * 7 % 8)).collect();
        assert!(bits(&batches) <= header(8192) + 64 * 4, "a common power of two is stored once");
        let one_large: Vec<u64> = (0..64).map(|i| if i == 9 { 1 << 20 } else { 500 + i % 4 }).collect();
        assert!(bits(&one_large) <= header(500) + 64 * 4 + 40, "one large number does not widen the others");
    }
}
