//! Hashes the values in decoded pages.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, FileKind, Result};
use crate::hash::{hash_bytes, hash_strings, hash_u32s, hash_u64s};
use crate::int::{to_u64, to_usize};
use crate::isa::InstructionSet;
use crate::parquet::meta::schema::{Logical, Physical, SchemaLeaf};
use crate::parquet::pages::delta::{DeltaNumbers, by_length, by_prefix, merge_streams};
use crate::parquet::pages::page::encoding;

/// Number of values hashed in one batch.
const BATCH: usize = 1024;

/// The layout of values in plain encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parquet) enum ValueWidth {
    /// This many bytes per value.
    Fixed(usize),
    /// A length of four bytes before each value.
    Variable,
}

impl ValueWidth {
    /// Returns the layout of a leaf's values, or `None` if they have no hash.
    pub(in crate::parquet) fn of(leaf: &SchemaLeaf) -> Option<Self> {
        Some(match leaf.physical {
            Physical::Int32 | Physical::Float => Self::Fixed(4),
            Physical::Int64 | Physical::Double => Self::Fixed(8),
            Physical::Int96 => Self::Fixed(12),
            Physical::ByteArray => Self::Variable,
            Physical::FixedLenByteArray => Self::Fixed(usize::try_from(leaf.type_length?).ok().filter(|len| *len > 0)?),
            Physical::Boolean | Physical::Unknown(_) => return None,
        })
    }
}

/// An integer type whose values have fewer bits than they are stored with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::parquet) struct NarrowInteger {
    bits: u32,
    is_signed: bool,
}

impl NarrowInteger {
    /// Returns the type of a leaf's values, or `None` if they may have all 32 bits.
    pub(in crate::parquet) fn of(leaf: &SchemaLeaf) -> Option<Self> {
        match leaf.logical {
            Some(Logical::Integer { bit_width: bit_width @ (8 | 16), signed }) if leaf.physical == Physical::Int32 => {
                Some(Self { bits: bit_width.unsigned_abs().into(), is_signed: signed })
            }
            _ => None,
        }
    }

    /// Returns an error if a value has more bits. Engines read its lower bits, whose hash is another one.
    fn check(self, values: &[u32]) -> Result<()> {
        let unused = u32::BITS - self.bits;
        let differs = values.iter().fold(0, |differs, &value| {
            let upper = value << unused;
            let read = if self.is_signed { (upper.cast_signed() >> unused).cast_unsigned() } else { upper >> unused };
            differs | (value ^ read)
        });
        if differs == 0 { Ok(()) } else { Err(Error::new(ErrorKind::File(FileKind::IntegerTooWide))) }
    }
}

/// Whether real numbers contain zeros or NaNs, which are equal although their bytes may differ.
#[derive(Debug, Default)]
pub(in crate::parquet) struct EqualReals {
    has_zero: bool,
    has_nan: bool,
}

impl EqualReals {
    /// Returns the sign bit of reals with `width` bytes, and infinity, whose bits any NaN exceeds.
    fn sign_and_infinity(width: usize) -> (u64, u64) {
        match width {
            2 => (1 << 15, 0x7c00),
            4 => (1 << 31, f32::INFINITY.to_bits().into()),
            _ => (1 << 63, f64::INFINITY.to_bits()),
        }
    }

    /// Notes whether any of some values is a zero or a NaN.
    fn note(&mut self, values: &[u8], width: usize) {
        let (sign, infinity) = Self::sign_and_infinity(width);
        for value in values.chunks_exact(width) {
            let mut bits = [0; 8];
            bits[..width].copy_from_slice(value);
            let magnitude = u64::from_le_bytes(bits) & (sign - 1);
            self.has_zero |= magnitude == 0;
            self.has_nan |= magnitude > infinity;
        }
    }

    /// Returns the hashes of both zeros if there is a zero, and of the NaN of literals if there is a NaN.
    fn hashes(&self, width: usize) -> Vec<u64> {
        let (sign, infinity) = Self::sign_and_infinity(width);
        let quiet_bit = (infinity & infinity.wrapping_neg()) >> 1;
        let zeros = self.has_zero.then_some([0, sign]).into_iter().flatten();
        let values = zeros.chain(self.has_nan.then_some(infinity | quiet_bit));
        values.map(|value| hash_bytes(&value.to_le_bytes()[..width])).collect()
    }
}

