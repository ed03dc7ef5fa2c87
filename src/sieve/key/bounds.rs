//! Keys as bounds of a unit: short enough for statistics, and stored as differences from any other key.

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::int::low_u64;
use crate::sieve::key::axis::{Bytes, Key, MAX_KEY_BYTES};
use crate::varint::put_varint;

/// The length to which longer byte strings are cut. Statistics with a bound of this length are not exact.
pub const CUT_BYTES: usize = 80;

/// A key as the least or greatest key of a unit.
pub trait Bound: Sized {
    /// Returns the longest bound that statistics store for a least key. It is not greater than the key.
    fn cut_below(self) -> Self;
    /// Returns the bound that statistics store for a greatest key. It is not less than the key.
    fn cut_above(self) -> Self;
    /// Returns true if the bound may differ from the value that it was made of.
    fn is_cut(&self) -> bool;
    /// Writes the key as a difference from another key, which may be greater.
    fn write_near(&self, other: Option<&Self>, out: &mut Vec<u8>);
    /// Reads a key written by `write_near`.
    fn read_near(other: Option<&Self>, cursor: &mut Cursor<'_>) -> Result<Self>;
}

impl Bound for u64 {
    fn cut_below(self) -> Self {
        self
    }

    fn cut_above(self) -> Self {
        self
    }

    fn is_cut(&self) -> bool {
        false
    }

    fn write_near(&self, other: Option<&Self>, out: &mut Vec<u8>) {
        put_varint(out, zigzag(self.wrapping_sub(other.copied().unwrap_or_default())));
    }

    fn read_near(other: Option<&Self>, cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(other.copied().unwrap_or_default().wrapping_add(unzigzag(cursor.varint()?)))
    }
}

impl Bound for u128 {
    fn cut_below(self) -> Self {
        self
    }

    fn cut_above(self) -> Self {
        self
    }

    fn is_cut(&self) -> bool {
        false
    }

    fn write_near(&self, other: Option<&Self>, out: &mut Vec<u8>) {
        let delta = self.wrapping_sub(other.copied().unwrap_or_default());
        let zigzag = delta << 1 ^ (delta.cast_signed() >> 127).cast_unsigned();
        put_varint(out, low_u64(zigzag >> 64));
        put_varint(out, low_u64(zigzag));
    }

    fn read_near(other: Option<&Self>, cursor: &mut Cursor<'_>) -> Result<Self> {
        let zigzag = Self::from(cursor.varint()?) << 64 | Self::from(cursor.varint()?);
        let delta = zigzag >> 1 ^ (zigzag & 1).wrapping_neg();
        Ok(other.copied().unwrap_or_default().wrapping_add(delta))
    }
}

impl Bound for Bytes {
    fn cut_below(self) -> Self {
        if self.as_slice().len() > CUT_BYTES { Self::new(&self.as_slice()[..CUT_BYTES]) } else { self }
    }

    fn cut_above(self) -> Self {
        if self.as_slice().len() <= CUT_BYTES {
            return self;
        }
        let mut bound = self.as_slice()[..CUT_BYTES].to_vec();
        // The least byte string of this length that is greater than every one with this beginning.
        let Some(last) = bound.iter().rposition(|&byte| byte != 0xff) else { return self };
        bound[last] += 1;
        bound[last + 1..].fill(0);
        Self::new(&bound)
    }

    fn is_cut(&self) -> bool {
        // A key of the greatest length may be the beginning of a longer value.
        matches!(self.as_slice().len(), CUT_BYTES | MAX_KEY_BYTES)
    }

    fn write_near(&self, other: Option<&Self>, out: &mut Vec<u8>) {
        self.write_after(other, out);
    }

    fn read_near(other: Option<&Self>, cursor: &mut Cursor<'_>) -> Result<Self> {
        Self::read_after(other, cursor)
    }
}

/// Maps small differences of both signs to small numbers.
pub(in crate::sieve) fn zigzag(delta: u64) -> u64 {
    delta << 1 ^ (delta.cast_signed() >> 63).cast_unsigned()
}

/// Reverses [`zigzag`].
pub(in crate::sieve) fn unzigzag(zigzag: u64) -> u64 {
    zigzag >> 1 ^ (zigzag & 1).wrapping_neg()
}

/// Reads a least and a greatest key.
pub(in crate::sieve) fn take_bounds<K: Key>(cursor: &mut Cursor<'_>, near: Option<&K>) -> Result<(K, K)> {
    let at = cursor.offset();
    let least = K::read_near(near, cursor)?;
    let most = K::read_after(Some(&least), cursor)?;
    if least > most {
        return Err(Error::at(ErrorKind::SieveMalformed { field: "bounds of keys" }, at));
    }
    Ok((least, most))
}

/// Writes a least and a greatest key.
pub(in crate::sieve) fn put_bounds<K: Key>(out: &mut Vec<u8>, least: &K, most: &K, near: Option<&K>) {
    least.write_near(near, out);
    most.write_after(Some(least), out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip<K: Key>(keys: &[K]) {
        let mut out = Vec::new();
        let mut near = None;
        for key in keys {
            key.write_near(near, &mut out);
            near = Some(key);
        }
        let mut cursor = Cursor::new(&out, 0);
        let mut near: Option<K> = None;
        for key in keys {
            let read = K::read_near(near.as_ref(), &mut cursor).unwrap();
            assert_eq!(&read, key);
            near = Some(read);
        }
        assert_eq!(cursor.remaining(), 0);
    }

    #[test]
    fn the_bound_of_a_value_that_is_longer_than_a_key_is_cut() {
        for len in [MAX_KEY_BYTES, 2000] {
            let bound = Bytes::new(&vec![0xff; len]).cut_above();
            assert!(bound.as_slice().len() == MAX_KEY_BYTES && bound.is_cut());
        }
        assert!(!Bytes::new(&[0xff; 1000]).cut_above().is_cut());
    }

    proptest! {
        #[test]
        fn keys_in_any_order_read_back(words: Vec<u64>, wides: Vec<u128>, texts: Vec<Vec<u8>>) {
            round_trip(&words);
            round_trip(&wides);
            round_trip(&texts.iter().map(|text| Bytes::new(text)).collect::<Vec<_>>());
        }

        #[test]
        fn bounds_enclose_their_key_and_stay_short(
            text in proptest::collection::vec(prop_oneof![Just(0xffu8), Just(0), any::<u8>()], 0..200)
        ) {
            let key = Bytes::new(&text);
            let (below, above) = (key.clone().cut_below(), key.clone().cut_above());
            prop_assert!(below <= key && key <= above);
            prop_assert!(below.as_slice().len() <= CUT_BYTES);
            prop_assert!(below == key || below.is_cut());
            prop_assert!(above == key || above.is_cut());
        }
    }

    #[test]
    fn a_beginning_of_the_greatest_bytes_has_no_short_bound() {
        let key = Bytes::new(&[0xff; 100]);
        assert_eq!(key.clone().cut_above(), key);
        assert_eq!(zigzag(0u64.wrapping_sub(1)), 1);
        assert_eq!(unzigzag(zigzag(1 << 63)), 1 << 63);
    }
}
