//! Checks of the values of a page, before the `parquet` crate decodes them.

use std::ops::RangeInclusive;

use parquet::basic::Encoding;

use super::levels::check_hybrid;
use super::pages::ChunkPages;
use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, FileKind, Result, RowsKind};
use crate::int::{to_u64, to_usize};
use crate::parquet::{DeltaNumbers, Logical, Physical, by_length, by_prefix, encoding};

impl ChunkPages {
    /// Returns the size of the smallest value in plain encoding.
    pub(super) fn min_len(&self) -> u64 {
        match self.leaf.physical {
            Physical::Int64 | Physical::Double => 8,
            Physical::FixedLenByteArray => self.leaf.type_length.and_then(|len| u64::try_from(len).ok()).unwrap_or(0),
            _ => 4,
        }
    }

    /// Checks the numbers for which the crate allocates memory, and that there are as many values as levels announce.
    ///
    /// Encodings without an arm below have values of any length, and the crate counts them itself.
    pub(super) fn check_values(&self, encoding: Encoding, values: &[u8], num_values: u32, present: u64) -> Result<()> {
        let too_many = || Error::new(ErrorKind::Rows(RowsKind::TooManyValues));
        let likely = to_u64(values.len()).saturating_mul(1024) + (1 << 20);
        // A record of a nested column may have all of them.
        if self.leaf.max_rep > 0 && u64::from(num_values) > likely {
            return Err(too_many());
        }
        let at_least = |needed: u64| {
            let available = to_u64(values.len());
            if needed > available { Err(Error::new(ErrorKind::Truncated { needed, available })) } else { Ok(()) }
        };
        let deltas = |bytes: &[u8], width: u8| -> Result<usize> {
            let numbers = DeltaNumbers::new(bytes, num_values.into())?;
            if numbers.remaining_values() > likely {
                return Err(too_many());
            }
            if numbers.remaining_values() < present {
                return Err(Error::new(ErrorKind::File(FileKind::DeltaPage)));
            }
            numbers.strict(width)?.end()
        };
        match encoding {
            Encoding::PLAIN | Encoding::BYTE_STREAM_SPLIT => match self.leaf.physical {
                Physical::Boolean => at_least(present.div_ceil(8)),
                Physical::ByteArray => self.check_byte_arrays(values, present),
                _ => at_least(present.saturating_mul(self.min_len())),
            },
            // A page of nulls may have no values.
            _ if present == 0 => Ok(()),
            Encoding::RLE_DICTIONARY => match values.split_first() {
                Some((width, indexes)) if *width <= 32 => check_hybrid(indexes, u32::from(*width), present),
                _ => Err(Error::new(ErrorKind::IntegerRange)),
            },
            Encoding::RLE => {
                let mut cursor = Cursor::new(values, 0);
                let len = to_usize(cursor.u32()?.into()).unwrap_or(usize::MAX);
                check_hybrid(cursor.take(len)?, 1, present)
            }
            Encoding::DELTA_BINARY_PACKED => {
                let width = if self.leaf.physical == Physical::Int32 { 32 } else { 64 };
                deltas(values, width).map(|_| ())
            }
            Encoding::DELTA_LENGTH_BYTE_ARRAY => {
                deltas(values, 32)?;
                if let Some(lengths) = self.decimal_lengths() {
                    by_length(values, num_values.into(), |value| check_decimal(value, &lengths))?;
                }
                self.check_text(values, num_values)
            }
            Encoding::DELTA_BYTE_ARRAY => {
                let end = deltas(values, 32)?;
                deltas(values.get(end..).unwrap_or_default(), 32)?;
                if let Some(lengths) = self.decimal_lengths() {
                    by_prefix(values, num_values.into(), |value| check_decimal(value, &lengths))?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks the lengths of values in plain encoding. The crate does not check those that it skips, and then allocates
    /// any amount of memory.
    pub(super) fn check_byte_arrays(&self, values: &[u8], count: u64) -> Result<()> {
        let lengths = self.decimal_lengths();
        let mut rest = values;
        for _ in 0..count {
            let value = rest.split_first_chunk::<4>().and_then(|(len, rest)| {
                let len = to_usize(u32::from_le_bytes(*len).into())?;
                rest.split_at_checked(len)
            });
            let Some((value, after)) = value else {
                let available = to_u64(rest.len());
                return Err(Error::new(ErrorKind::Truncated { needed: available.saturating_add(1), available }));
            };
            if let Some(lengths) = &lengths {
                check_decimal(value, lengths)?;
            }
            rest = after;
        }
        Ok(())
    }

    /// Returns the lengths of the decimals that pyarrow accepts in a BYTE_ARRAY. The crate reads one without bytes as 0.
    fn decimal_lengths(&self) -> Option<RangeInclusive<usize>> {
        match self.leaf.logical {
            Some(Logical::Decimal { precision, .. }) if self.leaf.physical == Physical::ByteArray => {
                Some(1..=if precision <= 38 { 16 } else { 32 })
            }
            _ => None,
        }
    }

    /// Checks that no value of a text column begins within a character.
    ///
    /// The crate checks only that all bytes of a page are UTF-8 together, so its strings could be invalid.
    fn check_text(&self, values: &[u8], num_values: u32) -> Result<()> {
        if !matches!(self.leaf.logical, Some(Logical::String | Logical::Enum | Logical::Json)) {
            return Ok(());
        }
        by_length(values, num_values.into(), |value| match value.first() {
            Some(0x80..=0xbf) => Err(Error::new(ErrorKind::Rows(RowsKind::Decode("text is not UTF-8".to_owned())))),
            _ => Ok(()),
        })
        .map(|_| ())
    }

    /// Returns the encoding of values, if the format allows it for the physical type.
    pub(super) fn value_encoding(&self, code: i32) -> Result<Encoding> {
        use Physical as P;
        let physical = self.leaf.physical;
        let allowed = match (code, physical) {
            (encoding::PLAIN, _) => Some(Encoding::PLAIN),
            (encoding::PLAIN_DICTIONARY | encoding::RLE_DICTIONARY, physical) if physical != P::Boolean => {
                Some(Encoding::RLE_DICTIONARY)
            }
            (encoding::RLE, P::Boolean) => Some(Encoding::RLE),
            (encoding::DELTA_BINARY_PACKED, P::Int32 | P::Int64) => Some(Encoding::DELTA_BINARY_PACKED),
            (encoding::DELTA_LENGTH_BYTE_ARRAY, P::ByteArray) => Some(Encoding::DELTA_LENGTH_BYTE_ARRAY),
            (encoding::DELTA_BYTE_ARRAY, P::ByteArray | P::FixedLenByteArray) => Some(Encoding::DELTA_BYTE_ARRAY),
            (encoding::BYTE_STREAM_SPLIT, P::Int32 | P::Int64 | P::Float | P::Double | P::FixedLenByteArray) => {
                Some(Encoding::BYTE_STREAM_SPLIT)
            }
            _ => None,
        };
        allowed.ok_or_else(|| Error::new(ErrorKind::File(FileKind::PageEncoding(code))))
    }
}

fn check_decimal(value: &[u8], lengths: &RangeInclusive<usize>) -> Result<()> {
    if lengths.contains(&value.len()) {
        Ok(())
    } else {
        Err(Error::new(ErrorKind::Rows(RowsKind::Decode(format!("a decimal has {} bytes", value.len())))))
    }
}

/// Returns the encoding to decode values with. Some writers leave out the values of a page of nulls, although the
/// encoding begins with a header.
pub(super) fn without_values(encoding: Encoding, values: &[u8], present: u64) -> Encoding {
    if present == 0 && values.is_empty() { Encoding::PLAIN } else { encoding }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::parquet::{Codec, SchemaLeaf};
    use crate::rows::pages::Failure;

    fn chunk(logical: Option<Logical>) -> ChunkPages {
        let leaf = SchemaLeaf::for_test(Physical::ByteArray, None, logical);
        let failure = Failure::default();
        ChunkPages { failure, codec: Codec::Uncompressed, leaf, dictionary: None, data: VecDeque::new() }
    }

    /// Returns values in plain encoding, whose lengths may be wrong.
    fn plain(values: &[(u32, &[u8])]) -> Vec<u8> {
        values.iter().flat_map(|(len, value)| [&len.to_le_bytes()[..], value].concat()).collect()
    }

    #[test]
    fn lengths_beyond_the_page_are_errors() {
        let good = plain(&[(2, b"ab"), (0, b""), (1, b"c")]);
        let check = |bytes: &[u8], count| chunk(None).check_values(Encoding::PLAIN, bytes, 3, count);
        assert!(check(&good, 3).is_ok());
        // Some writers append bytes.
        assert!(check(&good, 2).is_ok());
        assert!(check(&good, 4).is_err());
        assert!(check(&good[..good.len() - 1], 3).is_err());
        for len in [11, 0x00ff_ffff, u32::MAX] {
            assert!(check(&plain(&[(len, b"ab"), (0, b""), (1, b"c")]), 3).is_err(), "{len}");
        }
    }

    #[test]
    fn decimals_have_as_many_bytes_as_pyarrow_accepts() {
        for (precision, len, is_valid) in
            [(9, 0, false), (9, 1, true), (38, 16, true), (38, 17, false), (39, 17, true), (39, 33, false)]
        {
            let chunk = chunk(Some(Logical::Decimal { precision, scale: 2 }));
            let bytes = plain(&[(len, &vec![0; len as usize])]);
            let found = chunk.check_values(Encoding::PLAIN, &bytes, 1, 1);
            assert_eq!(found.is_ok(), is_valid, "{precision} {len}");
        }
    }

    #[test]
    fn pages_of_nulls_need_no_values() {
        assert_eq!(without_values(Encoding::RLE_DICTIONARY, &[], 0), Encoding::PLAIN);
        assert_eq!(without_values(Encoding::RLE_DICTIONARY, &[0], 0), Encoding::RLE_DICTIONARY);
        assert_eq!(without_values(Encoding::RLE_DICTIONARY, &[], 1), Encoding::RLE_DICTIONARY);
    }
}
