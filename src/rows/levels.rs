//! Repetition and definition levels, which tell where records begin, and how many values a page has.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, FileKind, Result, RowsKind};
use crate::int::to_usize;
use crate::parquet::encoding;

/// The records of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Records {
    /// Number of records that begin in the page.
    pub(super) begin: u64,
    /// True if the page continues a record of the page before.
    pub(super) continues: bool,
}

/// The levels of one kind in a page: their bytes, their encoding, their greatest value and their number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Levels<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) encoding: i32,
    pub(super) max: i16,
    pub(super) count: u32,
}

/// How many levels have a value.
#[derive(Debug, Clone, Copy, Default)]
struct Equal {
    count: u64,
    /// True if the first level has it.
    first: bool,
}

impl Levels<'_> {
    /// Counts the records by repetition levels.
    pub(super) fn records(&self) -> Result<Records> {
        let zero = self.equal_to(0)?;
        Ok(Records { begin: zero.count, continues: self.count > 0 && !zero.first })
    }

    /// Counts the values that are not null by definition levels.
    pub(super) fn values(&self) -> Result<u64> {
        Ok(self.equal_to(self.max.unsigned_abs())?.count)
    }

    /// Counts the levels with a value. Levels that do not fill the page, or are too great, are an error.
    ///
    /// So are levels in the deprecated encoding, which [`hybrid_of`] replaces.
    fn equal_to(&self, wanted: u16) -> Result<Equal> {
        let max = self.max.unsigned_abs();
        let packed = Packed { width: u16::BITS - max.leading_zeros(), max, wanted };
        match self.encoding {
            encoding::RLE => packed.count_hybrid(self.bytes, self.count.into()),
            other => Err(Error::new(ErrorKind::File(FileKind::PageEncoding(other)))),
        }
    }
}

/// Checks that a hybrid of runs and packed bits has at least `count` numbers of `width` bits.
pub(super) fn check_hybrid(bytes: &[u8], width: u32, count: u64) -> Result<()> {
    let value_len = to_usize(u64::from(width.div_ceil(8))).unwrap_or(0);
    let mut cursor = Cursor::new(bytes, 0);
    let mut found = 0u64;
    while found < count {
        let header = cursor.varint()?;
        let (len, run) = if header & 1 == 0 {
            (Some(value_len), header >> 1)
        } else {
            let groups = header >> 1;
            (to_usize(groups.saturating_mul(u64::from(width))), groups.saturating_mul(8))
        };
        cursor.take(len.unwrap_or(usize::MAX))?;
        // A run of no numbers would never end.
        if run == 0 {
            return Err(damaged());
        }
        found = found.saturating_add(run);
    }
    Ok(())
}

/// Returns levels of the deprecated encoding as a hybrid of runs and packed bits. In the former, each byte begins with its
/// highest bit, which the `parquet` crate ignores.
pub(super) fn hybrid_of(bytes: &[u8], max: i16, count: u32) -> Vec<u8> {
    let width = u64::from(i16::BITS - max.leading_zeros());
    let groups = u64::from(count).div_ceil(8);
    let mut hybrid = Vec::new();
    let mut header = groups << 1 | 1;
    while header > 0x7f {
        hybrid.push(header as u8 | 0x80);
        header >>= 7;
    }
    hybrid.push(header as u8);
    let start = hybrid.len();
    hybrid.resize(start + to_usize(groups * width).unwrap_or(0), 0);
    let is_set = |bit: u64| {
        let byte = to_usize(bit / 8).and_then(|byte| bytes.get(byte)).copied().unwrap_or(0);
        byte >> (7 - bit % 8) & 1 == 1
    };
    for level in 0..u64::from(count) {
        for bit in (0..width).filter(|bit| is_set((level + 1) * width - 1 - bit)) {
            let to = level * width + bit;
            if let Some(byte) = to_usize(to / 8).and_then(|byte| hybrid.get_mut(start + byte)) {
                *byte |= 1 << (to % 8);
            }
        }
    }
    hybrid
}

/// Levels of `width` bits.
#[derive(Debug, Clone, Copy)]
struct Packed {
    width: u32,
    max: u16,
    wanted: u16,
}

