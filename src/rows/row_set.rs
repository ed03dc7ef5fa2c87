//! Sets of rows of a file.

use std::ops::Range;

use arrow_array::{Array, BooleanArray};

use crate::error::{Error, ErrorKind, Result, RowsKind};
use crate::int::to_u64;

/// Some rows of a file by their numbers. Stored as ranges, so that a large contiguous set is as cheap as a small one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowSet {
    /// Ascending ranges. None is empty, and no two touch.
    ranges: Vec<Range<u64>>,
    num_rows: u64,
}

impl RowSet {
    /// Returns the first `num_rows` rows.
    pub fn all(num_rows: u64) -> Self {
        std::iter::once(0..num_rows).collect()
    }

    /// Returns the union of ranges in any order.
    pub fn of(mut ranges: Vec<Range<u64>>) -> Self {
        ranges.retain(|range| range.start < range.end);
        if !ranges.is_sorted_by_key(|range| range.start) {
            ranges.sort_unstable_by_key(|range| range.start);
        }
        ranges.into_iter().collect()
    }

    /// Returns the number of rows.
    pub fn num_rows(&self) -> u64 {
        self.num_rows
    }

    /// Returns the rows as ascending ranges that do not touch each other.
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Keeps row `i` of the set if value `i` of the masks is true. A null counts as false. The masks follow each other
    /// and have as many values as the set has rows.
    pub fn filter(&self, masks: &[BooleanArray]) -> Result<Self> {
        let mut kept = Builder::default();
        let mut rows = self.ranges.iter();
        // The range of rows that contains the next value, the value at its start, and the values before it.
        let (mut range, mut first) = (0..0, 0u64);
        let mut start = 0u64;
        for mask in masks {
            let slices: Box<dyn Iterator<Item = (usize, usize)>> =
                match mask.nulls().filter(|nulls| nulls.null_count() > 0) {
                    Some(nulls) => Box::new(set_slices(mask.values() & nulls.inner())),
                    None => Box::new(mask.values().set_slices()),
                };
            for (from, to) in slices {
                let (mut from, to) = (start + to_u64(from), start + to_u64(to));
                while from < to {
                    while from >= first + (range.end - range.start) {
                        first += range.end - range.start;
                        range = rows.next().cloned().ok_or_else(|| self.wrong_length(to))?;
                    }
                    let len = (to - from).min(range.end - range.start - (from - first));
                    let row = range.start + (from - first);
                    kept.push(row..row + len);
                    from += len;
                }
            }
            start += to_u64(mask.len());
        }
        if start == self.num_rows { Ok(kept.finish()) } else { Err(self.wrong_length(start)) }
    }

    fn wrong_length(&self, found: u64) -> Error {
        Error::new(ErrorKind::Rows(RowsKind::MaskLength { expected: self.num_rows, found }))
    }

    /// Removes rows, which must ascend. Rows that the set does not have are ignored.
    pub fn without(&self, removed: impl IntoIterator<Item = u64>) -> Result<Self> {
        let mut removed = removed.into_iter();
        let mut last = None;
        let mut next = || -> Result<Option<u64>> {
            let row = removed.next();
            if row.is_some_and(|row| last.is_some_and(|last| row < last)) {
                return Err(Error::new(ErrorKind::Rows(RowsKind::Order)));
            }
            last = row.or(last);
            Ok(row)
        };
        let mut kept = Builder::default();
        let mut gone = next()?;
        for range in &self.ranges {
            let mut start = range.start;
            while let Some(row) = gone.filter(|row| *row < range.end) {
                if row >= start {
                    kept.push(start..row);
                    start = row + 1;
                }
                gone = next()?;
            }
            kept.push(start..range.end);
        }
        // Check the order of the rest, too.
        while gone.is_some() {
            gone = next()?;
        }
        Ok(kept.finish())
    }

    /// Returns the rows of both sets.
    pub fn intersect(&self, other: &Self) -> Self {
        let mut both = Builder::default();
        let (mut ours, mut theirs) = (self.ranges.iter().peekable(), other.ranges.iter().peekable());
        while let (Some(a), Some(b)) = (ours.peek(), theirs.peek()) {
            both.push(a.start.max(b.start)..a.end.min(b.end));
            if a.end <= b.end {
                ours.next()
            } else {
                theirs.next()
            };
        }
        both.finish()
    }

