//! Maps the byte strings of one segment to points: strips their common prefix, then numbers the bytes that occur at
//! each position.
//!
//! A hexadecimal digit then takes four bits, and the dashes of a UUID none, so 128 bits hold 32 digits instead of 16
//! bytes. Fewer bits also mean fewer halvings on the way to a separator. The numbering keeps the order of the bytes, so
//! points are weakly monotone. A string that is too short is padded with zero bytes.

use crate::cursor::Cursor;
use crate::error::Result;
use crate::int::{low_u8, saturating_u32, to_u64};
use crate::sieve::code::format::malformed;
use crate::varint::{put_varint, take_len};

/// The width of a point.
const POINT_BITS: u32 = 128;

/// Positions after this many are ignored.
const MAX_PLACES: usize = 64;

/// Marks a byte that is not a symbol.
const ABSENT: u16 = 1 << 15;

/// The bytes that occur at one or more positions.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Alphabet {
    /// In ascending order.
    symbols: Vec<u8>,
    /// For each byte, the number of symbols below it, and [`ABSENT`] if the byte is not a symbol.
    ranks: Vec<u16>,
    bits: u32,
}

impl Alphabet {
    fn new(symbols: Vec<u8>) -> Self {
        let (mut ranks, mut below) = (vec![ABSENT; 256], 0);
        for (byte, rank) in (0..=u8::MAX).zip(&mut ranks) {
            *rank |= below;
            if symbols.get(usize::from(below)) == Some(&byte) {
                *rank &= !ABSENT;
                below += 1;
            }
        }
        let bits = usize::BITS - (symbols.len() - 1).leading_zeros();
        Self { symbols, ranks, bits }
    }
}

/// The mapping from the byte strings of one segment to points. Empty if the keys are numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StringPoints {
    prefix: Vec<u8>,
    alphabets: Vec<Alphabet>,
    /// The index of the alphabet of each position after the prefix.
    places: Vec<u8>,
    /// The sum of the bits of all positions.
    bits: u32,
}

