//! Builds segments from sorted `(key, location, rows)`, for a whole index or in partitions that join to the same bytes.
//!
//! A builder holds one page and the keys after it: at most `Options::memory_bound` bytes and one more key. A partition
//! returns the keys of its first and last page unbuilt, because their cells may extend into neighboring partitions.
//! [`join()`] builds these pages from the keys of both neighbors.

use crate::error::{Error, ErrorKind, Result};
use crate::int::index;
use crate::sieve::build::pages::PageSplitter;
use crate::sieve::index::directory::Built;
use crate::sieve::key::axis::Key;
use crate::sieve::record::key_section::put_keys;
use crate::sieve::record::options::Options;
use crate::sieve::record::records::Records;
use crate::sieve::segment::encode::{EncodedSegment, Scratch, encode_segment};
use crate::sieve::unit::stats::KeySpan;

/// Keys that a partition could not assign to a page, serialized to be sent to [`join()`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fragment(Vec<u8>);

impl Fragment {
    /// Restores a fragment from the bytes of `as_bytes`.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the serialized keys, in the form of a keys section.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The result of building one partition of the sorted keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuiltPartition<K> {
    /// The keys before the first segment.
    pub head: Fragment,
    /// The segments that no other partition affects.
    pub built: Built<K>,
    /// The keys after the last segment. Empty if there is no segment.
    pub tail: Fragment,
}

/// Builds segments from keys in ascending order.
#[derive(Debug)]
pub struct Builder<K> {
    splitter: PageSplitter<K>,
    /// The key whose pairs are being collected.
    pending: Option<K>,
    encoder: PageEncoder<K>,
    /// True in a partition until its first page is complete.
    open_start: bool,
    head: Option<Records<K>>,
    /// In a partition: the last key of its first page, and the key after it.
    border: Option<(K, K)>,
}

/// Encodes pages as segments, and collects the span of each location.
#[derive(Debug)]
pub(super) struct PageEncoder<K> {
    pub(super) options: Options,
    pub(super) num_locations: u32,
    scratch: Scratch,
    pub(super) built: Built<K>,
    /// The state of each location in the current page.
    page_spans: Vec<PageSpan>,
    touched: Vec<u32>,
}

/// The keys of a location in a page, by index.
#[derive(Debug, Clone, Copy, Default)]
struct PageSpan {
    first: usize,
    /// One more than the index, so that zero means that the location is not in this page.
    end: usize,
    rows: u64,
}

impl<K: Key> PageEncoder<K> {
    pub(super) fn new(num_locations: u32, options: Options) -> Self {
        let built = Built { segments: Vec::new(), spans: vec![None; index(num_locations)] };
        let page_spans = vec![PageSpan::default(); index(num_locations)];
        Self { options, num_locations, scratch: Scratch::default(), built, page_spans, touched: Vec::new() }
    }

    pub(super) fn page(&mut self, records: &Records<K>, len: usize) {
        self.record_spans(records, len);
        let segments = &mut self.built.segments;
        encode_segment(records, 0..len, (&self.options, self.num_locations), &mut self.scratch, &mut |segment| {
            segments.push(segment)
        });
    }

    fn record_spans(&mut self, records: &Records<K>, len: usize) {
        let mut start = 0;
        for key in 0..len {
            let end = records.end(key);
            let pairs = std::mem::replace(&mut start, end)..end;
            for (&location, &rows) in records.locations[pairs.clone()].iter().zip(&records.rows[pairs]) {
                let span = &mut self.page_spans[index(location)];
                if span.end == 0 {
                    span.first = key;
                    self.touched.push(location);
                }
                span.end = key + 1;
                span.rows = span.rows.saturating_add(rows);
            }
        }
        for location in self.touched.drain(..) {
            let PageSpan { first, end, rows } = std::mem::take(&mut self.page_spans[index(location)]);
            match &mut self.built.spans[index(location)] {
                Some(span) => {
                    span.most = records.keys[end - 1].clone();
                    span.rows = span.rows.saturating_add(rows);
                }
                none => {
                    let (least, most) = (records.keys[first].clone(), records.keys[end - 1].clone());
                    *none = Some(KeySpan { least, most, rows });
                }
            }
        }
    }
}

impl<K: Key> Builder<K> {
    /// Creates a builder of a whole index over locations `0..num_locations`.
    pub fn new(num_locations: u32, options: Options) -> Result<Self> {
        options.check()?;
        if num_locations >= 1 << 31 {
            return Err(Error::new(ErrorKind::SieveLocation(num_locations)));
        }
        Ok(Self {
            splitter: PageSplitter::new(options, None),
            pending: None,
            encoder: PageEncoder::new(num_locations, options),
            open_start: false,
            head: None,
            border: None,
        })
    }

