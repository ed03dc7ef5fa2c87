//! Unsigned LEB128 numbers: the writer of the crate, and a checked reader of lengths.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::int::{low_u8, to_u64, to_usize};

/// Appends an unsigned LEB128 number. [`Cursor::varint`] reads it back.
#[inline]
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    if value < 0x80 {
        return out.push(low_u8(value));
    }
    if value >= 1 << 56 {
        while value >= 0x80 {
            out.push(low_u8(value) | 0x80);
            value >>= 7;
        }
        return out.push(low_u8(value));
    }
    // Spreads all groups of seven bits to bytes without a loop, and appends them in one step.
    let len = (63 - value.leading_zeros()) / 7;
    value = (value & 0x00ff_ffff_f000_0000) << 4 | value & 0x0fff_ffff;
    value = (value & 0x0fff_c000_0fff_c000) << 2 | value & 0x0000_3fff_0000_3fff;
    value = (value & 0x3f80_3f80_3f80_3f80) << 1 | value & 0x007f_007f_007f_007f;
    let more = 0x8080_8080_8080_8080 & ((1u64 << (8 * len)) - 1);
    let end = out.len() + usize::try_from(len).unwrap_or(0) + 1;
    out.extend_from_slice(&(value | more).to_le_bytes());
    out.truncate(end);
}

/// Reads a length that must fit in the rest of the input, so that a false claim allocates nothing.
pub fn take_len(cursor: &mut Cursor<'_>) -> Result<usize> {
    let at = cursor.offset();
    let claimed = cursor.varint()?;
    let available = cursor.remaining();
    match to_usize(claimed) {
        Some(len) if len <= available => Ok(len),
        _ => Err(Error::at(ErrorKind::Truncated { needed: claimed, available: to_u64(available) }, at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_every_length_read_back() {
        for bits in 0..64 {
            for value in [1u64 << bits, (1 << bits) - 1, (1 << bits) | 1, u64::MAX >> bits] {
                let mut out = vec![7];
                put_varint(&mut out, value);
                let mut cursor = Cursor::new(&out[1..], 0);
                assert_eq!(cursor.varint(), Ok(value));
                assert_eq!(cursor.remaining(), 0);
            }
        }
    }

    #[test]
    fn a_varint_has_one_byte_per_seven_bits() {
        for (value, bytes) in [
            (0, &[0][..]),
            (0x7f, &[0x7f]),
            (0x80, &[0x80, 1]),
            (300, &[0xac, 2]),
            (0x3fff, &[0xff, 0x7f]),
            (0x4000, &[0x80, 0x80, 1]),
            (u64::MAX, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out, bytes, "{value:#x}");
        }
    }

    #[test]
    fn a_length_must_fit_in_the_rest_of_the_input() {
        assert_eq!(take_len(&mut Cursor::new(&[2, 0, 0], 0)), Ok(2));
        let error = take_len(&mut Cursor::new(&[3, 0, 0], 5)).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (&ErrorKind::Truncated { needed: 3, available: 2 }, Some(5)));
    }
}
