//! Byte strings as keys.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::int::{to_u64, to_usize};
use crate::sieve::key::axis::{Bytes, Key, MAX_KEY_BYTES, Position};
use crate::sieve::key::string_points::StringPoints;
use crate::varint::{put_varint, take_len};

impl Key for Bytes {
    const CODE: u8 = 3;
    const POINT_BYTES: usize = 16;
    const POINTS_DIFFER: bool = false;

    fn common_bits(&self, other: &Self) -> u32 {
        let (a, b) = (self.as_slice(), other.as_slice());
        let same = a.iter().zip(b).take_while(|(x, y)| x == y).count();
        let bits = |byte_index: usize, byte: u8| crate::int::saturating_u32(byte_index) * 8 + byte.leading_zeros();
        match (a.get(same), b.get(same)) {
            (Some(x), Some(y)) => bits(same, x ^ y),
            // One key is a prefix of the other, and is padded with zeros.
            _ => {
                let longer = if a.len() > b.len() { a } else { b };
                let rest = longer[same..].iter().position(|&byte| byte != 0);
                rest.map_or(u32::MAX, |zeros| bits(same + zeros, longer[same + zeros]))
            }
        }
    }

    fn point_mapping(keys: &[Self]) -> StringPoints {
        StringPoints::of(keys.iter().map(Bytes::as_slice))
    }

    fn point(&self, mapping: &StringPoints) -> u128 {
        mapping.point(self.as_slice())
    }

    fn position(&self, mapping: &StringPoints) -> Position {
        if self.as_slice().starts_with(mapping.prefix()) {
            Position::At(self.point(mapping))
        } else if self.as_slice() < mapping.prefix() {
            Position::Below
        } else {
            Position::Above
        }
    }

    #[inline]
    fn approximate_point(&self, mapping: &StringPoints, ignored_bits: u32) -> Option<u128> {
        self.as_slice().starts_with(mapping.prefix()).then(|| mapping.point_above(self.as_slice(), ignored_bits))
    }

    fn prefix_bytes(&self) -> &[u8] {
        self.as_slice()
    }

    #[inline]
    fn prefix_word(&self, prefix: &[u8]) -> u64 {
        match self.as_slice().strip_prefix(prefix) {
            Some(rest) => match rest.first_chunk() {
                Some(head) => u64::from_be_bytes(*head),
                None => rest
                    .iter()
                    .zip([56, 48, 40, 32, 24, 16, 8])
                    .fold(0, |head, (&byte, up)| head | u64::from(byte) << up),
            },
            None if self.as_slice() < prefix => 0,
            None => u64::MAX,
        }
    }

    fn heap_bytes(&self) -> usize {
        self.as_slice().len()
    }

    fn write_after(&self, previous: Option<&Self>, out: &mut Vec<u8>) {
        let bytes = self.as_slice();
        let same = previous.map_or(0, |key| key.as_slice().iter().zip(bytes).take_while(|(x, y)| x == y).count());
        put_varint(out, to_u64(same));
        put_varint(out, to_u64(bytes.len() - same));
        out.extend_from_slice(&bytes[same..]);
    }

    fn read_after(previous: Option<&Self>, cursor: &mut Cursor<'_>) -> Result<Self> {
        let at = cursor.offset();
        let malformed = || Error::at(ErrorKind::SieveMalformed { field: "key" }, at);
        let same = to_usize(cursor.varint()?).ok_or_else(malformed)?;
        let shared = previous.map_or(&[][..], Self::as_slice).get(..same).ok_or_else(malformed)?;
        let len = take_len(cursor)?;
        let rest = cursor.take(len)?;
        if shared.len() + rest.len() > MAX_KEY_BYTES {
            return Err(malformed());
        }
        Ok(Self::concat(shared, rest))
    }

    fn ordinal(&self) -> Vec<u8> {
        self.as_slice().to_vec()
    }

    fn from_ordinal(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= MAX_KEY_BYTES).then(|| Self::new(bytes))
    }
}
