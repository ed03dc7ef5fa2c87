//! Repetition levels, which tell where records begin.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::int::{to_u64, to_usize};

/// The records of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Records {
    /// Number of records that begin in the page.
    pub(super) begin: u64,
    /// True if the page continues a record of the page before.
    pub(super) continues: bool,
}

/// Counts the records of a page by its repetition levels, in the hybrid of runs and packed bits.
pub(super) fn count_hybrid(levels: &[u8], max_level: i16, num_values: u32) -> Result<Records> {
    let width = u16::BITS - max_level.unsigned_abs().leading_zeros();
    let value_len = to_usize(u64::from(width.div_ceil(8))).unwrap_or(0);
    let mut cursor = Cursor::new(levels, 0);
    let (mut left, mut begin, mut first) = (u64::from(num_values), 0, None);
    while left > 0 {
        let header = cursor.varint()?;
        if header & 1 == 0 {
            let run = (header >> 1).min(left);
            let is_zero = cursor.take(value_len)?.iter().all(|byte| *byte == 0);
            // A run of no values would never end.
            if run == 0 {
                return Err(Error::new(ErrorKind::IntegerRange));
            }
            first = first.or(Some(is_zero));
            begin += if is_zero { run } else { 0 };
            left -= run;
        } else {
            let groups = header >> 1;
            if groups == 0 {
                return Err(Error::new(ErrorKind::IntegerRange));
            }
            // The last group may be cut off after the last value.
            let len = groups.saturating_mul(u64::from(width)).min(to_u64(cursor.remaining()));
            let bytes = cursor.take(to_usize(len).unwrap_or(usize::MAX))?;
            let run = groups.saturating_mul(8).min(left);
            let (zeros, starts) = zeros(bytes, width, run, false)?;
            first = first.or(Some(starts));
            begin += zeros;
            left -= run;
        }
    }
    Ok(Records { begin, continues: first == Some(false) })
}

/// Counts the records of a page by its repetition levels in the deprecated encoding, which begins with the highest bit.
pub(super) fn count_packed(levels: &[u8], max_level: i16, num_values: u32) -> Result<Records> {
    let width = u16::BITS - max_level.unsigned_abs().leading_zeros();
    let (begin, starts) = zeros(levels, width, num_values.into(), true)?;
    Ok(Records { begin, continues: num_values > 0 && !starts })
}

/// Counts the zeros among `count` values of `width` bits, and returns whether the first one is zero.
fn zeros(bytes: &[u8], width: u32, count: u64, high_first: bool) -> Result<(u64, bool)> {
    let needed = (count * u64::from(width)).div_ceil(8);
    if needed > to_u64(bytes.len()) {
        return Err(Error::new(ErrorKind::Truncated { needed, available: to_u64(bytes.len()) }));
    }
    let bit = |index: u64| {
        let byte = to_usize(index / 8).and_then(|byte| bytes.get(byte)).copied().unwrap_or(0);
        let shift = if high_first { 7 - index % 8 } else { index % 8 };
        byte >> shift & 1
    };
    if width == 1 {
        let ones: u32 = bytes.iter().take(to_usize(needed).unwrap_or(0)).map(|byte| byte.count_ones()).sum();
        // Bits after the last value do not count.
        let padding = (count..needed * 8).map(|index| u64::from(bit(index))).sum::<u64>();
        return Ok((count - (u64::from(ones) - padding), count > 0 && bit(0) == 0));
    }
    let is_zero = |value: u64| (value * u64::from(width)..(value + 1) * u64::from(width)).all(|index| bit(index) == 0);
    Ok((to_u64((0..count).filter(|value| is_zero(*value)).count()), count > 0 && is_zero(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(levels: &[u8], max_level: i16, num_values: u32, begin: u64, continues: bool) {
        assert_eq!(count_hybrid(levels, max_level, num_values).unwrap(), Records { begin, continues }, "{levels:?}");
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
        check(&[3, 0b1110_0100, 0b0001_0000], 2, 8, 4, false);
        check(&[], 1, 0, 0, false);
        assert_eq!(count_packed(&[0b0110_1000], 1, 8).unwrap(), Records { begin: 5, continues: false });
        assert_eq!(count_packed(&[0b1000_0000], 1, 2).unwrap(), Records { begin: 1, continues: true });
    }

    #[test]
    fn damaged_levels_are_errors() {
        for levels in [&[][..], &[10], &[0, 0], &[1], &[3], &[0xff; 9], &[0x80, 0x80]] {
            assert!(count_hybrid(levels, 1, 8).is_err(), "{levels:?}");
        }
        assert!(count_packed(&[], 1, 1).is_err());
    }
}
