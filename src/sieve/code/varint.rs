//! Numbers and lengths of stored parts: unsigned LEB128.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::int::{low_u8, to_u64, to_usize};

/// Appends an unsigned LEB128 number.
#[inline]
pub(in crate::sieve) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
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
    // The groups of seven bits are spread to bytes all at once, and one append serves them all.
    let len = (63 - value.leading_zeros()) / 7;
    value = (value & 0x00ff_ffff_f000_0000) << 4 | value & 0x0fff_ffff;
    value = (value & 0x0fff_c000_0fff_c000) << 2 | value & 0x0000_3fff_0000_3fff;
    value = (value & 0x3f80_3f80_3f80_3f80) << 1 | value & 0x007f_007f_007f_007f;
    let more = 0x8080_8080_8080_8080 & ((1u64 << (8 * len)) - 1);
    let end = out.len() + usize::try_from(len).unwrap_or(0) + 1;
    out.extend_from_slice(&(value | more).to_le_bytes());
    out.truncate(end);
}

/// Reads a length that must fit into what is left of the input, so that nothing is allocated by a mere claim.
pub(in crate::sieve) fn take_len(cursor: &mut Cursor<'_>) -> Result<usize> {
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
}
