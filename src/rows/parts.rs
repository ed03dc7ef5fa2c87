//! The bytes of a file that were fetched and are still needed.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::int::{to_u64, to_usize};

/// Parts of a file by their offsets. They may touch or overlap. Unlike [`crate::ranges::Fetched`], it copies no bytes
/// unless a range spans several parts.
#[derive(Debug, Default)]
pub(super) struct Parts {
    parts: BTreeMap<u64, Bytes>,
}

impl Parts {
    pub(super) fn insert(&mut self, start: u64, bytes: Bytes) {
        // A part at the same offset may be longer.
        if !bytes.is_empty() && self.parts.get(&start).is_none_or(|part| part.len() < bytes.len()) {
            self.parts.insert(start, bytes);
        }
    }

    /// Returns the bytes of `range`, or the start of its first gap.
    pub(super) fn get(&self, range: &Range<u64>) -> Result<Bytes, u64> {
        if let Some(bytes) = self.at(range.start)
            && let Some(len) = to_usize(range.end.saturating_sub(range.start)).filter(|len| *len <= bytes.len())
        {
            return Ok(bytes.slice(..len));
        }
        let mut joined = BytesMut::new();
        let mut position = range.start;
        while position < range.end {
            let bytes = self.at(position).ok_or(position)?;
            let len = to_usize(range.end - position).map_or(bytes.len(), |len| len.min(bytes.len()));
            joined.extend_from_slice(&bytes[..len]);
            position += to_u64(len);
        }
        Ok(joined.freeze())
    }

    /// Returns the missing rest of `range`.
    pub(super) fn missing(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let mut position = range.start;
        while position < range.end {
            match self.at(position) {
                Some(bytes) => position += to_u64(bytes.len()),
                None => return Some(position..range.end),
            }
        }
        None
    }

    pub(super) fn clear(&mut self) {
        self.parts.clear();
    }

    /// Returns the bytes from an offset to the end of a part that has it. They are not empty.
    fn at(&self, offset: u64) -> Option<Bytes> {
        let before = self.parts.range(..=offset).rev();
        // A long part may begin before a short one.
        before.take(8).find_map(|(start, part)| {
            let skip = to_usize(offset - start).filter(|skip| *skip < part.len())?;
            Some(part.slice(skip..))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_span_parts_that_touch_or_overlap() {
        let file: Vec<u8> = (0..100).collect();
        let mut parts = Parts::default();
        for range in [10..20, 20..30, 25..40, 12..13, 60..70] {
            parts.insert(range.start as u64, Bytes::copy_from_slice(&file[range]));
        }
        for start in 0..100usize {
            for end in start..100 {
                let known = start == end || (start >= 10 && end <= 40) || (start >= 60 && end <= 70);
                let range = start as u64..end as u64;
                assert_eq!(parts.get(&range).ok().as_deref(), known.then(|| &file[start..end]), "{range:?}");
                assert_eq!(parts.missing(&range).is_none(), known, "{range:?}");
            }
        }
        assert_eq!(parts.missing(&(35..50)), Some(40..50));
        assert_eq!(parts.missing(&(5..20)), Some(5..20));
    }
}