    /// Creates a builder of the pages after `before`, which must be the last key of a page.
    pub fn following(num_locations: u32, options: Options, before: K) -> Result<Self> {
        Ok(Self { splitter: PageSplitter::new(options, Some(before)), ..Self::new(num_locations, options)? })
    }

    /// Creates a builder of one range partition of the keys.
    pub fn partition(num_locations: u32, options: Options) -> Result<Self> {
        Ok(Self { open_start: true, ..Self::new(num_locations, options)? })
    }

    /// Adds rows of a key in a location. Keys must ascend. Rows of equal pairs are summed.
    #[inline]
    pub fn push(&mut self, key: K, location: u32, rows: u64) -> Result<()> {
        if location >= self.encoder.num_locations {
            return Err(Error::new(ErrorKind::SieveLocation(location)));
        }
        if self.pending.as_ref() != Some(&key) {
            if self.pending.as_ref().is_some_and(|pending| *pending > key) {
                return Err(Error::new(ErrorKind::SieveOrder));
            }
            self.close_pending();
            self.pending = Some(key);
        } else {
            let records = self.splitter.records();
            // Sorted rows have ascending locations, except for strings that are equal up to `MAX_KEY_BYTES` and differ
            // after it.
            let start = records.pairs(0..records.keys.len()).end;
            let at = start + records.locations[start..].partition_point(|&other| other < location);
            if records.locations.get(at) == Some(&location) {
                records.rows[at] = records.rows[at].saturating_add(rows);
            } else {
                records.locations.insert(at, location);
                records.rows.insert(at, rows);
            }
            return Ok(());
        }
        let records = self.splitter.records();
        records.locations.push(location);
        records.rows.push(rows);
        Ok(())
    }

    fn close_pending(&mut self) {
        let Some(key) = self.pending.take() else { return };
        let Self { splitter, encoder, open_start, head, border, .. } = self;
        splitter.close(key, &mut |records, len| {
            if std::mem::take(open_start) {
                *border = Some((records.keys[len - 1].clone(), records.keys[len].clone()));
                *head = Some(first_records(records, len));
            } else {
                encoder.page(records, len);
            }
        });
    }

    /// Ends the last page before a stored segment with the keys from `least` to `most`. The next key must be greater.
    pub(in crate::sieve) fn pass(&mut self, least: &K, most: &K) {
        self.close_pending();
        let Self { splitter, encoder, .. } = self;
        splitter.finish(Some(least), &mut |records, len| encoder.page(records, len));
        *splitter = PageSplitter::new(encoder.options, Some(most.clone()));
    }

    /// Returns the segments finished so far, which lets the caller store them early. Each segment is returned once.
    pub fn take_segments(&mut self) -> Vec<EncodedSegment<K>> {
        std::mem::take(&mut self.encoder.built.segments)
    }

    /// Returns the number of buffered records.
    pub fn buffered(&mut self) -> usize {
        self.splitter.records().locations.len()
    }

    /// In a partition, returns the last key of the first page and the key after it, once they are known. A page ends
    /// there no matter which keys precede the partition, and no partition that begins earlier reports a later border.
    pub fn border(&self) -> Option<(&K, &K)> {
        self.border.as_ref().map(|(last, next)| (last, next))
    }

    /// Finishes a whole index.
    pub fn finish(self) -> Built<K> {
        self.finish_before(None)
    }

    /// Finishes a build whose next page, which begins at `next`, is built elsewhere.
    pub fn finish_before(mut self, next: Option<&K>) -> Built<K> {
        self.close_pending();
        let Self { splitter, encoder, .. } = &mut self;
        splitter.finish(next, &mut |records, len| encoder.page(records, len));
        self.encoder.built
    }

    /// Finishes a partition.
    pub fn finish_part(mut self) -> BuiltPartition<K> {
        self.close_pending();
        let rest = self.splitter.into_records();
        let all = |records: &Records<K>| Fragment(put_keys(records, 0..records.keys.len()));
        let none = all(&Records::default());
        let (head, tail) = match self.head {
            Some(head) => (all(&head), all(&rest)),
            None => (all(&rest), none),
        };
        BuiltPartition { head, built: self.encoder.built, tail }
    }

