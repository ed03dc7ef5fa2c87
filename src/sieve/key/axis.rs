//! Typed values as keys on an ordered axis. The mapping is weakly monotone, and injective where `exact` returns true.

use std::cmp::Ordering;
use std::fmt::{Debug, Formatter};
use std::hash::{Hash, Hasher};

use crate::cursor::Cursor;
use crate::error::{Error, ErrorKind, Result};
use crate::int::{low_u8, low_u64, to_u64};
use crate::sieve::key::bounds::Bound;
use crate::sieve::key::hash::HashedKey;
use crate::sieve::key::string_points::StringPoints;
use crate::varint::put_varint;

/// Longer byte strings are truncated to this length. Truncation can only cause ties, and so false positives. It also
/// bounds the size of every stored key.
pub const MAX_KEY_BYTES: usize = 1024;

/// How a column's values became keys. Stored with the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum AxisType {
    /// False sorts before true.
    Boolean = 0,
    /// Signed integers, dates, times, timestamps in the column's own unit, and decimals of up to 18 digits.
    Signed = 1,
    /// Unsigned integers.
    Unsigned = 2,
    /// Floats and doubles. NaN is not on the axis.
    Float = 3,
    /// Decimals of up to 38 digits.
    WideSigned = 4,
    /// UUIDs and other 16-byte values, in byte order.
    Uuid = 5,
    /// Strings, binary values and composite keys, in byte order.
    Bytes = 6,
    /// Hashes of values whose order is not byte order. Supports equality only.
    Hashed = 7,
}

impl AxisType {
    /// Returns true if different values always have different keys.
    pub fn exact(self) -> bool {
        !matches!(self, Self::Bytes | Self::Hashed)
    }

    /// Returns true if the axis supports intervals, rays and prefixes.
    pub fn ordered(self) -> bool {
        self != Self::Hashed
    }

    pub(in crate::sieve) fn code(self) -> u8 {
        // The discriminant of a fieldless `repr(u8)` enum is its stored code.
        self as u8
    }

    pub(in crate::sieve) fn from_code(code: u8) -> Option<Self> {
        use AxisType as T;
        [T::Boolean, T::Signed, T::Unsigned, T::Float, T::WideSigned, T::Uuid, T::Bytes, T::Hashed]
            .into_iter()
            .find(|axis| axis.code() == code)
    }
}

/// Returns the key of a signed integer: its bits with the sign bit flipped.
pub fn signed(value: i64) -> u64 {
    value.cast_unsigned() ^ 1 << 63
}

/// Returns the key of a wide decimal's unscaled value.
pub fn wide_signed(value: i128) -> u128 {
    value.cast_unsigned() ^ 1 << 127
}

/// Returns the key of a float or double. Both zeros have the same key. NaN has none; it is counted separately.
pub fn double(value: f64) -> Option<u64> {
    // Adding zero turns -0.0 into 0.0 and changes nothing else.
    let bits = (value + 0.0).to_bits();
    let negative = bits >> 63 == 1;
    (!value.is_nan()).then_some(if negative { !bits } else { bits ^ 1 << 63 })
}

/// Returns the key of a UUID or other 16-byte value.
pub fn uuid(value: [u8; 16]) -> u128 {
    u128::from_be_bytes(value)
}

/// A byte string as a key, truncated to [`MAX_KEY_BYTES`].
#[derive(Clone)]
pub struct Bytes(Stored);

/// The longest byte strings that are stored without an allocation, such as a UUID with dashes.
const MAX_INLINE: usize = 38;

#[derive(Clone)]
enum Stored {
    Inline { len: u8, bytes: [u8; MAX_INLINE] },
    Allocated(Box<[u8]>),
}

impl Bytes {
    /// Returns the key of a string or binary value.
    #[inline]
    pub fn new(value: &[u8]) -> Self {
        if value.len() > MAX_INLINE {
            return Self(Stored::Allocated(value[..value.len().min(MAX_KEY_BYTES)].into()));
        }
        let mut bytes = [0; MAX_INLINE];
        bytes[..value.len()].copy_from_slice(value);
        Self(Stored::Inline { len: low_u8(to_u64(value.len())), bytes })
    }