/// Takes the hashes of some values. A few bytes of a delta encoding may contain billions.
pub(in crate::parquet) type TakeHashes<'a> = dyn FnMut(&[u64]) -> Result<()> + 'a;

/// Hashes the values of a column page by page.
#[derive(Debug)]
pub(in crate::parquet) struct Hasher {
    pub(in crate::parquet) physical: Physical,
    pub(in crate::parquet) width: ValueWidth,
    pub(in crate::parquet) narrow: Option<NarrowInteger>,
    /// `None` if the values are not real numbers.
    pub(in crate::parquet) reals: Option<EqualReals>,
    pub(in crate::parquet) isa: InstructionSet,
}

impl Hasher {
    /// Returns the hashes that an engine may look up to find values of the pages that have other hashes.
    pub(in crate::parquet) fn equal_hashes(&self) -> Vec<u64> {
        match (&self.reals, self.width) {
            (Some(reals), ValueWidth::Fixed(width)) => reals.hashes(width),
            _ => Vec::new(),
        }
    }

    /// Hashes the values of a page, which may contain at most `max_values`. Returns their number.
    pub(in crate::parquet) fn hash(
        &mut self,
        code: i32,
        bytes: &[u8],
        max_values: u64,
        take: &mut TakeHashes<'_>,
    ) -> Result<u64> {
        match (code, self.width) {
            (encoding::PLAIN, ValueWidth::Fixed(width)) => self.fixed(bytes, width, take),
            (encoding::PLAIN, ValueWidth::Variable) => self.variable(bytes, max_values, take),
            (encoding::DELTA_BINARY_PACKED, ValueWidth::Fixed(_)) => self.numbers(bytes, max_values, take),
            (encoding::DELTA_LENGTH_BYTE_ARRAY, ValueWidth::Variable) => {
                self.strings(take, |string| by_length(bytes, max_values, string))
            }
            (encoding::DELTA_BYTE_ARRAY, width) => {
                let mut batch = Vec::with_capacity(BATCH);
                let count = by_prefix(bytes, max_values, |string| {
                    if let ValueWidth::Fixed(len) = width
                        && string.len() != len
                    {
                        return Err(Error::new(ErrorKind::File(FileKind::DeltaPage)));
                    }
                    if let Some(reals) = &mut self.reals {
                        reals.note(string, string.len());
                    }
                    batch.push(hash_bytes(string));
                    if batch.len() == BATCH {
                        take(&batch)?;
                        batch.clear();
                    }
                    Ok(())
                })?;
                take(&batch)?;
                Ok(count)
            }
            (encoding::BYTE_STREAM_SPLIT, ValueWidth::Fixed(width)) => {
                self.fixed(&merge_streams(bytes, width)?, width, take)
            }
            _ => Err(Error::new(ErrorKind::File(FileKind::PageEncoding(code)))),
        }
    }

    fn fixed(&mut self, bytes: &[u8], width: usize, take: &mut TakeHashes<'_>) -> Result<u64> {
        if !bytes.len().is_multiple_of(width) {
            let available = to_u64(bytes.len() % width);
            return Err(Error::new(ErrorKind::Truncated { needed: to_u64(width), available }));
        }
        if let Some(reals) = &mut self.reals {
            reals.note(bytes, width);
        }
        let mut hashes = [0; BATCH];
        for batch in bytes.chunks(BATCH * width) {
            let hashes = &mut hashes[..batch.len() / width];
            match width {
                4 => {
                    let mut values = [0; BATCH];
                    for (value, bytes) in values.iter_mut().zip(batch.as_chunks().0) {
                        *value = u32::from_le_bytes(*bytes);
                    }
                    let values = &values[..hashes.len()];
                    if let Some(narrow) = self.narrow {
                        narrow.check(values)?;
                    }
                    hash_u32s(self.isa, values, hashes);
                }
                8 => {
                    let mut values = [0; BATCH];
                    for (value, bytes) in values.iter_mut().zip(batch.as_chunks().0) {
                        *value = u64::from_le_bytes(*bytes);
                    }
                    hash_u64s(self.isa, &values[..hashes.len()], hashes);
                }
                _ => {
                    for (hash, value) in hashes.iter_mut().zip(batch.chunks_exact(width)) {
                        *hash = hash_bytes(value);
                    }
                }
            }
            take(hashes)?;
        }
        Ok(to_u64(bytes.len() / width))
    }