impl Packed {
    /// Counts the levels in the hybrid of runs and packed bits.
    fn count_hybrid(self, levels: &[u8], count: u64) -> Result<Equal> {
        let level_len = to_usize(u64::from(self.width.div_ceil(8))).unwrap_or(0);
        let mut cursor = Cursor::new(levels, 0);
        let mut total = Equal::default();
        let mut left = count;
        while left > 0 {
            let header = cursor.varint()?;
            let (run, part) = if header & 1 == 0 {
                let level =
                    cursor.take(level_len)?.iter().rev().fold(0u32, |level, byte| level << 8 | u32::from(*byte));
                if level > u32::from(self.max) {
                    return Err(damaged());
                }
                let (run, equal) = ((header >> 1).min(left), level == u32::from(self.wanted));
                (run, Equal { count: if equal { run } else { 0 }, first: equal })
            } else {
                // Like pyarrow, refuse groups that are cut off.
                let groups = header >> 1;
                let len = groups.saturating_mul(u64::from(self.width));
                let bytes = cursor.take(to_usize(len).unwrap_or(usize::MAX))?;
                let run = groups.saturating_mul(8).min(left);
                (run, self.count(bytes, run)?)
            };
            // A run of no levels would never end.
            if run == 0 {
                return Err(damaged());
            }
            total.first = if left == count { part.first } else { total.first };
            total.count += part.count;
            left -= run;
        }
        Ok(total)
    }

    /// Counts `count` packed levels.
    fn count(self, bytes: &[u8], count: u64) -> Result<Equal> {
        let needed = (count * u64::from(self.width)).div_ceil(8);
        let bytes = to_usize(needed).and_then(|needed| bytes.get(..needed));
        let bytes = bytes.ok_or_else(|| Error::new(ErrorKind::Truncated { needed, available: 0 }))?;
        let level = |index: u64| packed_level(bytes, index * u64::from(self.width), self.width);
        let first = count > 0 && level(0) == self.wanted;
        if self.width == 1 {
            let ones: u64 = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
            // Bits after the last level do not count.
            let ones = ones - (count..needed * 8).map(|index| u64::from(level(index))).sum::<u64>();
            return Ok(Equal { count: if self.wanted == 1 { ones } else { count - ones }, first });
        }
        let mut equal = 0;
        let mut greatest = 0;
        for index in 0..count {
            let level = level(index);
            equal += u64::from(level == self.wanted);
            greatest = greatest.max(level);
        }
        if greatest > self.max { Err(damaged()) } else { Ok(Equal { count: equal, first }) }
    }
}

/// Returns the level that begins at a bit. It has at most 16 bits.
fn packed_level(bytes: &[u8], bit: u64, width: u32) -> u16 {
    let byte = |offset: u64| {
        let byte = to_usize(bit / 8 + offset).and_then(|byte| bytes.get(byte)).copied();
        u32::from(byte.unwrap_or(0))
    };
    let shift = (bit % 8) as u32;
    let value = (byte(0) | byte(1) << 8 | byte(2) << 16) >> shift;
    (value & ((1 << width) - 1)) as u16
}