    /// Returns the key of two byte strings in sequence, which are not too long.
    pub(super) fn concat(start: &[u8], end: &[u8]) -> Self {
        let len = start.len() + end.len();
        if len > MAX_INLINE {
            return Self(Stored::Allocated([start, end].concat().into()));
        }
        let mut bytes = [0; MAX_INLINE];
        bytes[..start.len()].copy_from_slice(start);
        bytes[start.len()..len].copy_from_slice(end);
        Self(Stored::Inline { len: low_u8(to_u64(len)), bytes })
    }

    /// Returns the greatest key that begins with `prefix`.
    pub fn last_with_prefix(prefix: &[u8]) -> Self {
        let mut bytes = prefix[..prefix.len().min(MAX_KEY_BYTES)].to_vec();
        bytes.resize(MAX_KEY_BYTES, 0xff);
        Self::new(&bytes)
    }

    /// Returns the bytes of the key.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Stored::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Stored::Allocated(bytes) => bytes,
        }
    }
}

impl Debug for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Bytes").field(&self.as_slice()).finish()
    }
}

impl PartialEq for Bytes {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Bytes {}

impl PartialOrd for Bytes {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl Hash for Bytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

/// Builds a composite key whose byte order equals the order of its columns. Ranges and prefixes apply to leading
/// columns.
#[derive(Debug, Default, Clone)]
pub struct Composite(Vec<u8>);

impl Composite {
    /// Appends a 64-bit key.
    pub fn word(mut self, key: u64) -> Self {
        self.0.extend_from_slice(&key.to_be_bytes());
        self
    }

    /// Appends a 128-bit key.
    pub fn wide(mut self, key: u128) -> Self {
        self.0.extend_from_slice(&key.to_be_bytes());
        self
    }

    /// Appends a byte string. Zero bytes are escaped so that the terminator sorts before every continuation.
    pub fn bytes(mut self, value: &[u8]) -> Self {
        for &byte in value {
            self.0.push(byte);
            if byte == 0 {
                self.0.push(0xff);
            }
        }
        self.0.extend_from_slice(&[0, 0]);
        self
    }

    /// Returns the key so far. If only leading columns were added, it is a prefix of all keys that share them.
    pub fn key(&self) -> Bytes {
        Bytes::new(&self.0)
    }
}

/// The position of a key relative to a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Below every key that has the segment's prefix.
    Below,
    /// At this point of the segment.
    At(u128),
    /// Above every key that has the segment's prefix.
    Above,
}

/// A key of one of three types: `u64`, `u128` or [`Bytes`].
pub trait Key: Bound + HashedKey + Clone + Ord + Debug + Send + Sync {
    /// The code of the key type. Every part stores it, and readers reject parts of another type.
    const CODE: u8;
    /// The size of a stored point in bytes.
    const POINT_BYTES: usize;
    /// True if different keys always have different points.
    const POINTS_DIFFER: bool;

    /// Counts the leading bits that two keys share if both are padded with zeros. Returns `u32::MAX` if they share all
    /// bits.
    fn common_bits(&self, other: &Self) -> u32;
    /// Returns the mapping from keys to points for a segment with these keys, which must ascend.
    fn point_mapping(keys: &[Self]) -> StringPoints;
    /// Returns the point of a key of the segment.
    fn point(&self, mapping: &StringPoints) -> u128;
    /// Returns the position of any key relative to the segment.
    fn position(&self, mapping: &StringPoints) -> Position;
    /// Returns the point of a key that need not belong to the segment, or `None` if it is below or above all points.
    /// The lowest `ignored_bits` bits may differ from the point of [`Key::position`].
    fn approximate_point(&self, mapping: &StringPoints, ignored_bits: u32) -> Option<u128>;
    /// Returns the bytes of the key that a common prefix can consist of. Empty for numbers.
    fn prefix_bytes(&self) -> &[u8];
    /// Returns eight bytes that sort like the keys, apart from ties: the bytes after `prefix` if the key begins with
    /// it.
    fn prefix_word(&self, prefix: &[u8]) -> u64;
    /// Returns the bytes of a byte string, which are limited in a page. Zero for numbers.
    fn heap_bytes(&self) -> usize;
    /// Writes the key as a difference from the previous one, which must not be greater.
    fn write_after(&self, previous: Option<&Self>, out: &mut Vec<u8>);
    /// Reads a key written by `write_after`.
    fn read_after(previous: Option<&Self>, cursor: &mut Cursor<'_>) -> Result<Self>;
    /// Returns the key as bytes that sort like keys, so that callers can partition the axis without knowing its type.
    fn ordinal(&self) -> Vec<u8>;
    /// Parses bytes returned by `ordinal`. Returns `None` if they are not valid.
    fn from_ordinal(bytes: &[u8]) -> Option<Self>;
}

impl Key for u64 {
    const CODE: u8 = 1;
    const POINT_BYTES: usize = 8;
    const POINTS_DIFFER: bool = true;