    fn variable(&self, bytes: &[u8], max_values: u64, take: &mut TakeHashes<'_>) -> Result<u64> {
        self.strings(take, |string| {
            let mut cursor = Cursor::new(bytes, 0);
            let mut count = 0;
            while cursor.remaining() > 0 && count < max_values {
                let len = u64::from(cursor.u32()?);
                let available = to_u64(cursor.remaining());
                let len = to_usize(len)
                    .filter(|_| len <= available)
                    .ok_or_else(|| Error::new(ErrorKind::Truncated { needed: len, available }))?;
                string(cursor.take(len)?)?;
                count += 1;
            }
            Ok(count)
        })
    }

    /// Hashes borrowed strings in batches.
    fn strings<'a>(
        &self,
        take: &mut TakeHashes<'_>,
        for_each: impl FnOnce(&mut dyn FnMut(&'a [u8]) -> Result<()>) -> Result<u64>,
    ) -> Result<u64> {
        let mut batch: Vec<&'a [u8]> = Vec::with_capacity(BATCH);
        let mut hashes = [0; BATCH];
        let mut flush = |batch: &mut Vec<&'a [u8]>| {
            let hashes = &mut hashes[..batch.len()];
            hash_strings(self.isa, batch, hashes);
            batch.clear();
            take(hashes)
        };
        let count = for_each(&mut |string| {
            batch.push(string);
            if batch.len() == BATCH { flush(&mut batch) } else { Ok(()) }
        })?;
        flush(&mut batch)?;
        Ok(count)
    }

    fn numbers(&mut self, bytes: &[u8], max_values: u64, take: &mut TakeHashes<'_>) -> Result<u64> {
        if !matches!(self.physical, Physical::Int32 | Physical::Int64) {
            return Err(Error::new(ErrorKind::File(FileKind::PageEncoding(encoding::DELTA_BINARY_PACKED))));
        }
        let mut numbers = DeltaNumbers::new(bytes, max_values)?;
        let count = numbers.remaining_values();
        let mut plain = Vec::with_capacity(BATCH * 8);
        while let Some(value) = numbers.next()? {
            match self.physical {
                // The writer's 32-bit arithmetic may wrap around where ours does not, but the lower half is the same.
                Physical::Int32 => plain.extend_from_slice(&value.to_le_bytes()[..4]),
                _ => plain.extend_from_slice(&value.to_le_bytes()),
            }
            if plain.len() >= BATCH * 4 {
                self.plain(&mut plain, take)?;
            }
        }
        self.plain(&mut plain, take)?;
        Ok(count)
    }