impl StringPoints {
    /// Builds the mapping for keys in ascending order.
    #[allow(single_use_lifetimes, reason = "an `impl Trait` argument cannot elide its lifetime")]
    pub(in crate::sieve) fn of<'a>(keys: impl DoubleEndedIterator<Item = &'a [u8]> + Clone) -> Self {
        let (Some(least), Some(most)) = (keys.clone().next(), keys.clone().next_back()) else { return Self::default() };
        let prefix = least.iter().zip(most).take_while(|(a, b)| a == b).count();
        let mut mapping = Self { prefix: least[..prefix].to_vec(), ..Self::default() };
        let longest = keys.clone().map(<[u8]>::len).max().unwrap_or(0);
        let mut occurs = vec![[false; 256]; (longest - prefix).min(MAX_PLACES)];
        for key in keys {
            // All keys begin with the prefix.
            let rest = key.get(prefix..).unwrap_or_default();
            occurs.iter_mut().zip(rest).for_each(|(occurs, &byte)| occurs[usize::from(byte)] = true);
            occurs.iter_mut().skip(rest.len()).for_each(|occurs| occurs[0] = true);
        }
        for occurs in occurs {
            let symbols: Vec<u8> = (0..=u8::MAX).filter(|&byte| occurs[usize::from(byte)]).collect();
            let existing = mapping.alphabets.iter().position(|alphabet| alphabet.symbols == symbols);
            let number = existing.unwrap_or(mapping.alphabets.len());
            if existing.is_none() {
                mapping.alphabets.push(Alphabet::new(symbols));
            }
            if mapping.bits + mapping.alphabets[number].bits > POINT_BITS {
                mapping.alphabets.truncate(number.max(mapping.alphabets.len() - usize::from(existing.is_none())));
                break;
            }
            mapping.bits += mapping.alphabets[number].bits;
            mapping.places.push(low_u8(to_u64(number)));
        }
        mapping
    }

    pub(in crate::sieve) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Returns the point of a key that begins with the prefix. The key need not belong to the segment.
    pub(in crate::sieve) fn point(&self, key: &[u8]) -> u128 {
        let (mut point, mut part, mut part_bits, mut ranks) = (0u128, 0u64, 0, 0);
        let mut bytes = key.get(self.prefix.len()..).unwrap_or_default().iter();
        for &place in &self.places {
            let alphabet = &self.alphabets[usize::from(place)];
            let rank = alphabet.ranks[usize::from(bytes.next().copied().unwrap_or(0))];
            ranks |= rank;
            if part_bits + alphabet.bits > u64::BITS {
                point = point << part_bits | u128::from(part);
                (part, part_bits) = (0, 0);
            }
            part = part << alphabet.bits | u64::from(rank);
            part_bits += alphabet.bits;
        }
        // Keys of the segment consist of symbols.
        if ranks & ABSENT == 0 { point << part_bits | u128::from(part) } else { self.point_above(key, 0) }
    }

    /// Like [`Self::point`], but the lowest `ignored_bits` bits may differ.
    #[inline]
    pub(in crate::sieve) fn point_above(&self, key: &[u8], ignored_bits: u32) -> u128 {
        let mut left = self.bits;
        let mut point = 0u128;
        let mut bytes = key.get(self.prefix.len()..).unwrap_or_default().iter();
        for &place in &self.places {
            if left <= ignored_bits {
                return point.checked_shl(left).unwrap_or(0);
            }
            let alphabet = &self.alphabets[usize::from(place)];
            let byte = bytes.next().copied().unwrap_or(0);
            let below = usize::from(alphabet.ranks[usize::from(byte)] & !ABSENT);
            left -= alphabet.bits;
            let shifted = point.checked_shl(alphabet.bits).unwrap_or(0);
            match alphabet.symbols.get(below) {
                Some(&symbol) if symbol == byte => point = shifted | u128::from(to_u64(below)),
                // Between two symbols: the first point that continues with the greater symbol.
                Some(_) => return (shifted | u128::from(to_u64(below))).checked_shl(left).unwrap_or(0),
                // Above all symbols: the last point that continues with the last symbol.
                None => {
                    let last = shifted | u128::from(to_u64(alphabet.symbols.len() - 1));
                    let rest = 1u128.checked_shl(left).map_or(u128::MAX, |end| end - 1);
                    return last.checked_shl(left).unwrap_or(0) | rest;
                }
            }
        }
        point
    }

    pub(in crate::sieve) fn write(&self, body: &mut Vec<u8>) {
        put_varint(body, to_u64(self.prefix.len()));
        body.extend_from_slice(&self.prefix);
        body.push(low_u8(to_u64(self.alphabets.len())));
        for alphabet in &self.alphabets {
            // A full alphabet of 256 symbols is written as 0, without the list.
            body.push(low_u8(to_u64(alphabet.symbols.len())));
            if alphabet.symbols.len() < 256 {
                body.extend_from_slice(&alphabet.symbols);
            }
        }
        body.push(low_u8(to_u64(self.places.len())));
        body.extend_from_slice(&self.places);
    }

    pub(in crate::sieve) fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        let prefix_len = take_len(cursor)?;
        let mut mapping = Self { prefix: cursor.take(prefix_len)?.to_vec(), ..Self::default() };
        for _ in 0..cursor.u8()? {
            let symbols = match cursor.u8()? {
                0 => (0..=u8::MAX).collect(),
                count => cursor.take(usize::from(count))?.to_vec(),
            };
            if !symbols.is_sorted_by(|a, b| a < b) {
                return Err(malformed(cursor, "alphabet"));
            }
            mapping.alphabets.push(Alphabet::new(symbols));
        }
        let num_places = usize::from(cursor.u8()?);
        mapping.places = cursor.take(num_places)?.to_vec();
        let bits = mapping.places.iter().map(|&place| Some(mapping.alphabets.get(usize::from(place))?.bits));
        let bits = bits.sum::<Option<u32>>().filter(|&bits| bits <= POINT_BITS && num_places <= MAX_PLACES);
        mapping.bits = bits.ok_or_else(|| malformed(cursor, "places"))?;
        debug_assert!(saturating_u32(num_places) <= POINT_BITS);
        Ok(mapping)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sieve::key::axis::{Bytes, Key, Position};
    use proptest::prelude::*;

    fn text() -> impl Strategy<Value = Bytes> {
        let byte = prop_oneof![Just(0u8), Just(1), Just(b'a'), Just(b'f'), Just(255), any::<u8>()];
        proptest::collection::vec(byte, 0..12).prop_map(|text| Bytes::new(&text))
    }

    proptest! {
        #[test]
        fn points_keep_the_order_of_keys_inside_and_outside_the_segment(keys in proptest::collection::btree_set(text(), 1..20), a in text(), b in text()) {
            let keys: Vec<Bytes> = keys.into_iter().collect();
            let mapping = StringPoints::of(keys.iter().map(Bytes::as_slice));
            let mut body = Vec::new();
            mapping.write(&mut body);
            prop_assert_eq!(&StringPoints::read(&mut Cursor::new(&body, 0)).unwrap(), &mapping);
            let mut all = keys.clone();
            all.extend([a, b]);
            all.sort();
            let places: Vec<(u8, u128)> = all
                .iter()
                .map(|key| match key.position(&mapping) {
                    Position::Below => (0, 0),
                    Position::At(point) => (1, point),
                    Position::Above => (2, 0),
                })
                .collect();
            prop_assert!(places.is_sorted(), "{places:?}");
        }
    }

    #[test]
    fn a_uuid_takes_four_bits_a_digit() {
        let keys: Vec<Bytes> =
            (0..=255u8).map(|i| Bytes::new(format!("{:02x}-{:02x}", i, i.wrapping_mul(37)).as_bytes())).collect();
        let mapping = StringPoints::of(keys.iter().map(Bytes::as_slice));
        assert_eq!(mapping.bits, 16);
        assert_eq!(mapping.point(b"ff-ff"), 0xffff);
        assert_eq!(mapping.point(b"0g-00"), 0x0fff);
        assert_eq!(mapping.point(b"0:-00"), 0x0a00);
    }
}