    #[inline]
    fn common_bits(&self, other: &Self) -> u32 {
        if self == other { u32::MAX } else { (self ^ other).leading_zeros() }
    }

    fn point_mapping(_: &[Self]) -> StringPoints {
        StringPoints::default()
    }

    #[inline]
    fn point(&self, _: &StringPoints) -> u128 {
        u128::from(*self)
    }

    #[inline]
    fn position(&self, _: &StringPoints) -> Position {
        Position::At(u128::from(*self))
    }

    #[inline]
    fn approximate_point(&self, _: &StringPoints, _: u32) -> Option<u128> {
        Some(u128::from(*self))
    }

    fn prefix_bytes(&self) -> &[u8] {
        &[]
    }

    #[inline]
    fn prefix_word(&self, _: &[u8]) -> u64 {
        *self
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    #[inline]
    fn write_after(&self, previous: Option<&Self>, out: &mut Vec<u8>) {
        put_varint(out, self.wrapping_sub(previous.copied().unwrap_or_default()));
    }

    fn read_after(previous: Option<&Self>, cursor: &mut Cursor<'_>) -> Result<Self> {
        let at = cursor.offset();
        let key = previous.copied().unwrap_or_default().checked_add(cursor.varint()?);
        key.ok_or(Error::at(ErrorKind::IntegerRange, at))
    }

    fn ordinal(&self) -> Vec<u8> {
        self.to_be_bytes().to_vec()
    }

    fn from_ordinal(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_be_bytes)
    }
}

impl Key for u128 {
    const CODE: u8 = 2;
    const POINT_BYTES: usize = 16;
    const POINTS_DIFFER: bool = true;

    #[inline]
    fn common_bits(&self, other: &Self) -> u32 {
        if self == other { u32::MAX } else { (self ^ other).leading_zeros() }
    }

    fn point_mapping(_: &[Self]) -> StringPoints {
        StringPoints::default()
    }

    #[inline]
    fn point(&self, _: &StringPoints) -> u128 {
        *self
    }

    #[inline]
    fn position(&self, _: &StringPoints) -> Position {
        Position::At(*self)
    }

    #[inline]
    fn approximate_point(&self, _: &StringPoints, _: u32) -> Option<u128> {
        Some(*self)
    }

    fn prefix_bytes(&self) -> &[u8] {
        &[]
    }

    #[inline]
    fn prefix_word(&self, _: &[u8]) -> u64 {
        low_u64(*self >> 64)
    }

    fn heap_bytes(&self) -> usize {
        0
    }

    fn write_after(&self, previous: Option<&Self>, out: &mut Vec<u8>) {
        let delta = self.wrapping_sub(previous.copied().unwrap_or_default());
        put_varint(out, low_u64(delta >> 64));
        put_varint(out, low_u64(delta));
    }

    fn read_after(previous: Option<&Self>, cursor: &mut Cursor<'_>) -> Result<Self> {
        let at = cursor.offset();
        let delta = u128::from(cursor.varint()?) << 64 | u128::from(cursor.varint()?);
        let key = previous.copied().unwrap_or_default().checked_add(delta);
        key.ok_or(Error::at(ErrorKind::IntegerRange, at))
    }

    fn ordinal(&self) -> Vec<u8> {
        self.to_be_bytes().to_vec()
    }

