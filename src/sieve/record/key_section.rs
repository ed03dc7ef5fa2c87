//! The keys section of a segment: every key with its locations and row counts.
//!
//! Only compaction reads it. Separators do not record which keys a run holds; with this section a compaction produces
//! the same index as a rebuild.

use crate::error::Result;
use crate::int::{low_u8, saturating_u32, to_u64};
use crate::sieve::code::format::{KEYS, begin, cursor, end, finished, malformed, unframe};
use crate::sieve::key::axis::Key;
use crate::sieve::record::records::Records;
use crate::varint::put_varint;
use std::ops::Range;

/// Encodes a range of neighboring keys.
pub(in crate::sieve) fn put_keys<K: Key>(records: &Records<K>, range: Range<usize>) -> Vec<u8> {
    let mut body = begin(KEYS, range.len() * 6);
    body.push(K::CODE);
    put_varint(&mut body, to_u64(range.len()));
    let pairs = records.pairs(range.clone());
    if pairs.len() == range.len() && records.rows[pairs.clone()].iter().all(|&rows| rows == 1) {
        // One row in one location each: the most frequent case if rows are scattered.
        let mut previous = None;
        for ((key, &location), at) in records.keys[range.clone()].iter().zip(&records.locations[pairs]).zip(range) {
            key.write_after(previous, &mut body);
            if previous.is_some() && records.repeats(at) {
                body.push(0);
            } else {
                put_one(&mut body, location);
            }
            previous = Some(key);
        }
        return end(body);
    }
    let mut previous: Option<usize> = None;
    let mut start = pairs.start;
    for key in range {
        records.keys[key].write_after(previous.map(|before| &records.keys[before]), &mut body);
        let end = records.end(key);
        let pairs = std::mem::replace(&mut start, end)..end;
        let rows = &records.rows[pairs.clone()];
        let single_rows = rows.iter().all(|&rows| rows == 1);
        let same_set = previous.is_some() && records.repeats(key);
        // 0: the previous key's set, one row each; 1: that set, row counts follow. Otherwise twice the number of pairs,
        // plus 1 if row counts follow.
        let head = if same_set { 0 } else { to_u64(pairs.len()) * 2 };
        put_varint(&mut body, head | u64::from(!single_rows));
        if !same_set {
            let mut next = 0;
            for &location in records.set(key) {
                put_varint(&mut body, u64::from(location - next));
                next = location + 1;
            }
        }
        if !single_rows {
            rows.iter().for_each(|&rows| put_varint(&mut body, rows));
        }
        previous = Some(key);
    }
    end(body)
}

/// Writes a set of one location with one row: its head and its varint in one append.
#[inline]
fn put_one(body: &mut Vec<u8>, location: u32) {
    match location {
        0..0x80 => body.extend_from_slice(&[2, low_u8(u64::from(location))]),
        0x80..0x4000 => {
            let [low, high] = [u64::from(location) | 0x80, u64::from(location) >> 7].map(low_u8);
            body.extend_from_slice(&[2, low, high]);
        }
        _ => {
            body.push(2);
            put_varint(body, u64::from(location));
        }
    }
}

/// Decodes a keys section of an index over `num_locations` locations and appends it to `records`. Its keys must be
/// greater than the last key there.
pub(in crate::sieve) fn take_keys<K: Key>(bytes: &[u8], num_locations: u32, records: &mut Records<K>) -> Result<()> {
    let mut cursor = cursor(unframe(KEYS, bytes)?);
    let cursor = &mut cursor;
    if cursor.u8()? != K::CODE {
        return Err(malformed(cursor, "key width"));
    }
    let mut previous: Option<K> = None;
    let mut set: Vec<u32> = Vec::new();
    for _ in 0..cursor.varint()? {
        let key = K::read_after(previous.as_ref(), cursor)?;
        if records.keys.last().is_some_and(|last| *last >= key) {
            return Err(malformed(cursor, "order of keys"));
        }
        let head = cursor.varint()?;
        if head >= 2 {
            set.clear();
            let mut next = 0u64;
            for _ in 0..head / 2 {
                let location = cursor.varint()?.saturating_add(next);
                if location >= u64::from(num_locations) {
                    return Err(malformed(cursor, "location of a key"));
                }
                set.push(saturating_u32(crate::int::to_usize(location).unwrap_or(usize::MAX)));
                next = location + 1;
            }
        }
        if set.is_empty() {
            return Err(malformed(cursor, "locations of a key"));
        }
        let with_rows = head & 1 == 1;
        for &location in &set {
            records.locations.push(location);
            records.rows.push(if with_rows { cursor.varint()? } else { 1 });
        }
        records.close(key.clone());
        previous = Some(key);
    }
    finished(cursor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sieve::key::axis::Bytes;

    #[test]
    fn keys_locations_and_rows_read_back() {
        let mut records = Records::default();
        for (text, set, rows) in [
            ("", &[0, 3][..], &[1, 1][..]),
            ("a", &[0, 3], &[1, 1]),
            ("ab", &[0, 3], &[2, 1]),
            ("b", &[7], &[u64::MAX]),
        ] {
            records.push(Bytes::new(text.as_bytes()), set, rows);
        }
        let bytes = put_keys(&records, 0..4);
        let mut read = Records::<Bytes>::default();
        take_keys(&bytes, 8, &mut read).unwrap();
        assert_eq!((read.keys, read.locations, read.rows), (records.keys, records.locations, records.rows));
        let mut refused = Records::<Bytes>::default();
        assert!(take_keys(&bytes, 7, &mut refused).is_err(), "a location that the index does not have");
    }
}