    /// Returns the parts of the ranges inside `within`, relative to its start.
    pub(super) fn within(&self, within: &Range<u64>) -> Vec<Range<u64>> {
        let first = self.ranges.partition_point(|range| range.end <= within.start);
        let inside = self.ranges[first..].iter().take_while(|range| range.start < within.end);
        inside
            .map(|range| range.start.max(within.start) - within.start..range.end.min(within.end) - within.start)
            .collect()
    }
}

fn set_slices(bits: arrow_buffer::BooleanBuffer) -> impl Iterator<Item = (usize, usize)> {
    bits.set_slices().collect::<Vec<_>>().into_iter()
}

/// Ascending ranges may overlap or touch.
impl FromIterator<Range<u64>> for RowSet {
    fn from_iter<I: IntoIterator<Item = Range<u64>>>(ranges: I) -> Self {
        let mut builder = Builder::default();
        ranges.into_iter().for_each(|range| builder.push(range));
        builder.finish()
    }
}

/// Joins ascending ranges that overlap or touch.
#[derive(Default)]
struct Builder {
    ranges: Vec<Range<u64>>,
}

impl Builder {
    fn push(&mut self, range: Range<u64>) {
        if range.start >= range.end {
            return;
        }
        match self.ranges.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => self.ranges.push(range),
        }
    }

    fn finish(self) -> RowSet {
        let num_rows = self.ranges.iter().map(|range| range.end - range.start).sum();
        RowSet { ranges: self.ranges, num_rows }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(set: &RowSet) -> Vec<u64> {
        set.ranges().iter().cloned().flatten().collect()
    }

    fn ranges() -> impl Strategy<Value = Vec<Range<u64>>> {
        prop::collection::vec((0u64..60, 0u64..9).prop_map(|(start, len)| start..start + len), 0..12)
    }

    fn model(ranges: &[Range<u64>]) -> Vec<u64> {
        let rows: std::collections::BTreeSet<u64> = ranges.iter().cloned().flatten().collect();
        rows.into_iter().collect()
    }

    fn check(set: &RowSet, expect: &[u64]) {
        assert_eq!(rows(set), expect);
        assert_eq!(set.num_rows(), expect.len() as u64);
        assert!(set.ranges().iter().all(|range| range.start < range.end));
        assert!(set.ranges().windows(2).all(|pair| pair[0].end < pair[1].start), "no two ranges touch");
    }

    proptest! {
        #[test]
        fn sets_behave_like_sets(a in ranges(), b in ranges(), masks in prop::collection::vec(prop::option::of(any::<bool>()), 80), cut in 0usize..80) {
            let (left, right) = (RowSet::of(a.clone()), RowSet::of(b.clone()));
            let (ours, theirs) = (model(&a), model(&b));
            check(&left, &ours);
            check(&left.intersect(&right), &ours.iter().copied().filter(|row| theirs.contains(row)).collect::<Vec<_>>());
            check(&left.without(theirs.iter().copied()).unwrap(), &ours.iter().copied().filter(|row| !theirs.contains(row)).collect::<Vec<_>>());
            let masks = &masks[..ours.len()];
            let cut = cut.min(masks.len());
            let parts = [&masks[..cut], &masks[cut..]].map(|part| part.iter().copied().collect::<BooleanArray>());
            let expect: Vec<u64> = ours.iter().zip(masks).filter(|(_, keep)| **keep == Some(true)).map(|(row, _)| *row).collect();
            check(&left.filter(&parts).unwrap(), &expect);
            let padded = [BooleanArray::from(vec![true; 3]), parts[0].clone(), parts[1].clone()].map(|part| part.slice(0, part.len()));
            check(&left.filter(&[padded[0].slice(3, 0), padded[1].clone(), padded[2].clone()]).unwrap(), &expect);
            prop_assert!(left.filter(&padded).is_err());
            let local: Vec<u64> = left.within(&(20..50)).into_iter().flatten().map(|row| row + 20).collect();
            prop_assert_eq!(local, ours.into_iter().filter(|row| (20..50).contains(row)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn masks_of_another_length_and_unsorted_rows_are_errors() {
        let set = RowSet::all(3);
        assert!(set.filter(&[BooleanArray::from(vec![false; 2])]).is_err());
        assert!(set.filter(&[BooleanArray::from(vec![false; 4])]).is_err());
        assert!(set.without([2, 1]).is_err());
        assert!(set.without([7, 6]).is_err());
        check(&set.without([1, 1, 9]).unwrap(), &[0, 2]);
        check(&RowSet::all(0), &[]);
    }
}