    fn plain(&mut self, plain: &mut Vec<u8>, take: &mut TakeHashes<'_>) -> Result<()> {
        if let ValueWidth::Fixed(width) = self.width {
            self.fixed(plain, width, take)?;
        }
        plain.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn billions_of_values_in_a_few_bytes_are_hashed_in_batches() {
        // 2^31 - 1 numbers, each larger by one than the previous: blocks of 128 values with a minimum delta of 1 and
        // zero bits.
        let mut page = vec![0x80, 1, 4, 0xff, 0xff, 0xff, 0xff, 7, 0];
        for _ in 0..2000 {
            page.extend([2, 0, 0, 0, 0]);
        }
        let mut hasher = Hasher {
            physical: Physical::Int64,
            width: ValueWidth::Fixed(8),
            narrow: None,
            reals: None,
            isa: InstructionSet::PORTABLE,
        };
        let mut count = 0;
        let error = hasher.hash(encoding::DELTA_BINARY_PACKED, &page, u64::from(u32::MAX), &mut |hashes| {
            assert!(hashes.len() <= BATCH);
            count += hashes.len();
            Ok(())
        });
        assert!(matches!(error.unwrap_err().kind(), ErrorKind::Truncated { .. }));
        assert!(count > 255_000, "{count}");
    }

    #[test]
    fn integers_that_do_not_fit_their_type_are_errors() {
        let cases = [
            (8, true, [127, -128], [128, -129]),
            (16, true, [32_767, -32_768], [44_849, -32_769]),
            (8, false, [255, 0], [256, -1]),
            (16, false, [65_535, 0], [65_536, -1]),
        ];
        for (bits, is_signed, fit, too_wide) in cases {
            let mut hasher = Hasher {
                physical: Physical::Int32,
                width: ValueWidth::Fixed(4),
                narrow: Some(NarrowInteger { bits, is_signed }),
                reals: None,
                isa: InstructionSet::PORTABLE,
            };
            let mut hash = |values: [i32; 2]| {
                let page: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                hasher.hash(encoding::PLAIN, &page, 2, &mut |_| Ok(()))
            };
            assert_eq!(hash(fit).unwrap(), 2);
            for value in too_wide {
                let error = hash([fit[0], value]).unwrap_err();
                assert!(matches!(error.kind(), ErrorKind::File(FileKind::IntegerTooWide)), "{bits} {value}");
            }
        }
    }

    #[test]
    fn only_integers_of_8_and_16_bits_are_narrow() {
        let narrow = |physical, bit_width, signed| {
            NarrowInteger::of(&SchemaLeaf::for_test(physical, None, Some(Logical::Integer { bit_width, signed })))
        };
        for (bit_width, bits) in [(8, 8), (16, 16)] {
            for is_signed in [true, false] {
                let expected = Some(NarrowInteger { bits, is_signed });
                assert_eq!(narrow(Physical::Int32, bit_width, is_signed), expected);
            }
        }
        assert_eq!((narrow(Physical::Int32, 32, true), narrow(Physical::Int64, 16, true)), (None, None));
        assert_eq!(NarrowInteger::of(&SchemaLeaf::for_test(Physical::Int32, None, None)), None);
    }

    #[test]
    fn a_part_of_a_value_is_an_error() {
        let mut hasher = Hasher {
            physical: Physical::Int32,
            width: ValueWidth::Fixed(4),
            narrow: None,
            reals: None,
            isa: InstructionSet::PORTABLE,
        };
        let error = hasher.hash(encoding::PLAIN, &[0; 6], 2, &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Truncated { needed: 4, available: 2 });
    }

    #[test]
    fn zeros_and_nans_have_the_hashes_of_equal_values() {
        let check = |plain: &[u8], width: usize, expect: &[&[u8]]| {
            let mut hasher = Hasher {
                physical: Physical::FixedLenByteArray,
                width: ValueWidth::Fixed(width),
                narrow: None,
                reals: Some(EqualReals::default()),
                isa: InstructionSet::PORTABLE,
            };
            hasher.hash(encoding::PLAIN, plain, 9, &mut |_| Ok(())).unwrap();
            let expect: Vec<u64> = expect.iter().map(|value| hash_bytes(value)).collect();
            assert_eq!(hasher.equal_hashes(), expect, "{plain:?}");
        };
        let doubles = |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let zeros = [0.0f64, -0.0].map(f64::to_le_bytes);
        check(&doubles(&[1.0, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE]), 8, &[]);
        check(&doubles(&[1.0, -0.0]), 8, &[&zeros[0], &zeros[1]]);
        check(&doubles(&[0.0]), 8, &[&zeros[0], &zeros[1]]);
        check(&doubles(&[-f64::NAN]), 8, &[&f64::NAN.to_le_bytes()]);
        check(&doubles(&[f64::from_bits(f64::INFINITY.to_bits() + 1)]), 8, &[&f64::NAN.to_le_bytes()]);
        check(&(-0.0f32).to_le_bytes(), 4, &[&0f32.to_le_bytes(), &(-0.0f32).to_le_bytes()]);
        check(&(-f32::NAN).to_le_bytes(), 4, &[&f32::NAN.to_le_bytes()]);
        check(&[0, 0x80, 1, 0xfc], 2, &[&[0, 0], &[0, 0x80], &[0, 0x7e]]);
        check(&[0, 0x7c, 0, 0xfc], 2, &[]);
    }
}