    fn from_ordinal(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self::from_be_bytes)
    }
}

/// Reads a point.
pub(in crate::sieve) fn take_point<K: Key>(cursor: &mut Cursor<'_>) -> Result<u128> {
    let bytes = cursor.take(K::POINT_BYTES)?;
    let mut wide = [0; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    Ok(u128::from_le_bytes(wide))
}

/// Writes a point.
pub(in crate::sieve) fn put_point<K: Key>(out: &mut Vec<u8>, point: u128) {
    out.extend_from_slice(&point.to_le_bytes()[..K::POINT_BYTES]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn extreme_values_keep_their_order() {
        assert!(signed(i64::MIN) == 0 && signed(-1) < signed(0) && signed(i64::MAX) == u64::MAX);
        assert!(wide_signed(i128::MIN) == 0 && wide_signed(-1) < wide_signed(0));
        let doubles = [f64::NEG_INFINITY, f64::MIN, -1.0, -5e-324, 0.0, 5e-324, 1.0, f64::MAX, f64::INFINITY];
        assert!(doubles.windows(2).all(|pair| double(pair[0]) < double(pair[1])));
        assert_eq!(double(-0.0), double(0.0));
        assert_eq!(double(f64::NAN), None);
        assert_eq!(double(-f64::NAN), None);
    }

    #[test]
    fn only_byte_strings_take_memory_outside_the_key() {
        assert_eq!((Key::heap_bytes(&5u64), Key::heap_bytes(&5u128), Bytes::new(b"five").heap_bytes()), (0, 0, 4));
    }

    #[test]
    fn byte_strings_share_the_same_bits_in_either_order() {
        for (a, b, bits) in [("a", "ab", 9), ("a", "a\0\0\u{1}", 31), ("ab", "ac", 15), ("a", "a\0", u32::MAX)] {
            let (a, b) = (Bytes::new(a.as_bytes()), Bytes::new(b.as_bytes()));
            assert_eq!((a.common_bits(&b), b.common_bits(&a)), (bits, bits));
        }
    }

    #[test]
    fn a_key_has_at_most_the_greatest_length() {
        let half = MAX_KEY_BYTES / 2;
        let previous = Bytes::new(&vec![1; MAX_KEY_BYTES]);
        let key = Bytes::new(&[vec![1; half], vec![2; MAX_KEY_BYTES - half]].concat());
        let mut written = Vec::new();
        key.write_after(Some(&previous), &mut written);
        assert_eq!(Bytes::read_after(Some(&previous), &mut Cursor::new(&written, 0)), Ok(key));
        let mut longer = Vec::new();
        put_varint(&mut longer, to_u64(MAX_KEY_BYTES));
        longer.extend([1, 7]);
        let error = Bytes::read_after(Some(&previous), &mut Cursor::new(&longer, 0)).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::SieveMalformed { field: "key" });
    }

    #[test]
    fn composite_keys_sort_by_their_columns() {
        let key = |text: &[u8], word| Composite::default().bytes(text).word(word).key();
        let ordered =
            [key(b"", 9), key(b"\0", 0), key(b"\0a", 0), key(b"a", 3), key(b"a", 4), key(b"a\0", 0), key(b"ab", 0)];
        assert!(ordered.windows(2).all(|pair| pair[0] < pair[1]));
    }

    proptest! {
        #[test]
        fn common_bits_of_byte_strings_nest(a in short(), b in short(), c in short()) {
            let mut keys = [Bytes::new(&a), Bytes::new(&b), Bytes::new(&c)];
            keys.sort();
            // The outer two keys share exactly the bits that both neighboring pairs share. This makes the cells of the
            // axis nest.
            let (outer, left, right) =
                (keys[0].common_bits(&keys[2]), keys[0].common_bits(&keys[1]), keys[1].common_bits(&keys[2]));
            prop_assert_eq!(outer, left.min(right));
        }

        #[test]
        fn keys_read_back(mut words: Vec<u64>, mut wides: Vec<u128>, mut texts in proptest::collection::vec(short(), 0..9)) {
            words.sort();
            wides.sort();
            texts.sort();
            round_trip(&words);
            round_trip(&wides);
            round_trip(&texts.iter().map(|text| Bytes::new(text)).collect::<Vec<_>>());
        }
    }

    fn short() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255), Just(b'a')], 0..24)
    }

    fn round_trip<K: Key>(keys: &[K]) {
        let mut out = Vec::new();
        let mut previous = None;
        for key in keys {
            key.write_after(previous, &mut out);
            previous = Some(key);
        }
        let mut cursor = Cursor::new(&out, 0);
        let mut previous: Option<K> = None;
        for key in keys {
            let read = K::read_after(previous.as_ref(), &mut cursor).unwrap();
            assert_eq!(&read, key);
            previous = Some(read);
        }
        assert_eq!(cursor.remaining(), 0);
    }
}