    /// Adds pairs of one row each, in order of key and location. Equivalent to calling [`Builder::push`] for each, but
    /// faster.
    pub(in crate::sieve) fn push_rows(&mut self, mut rows: &[(K, u32)]) -> Result<()> {
        while let Some(first) = rows.first() {
            if self.pending.as_ref().is_none_or(|pending| *pending < first.0) {
                // Keys with one location each. The last one stays pending, as after `push`.
                let most = self.splitter.room().min(rows.len() - 1);
                let alone = |at: &usize| rows[*at].0 < rows[*at + 1].0 && rows[*at].1 < self.encoder.num_locations;
                let count = (0..most).find(|at| !alone(at)).unwrap_or(most).saturating_sub(1);
                if count > 0 {
                    self.close_pending();
                    let count = count.min(self.splitter.room());
                    self.splitter.close_rows(&rows[..count]);
                    rows = &rows[count..];
                }
            }
            let Some(((key, location), rest)) = rows.split_first() else { break };
            self.push(key.clone(), *location, 1)?;
            rows = rest;
        }
        Ok(())
    }
}

fn first_records<K: Key>(records: &Records<K>, len: usize) -> Records<K> {
    let mut first = Records::default();
    for key in 0..len {
        first.push(records.keys[key].clone(), records.set(key), &records.rows[records.pairs(key..key + 1)]);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sieve::Segment;
    use crate::sieve::build::join::{join, merge_spans};
    use crate::sieve::key::axis::Bytes;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Rows<K> = BTreeMap<K, BTreeMap<u32, u64>>;

    const SMALL: Options = Options {
        max_records: 40,
        max_key_bytes: 400,
        max_weight: 24,
        coarsen: crate::sieve::record::options::Coarsen::Exact,
        ..Options::DEFAULT
    };

    fn push_all<K: Key>(builder: &mut Builder<K>, rows: impl Iterator<Item = (K, BTreeMap<u32, u64>)>) {
        for (key, pairs) in rows {
            for (location, rows) in pairs {
                builder.push(key.clone(), location, rows).unwrap();
            }
        }
    }

    fn check<K: Key>(rows: &Rows<K>, cuts: &[usize]) {
        let mut whole = Builder::new(9, SMALL).unwrap();
        push_all(&mut whole, rows.clone().into_iter());
        let whole = whole.finish();
        // I5: any partitioning gives the same bytes.
        let mut parts = Vec::new();
        let mut from = 0;
        for to in cuts
            .iter()
            .map(|cut| cut % (rows.len() + 1))
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .chain([rows.len()])
        {
            let mut builder = Builder::partition(9, SMALL).unwrap();
            push_all(&mut builder, rows.clone().into_iter().skip(from).take(to - from));
            parts.push(builder.finish_part());
            from = to;
        }
        assert_eq!(join(parts, 9, SMALL).unwrap(), whole);
        check_ranges(rows, cuts, &whole);
        // I6: every key is in exactly one segment, and segments are disjoint and ordered. I3: every answer is exact.
        assert!(whole.segments.windows(2).all(|pair| pair[0].most < pair[1].least));
        let segments: Vec<Segment<K>> =
            whole.segments.iter().map(|segment| Segment::parse(&segment.lookup, 9).unwrap()).collect();
        for (key, pairs) in rows {
            let at = whole.segments.partition_point(|segment| segment.most < *key);
            assert!(whole.segments[at].least <= *key);
            let mut out = Vec::new();
            segments[at].point(key, &mut out).unwrap();
            let expected: Vec<u32> = if K::CODE == 3 { out.clone() } else { pairs.keys().copied().collect() };
            assert_eq!(out, expected);
            assert!(pairs.keys().all(|location| out.contains(location)), "a location was lost");
        }
        let keys: u64 = whole.segments.iter().map(|segment| segment.counts.keys).sum();
        assert_eq!(keys, u64::try_from(rows.len()).unwrap());
    }

    /// Ranges that end at page boundaries, which each range finds on its own, need no joining.
    fn check_ranges<K: Key>(rows: &Rows<K>, cuts: &[usize], whole: &Built<K>) {
        let mut borders: Vec<(K, K)> = cuts
            .iter()
            .filter_map(|cut| {
                let mut probe = Builder::partition(9, SMALL).unwrap();
                push_all(&mut probe, rows.clone().into_iter().skip(cut % (rows.len() + 1)));
                probe.border().map(|(last, next)| (last.clone(), next.clone()))
            })
            .collect();
        borders.sort();
        borders.dedup();
        let mut segments = Vec::new();
        let mut spans = vec![None; 9];
        for at in 0..=borders.len() {
            let before = at.checked_sub(1).map(|at| &borders[at]);
            let next = borders.get(at).map(|border| &border.1);
            let mut builder = match before {
                Some((last, _)) => Builder::following(9, SMALL, last.clone()).unwrap(),
                None => Builder::new(9, SMALL).unwrap(),
            };
            let inside = |key: &K| before.is_none_or(|(_, first)| key >= first) && next.is_none_or(|next| key < next);
            push_all(&mut builder, rows.clone().into_iter().filter(|(key, _)| inside(key)));
            let built = builder.finish_before(next);
            assert!(!built.segments.is_empty() || rows.is_empty());
            segments.extend(built.segments);
            merge_spans(&mut spans, built.spans);
        }
        assert_eq!(&Built { segments, spans }, whole);
    }

    fn pairs() -> impl Strategy<Value = BTreeMap<u32, u64>> {
        prop_oneof![
            (0u32..9).prop_map(|location| BTreeMap::from([(location, 1)])),
            proptest::collection::btree_map(0u32..9, 1u64..4, 1..5)
        ]
    }

    proptest! {
        #[test]
        fn i5_partitions_of_words_join_to_identical_bytes(rows in proptest::collection::btree_map(prop_oneof![0u64..300, any::<u64>()], pairs(), 1..200), cuts in proptest::collection::vec(0usize..200, 0..5)) {
            check(&rows, &cuts);
        }

        #[test]
        fn i5_partitions_of_wide_keys_join_to_identical_bytes(rows in proptest::collection::btree_map(any::<u128>(), pairs(), 1..200), cuts in proptest::collection::vec(0usize..200, 0..5)) {
            check(&rows, &cuts);
        }

        #[test]
        fn i5_partitions_of_texts_join_to_identical_bytes(
            rows in proptest::collection::btree_map(
                proptest::collection::vec(prop_oneof![Just(0u8), Just(b'a'), any::<u8>()], 0..20).prop_map(|text| Bytes::new(&text)),
                pairs(), 1..100),
            cuts in proptest::collection::vec(0usize..200, 0..5)
        ) {
            check(&rows, &cuts);
        }
    }

    #[test]
    fn records_are_buffered_until_their_page_ends() {
        let mut builder = Builder::<u64>::new(2, SMALL).unwrap();
        for key in 0..1000 {
            builder.push(key, 0, 1).unwrap();
            builder.push(key, 1, 1).unwrap();
            let written: u64 = builder.encoder.built.segments.iter().map(|segment| segment.counts.keys).sum();
            assert_eq!(u64::try_from(builder.buffered()).unwrap(), 2 * (key + 1 - written));
        }
        assert!(builder.take_segments().len() > 1);
    }

    #[test]
    fn rows_with_long_keys_end_their_pages_at_the_same_keys() {
        let options = Options { max_key_bytes: 5000, ..Options::default() };
        let key = |number: u32| Bytes::new(&[&number.to_be_bytes()[..], &[b'a'; 600]].concat());
        let rows: Vec<(Bytes, u32)> = (0..200).map(|number| (key(number * 7919), number % 3)).collect();
        let [mut one_by_one, mut together] = [(), ()].map(|()| Builder::new(3, options).unwrap());
        rows.iter().for_each(|(key, location)| one_by_one.push(key.clone(), *location, 1).unwrap());
        together.push_rows(&rows).unwrap();
        let expected = one_by_one.finish();
        assert!(expected.segments.len() > 20);
        assert_eq!(together.finish(), expected);
    }

    #[test]
    fn unordered_keys_and_unknown_locations_are_rejected() {
        let mut builder = Builder::<u64>::new(2, Options::default()).unwrap();
        builder.push(5, 1, 1).unwrap();
        builder.push(5, 0, 1).unwrap();
        assert_eq!(builder.push(4, 1, 1).unwrap_err().kind(), &ErrorKind::SieveOrder);
        assert_eq!(builder.push(6, 2, 1).unwrap_err().kind(), &ErrorKind::SieveLocation(2));
        assert_eq!(builder.push_rows(&[(6, 0), (7, 1), (6, 1), (9, 0)]).unwrap_err().kind(), &ErrorKind::SieveOrder);
        assert_eq!(builder.push_rows(&[(7, 1), (8, 0), (9, 2)]).unwrap_err().kind(), &ErrorKind::SieveLocation(2));
        assert_eq!(builder.push_rows(&[(8, 1), (9, 2), (10, 0)]).unwrap_err().kind(), &ErrorKind::SieveLocation(2));
        assert_eq!(builder.push_rows(&[(6, 1), (9, 1)]).unwrap_err().kind(), &ErrorKind::SieveOrder);
        assert_eq!(builder.finish().segments.iter().map(|segment| segment.counts.rows).sum::<u64>(), 7);
    }
}