fn damaged() -> Error {
    Error::new(ErrorKind::Rows(RowsKind::Levels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::int::to_u64;

    fn levels(bytes: &[u8], max: i16, count: u32) -> Levels<'_> {
        Levels { bytes, encoding: encoding::RLE, max, count }
    }

    fn check(bytes: &[u8], max: i16, count: u32, begin: u64, continues: bool) {
        assert_eq!(levels(bytes, max, count).records().unwrap(), Records { begin, continues }, "{bytes:?}");
    }

    #[test]
    fn records_begin_at_level_zero() {
        // A run of five zeros, then a run of three ones.
        check(&[10, 0, 6, 1], 1, 8, 5, false);
        check(&[6, 1, 10, 0], 1, 8, 5, true);
        // Runs may be longer than the page.
        check(&[200, 1, 0], 1, 8, 8, false);
        // Packed bits, lowest first: 0 1 1 0 1 0 0 0. The first six are values.
        check(&[3, 0b0001_0110], 1, 8, 5, false);
        check(&[3, 0b1101_0110], 1, 6, 3, false);
        // Two bits for each: 0 1 2 3 0 0 1 0.
        check(&[3, 0b1110_0100, 0b0001_0000], 3, 8, 4, false);
        check(&[], 1, 0, 0, false);
    }

    #[test]
    fn values_are_at_the_greatest_level() {
        for (bytes, max, count, values) in [
            (&[10, 0, 6, 1][..], 1, 8, 3),
            (&[3, 0b1101_0110], 1, 6, 3),
            // 0 1 2 3 0 0 1 3 in two bits.
            (&[3, 0b1110_0100, 0b1101_0000], 3, 8, 2),
            // A run of 300 in two bytes, and eight packed levels of nine bits.
            (&[4, 0x2c, 1, 3, 0x2c, 1, 0, 0, 0, 0, 0, 0, 0], 300, 10, 3),
        ] {
            assert_eq!(levels(bytes, max, count).values().unwrap(), values, "{bytes:?}");
        }
    }

    #[test]
    fn every_packed_level_is_found() {
        for width in 1..=12u32 {
            let wanted: Vec<u16> =
                (0..64u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 7) as u16 & ((1 << width) - 1)).collect();
            let mut packed = vec![0u8; 96];
            for (index, level) in wanted.iter().enumerate() {
                for bit in 0..width as usize {
                    let at = index * width as usize + bit;
                    packed[at / 8] |= ((level >> bit & 1) as u8) << (at % 8);
                }
            }
            for (index, level) in wanted.iter().enumerate() {
                let bit = to_u64(index) * u64::from(width);
                assert_eq!(packed_level(&packed, bit, width), *level);
            }
        }
    }

    #[test]
    fn levels_that_begin_with_the_highest_bit() {
        // 0 1 1 0 1 0 0 0, 1 1.
        let hybrid = hybrid_of(&[0b0110_1000, 0b1100_0000], 1, 10);
        assert_eq!(hybrid, [5, 0b0001_0110, 0b0000_0011]);
        check(&hybrid, 1, 10, 5, false);
        // 2 1 0 3 in two bits.
        assert_eq!(hybrid_of(&[0b1001_0011], 3, 4), [3, 0b1100_0110, 0]);
        // 5 2 7 in three bits.
        assert_eq!(hybrid_of(&[0b1010_1011, 0b1000_0000], 7, 3), [3, 0b1101_0101, 0b0000_0001, 0]);
        assert_eq!(hybrid_of(&[0xff; 100], 1, 800), [&[0xc9, 1][..], &[0xff; 100]].concat());
    }

    #[test]
    fn damaged_levels_are_errors() {
        for bytes in [&[][..], &[10], &[0, 0], &[1], &[3], &[0xff; 9], &[0x80, 0x80], &[10, 0], &[4, 1]] {
            assert!(levels(bytes, 1, 8).records().is_err(), "{bytes:?}");
            assert!(levels(bytes, 1, 8).values().is_err(), "{bytes:?}");
        }
        assert!(Levels { bytes: &[0b0110_1000], encoding: encoding::BIT_PACKED, max: 1, count: 8 }.records().is_err());
    }

    #[test]
    fn numbers_are_counted() {
        // A run of five, then eight packed numbers of three bits.
        let bytes = [10, 7, 3, 1, 2, 3];
        assert!(check_hybrid(&bytes, 3, 13).is_ok());
        assert!(check_hybrid(&bytes, 3, 14).is_err());
        assert!(check_hybrid(&bytes[..5], 3, 6).is_err());
        // Numbers of no bits need no bytes.
        assert!(check_hybrid(&[20], 0, 10).is_ok());
        assert!(check_hybrid(&[0, 1, 0, 1], 1, 1).is_err());
        assert!(check_hybrid(&[], 1, 0).is_ok());
    }

    #[test]
    fn levels_above_the_greatest_are_errors() {
        for bytes in [&[16, 3][..], &[3, 0b1110_0100, 0]] {
            assert!(levels(bytes, 2, 8).values().is_err(), "{bytes:?}");
            assert!(levels(bytes, 3, 8).values().is_ok(), "{bytes:?}");
        }
    }
}
