//! A build around segments that are already stored: their keys are skipped, and the pages between them are built.

use crate::error::{Error, ErrorKind, Result};
use crate::sieve::build::builder::Builder;
use crate::sieve::index::directory::{Built, Entry};
use crate::sieve::key::axis::Key;
use crate::sieve::segment::packed::Segment;
use crate::sieve::unit::stats::KeySpan;

/// A stored segment, with its contents if keys are to be compared with it.
#[derive(Debug, Clone)]
pub struct KeptSegment<K> {
    /// The directory entry, with the new number of its file.
    pub entry: Entry<K>,
    /// The segment. Keys that are pushed inside it must be in it.
    pub segment: Option<Box<Segment<K>>>,
}

/// Segments to keep in order of their keys, and the spans of units that are not computed anew.
#[derive(Debug)]
pub struct Kept<K> {
    segments: Vec<KeptSegment<K>>,
    next: usize,
    spans: Vec<Option<KeySpan<K>>>,
    /// The locations of `found_key`, ascending.
    found: Vec<u32>,
    found_key: Option<K>,
}

impl<K: Key> Kept<K> {
    /// Creates the state of a build around segments, which must be in order of their keys. A unit with a span keeps it.
    pub fn new(segments: Vec<KeptSegment<K>>, spans: Vec<Option<KeySpan<K>>>) -> Result<Self> {
        let in_order = segments.windows(2).all(|pair| pair[0].entry.most < pair[1].entry.least);
        if !in_order {
            return Err(Error::new(ErrorKind::SieveOrder));
        }
        Ok(Self { segments, next: 0, spans, found: Vec::new(), found_key: None })
    }

    /// Adds rows of a key, unless a kept segment has them. Keys must ascend.
    pub fn push(&mut self, builder: &mut Builder<K>, key: K, location: u32, rows: u64) -> Result<()> {
        self.pass(builder, |entry| entry.least <= key);
        match self.next.checked_sub(1).and_then(|last| self.segments.get(last)) {
            Some(kept) if key <= kept.entry.most => {
                let Some(segment) = &kept.segment else { return Ok(()) };
                if self.found_key.as_ref() != Some(&key) {
                    self.found.clear();
                    if segment.point(&key, &mut self.found).is_err() {
                        return Err(Error::new(ErrorKind::SieveKeptKey { location }));
                    }
                    self.found_key = Some(key);
                }
                // Correct answers depend on this: a key that the segment does not answer would never be found again.
                if self.found.binary_search(&location).is_ok() {
                    Ok(())
                } else {
                    Err(Error::new(ErrorKind::SieveKeptKey { location }))
                }
            }
            _ => builder.push(key, location, rows),
        }
    }

    /// Ends the page before each kept segment that `reached` accepts.
    pub(in crate::sieve) fn pass(&mut self, builder: &mut Builder<K>, reached: impl Fn(&Entry<K>) -> bool) {
        while let Some(kept) = self.segments.get(self.next).filter(|kept| reached(&kept.entry)) {
            builder.pass(&kept.entry.least, &kept.entry.most);
            self.next += 1;
        }
    }

    /// Ends the last pages. Call it before the builder finishes.
    pub fn end(&mut self, builder: &mut Builder<K>) {
        self.pass(builder, |_| true);
    }

    /// Returns the directory of the kept and the new segments, and the spans of all units.
    pub fn join(self, built: Built<K>, mut entries: Vec<Entry<K>>) -> (Vec<Entry<K>>, Vec<Option<KeySpan<K>>>) {
        entries.extend(self.segments.into_iter().map(|kept| kept.entry));
        entries.sort_by(|a, b| a.least.cmp(&b.least));
        let mut kept_spans = self.spans.into_iter();
        let spans = built.spans.into_iter().map(|span| kept_spans.next().flatten().or(span));
        (entries, spans.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sieve::index::directory::SectionRange;
    use crate::sieve::record::options::Options;
    use proptest::prelude::*;

    const SMALL: Options = Options { max_records: 4, ..Options::DEFAULT };

    #[test]
    fn the_last_pages_end_before_the_kept_segments_after_them() {
        let mut whole = Builder::new(1, SMALL).unwrap();
        [0u64, 8, 9, 10, 12, 13, 14, 15].iter().for_each(|&key| whole.push(key, 0, 1).unwrap());
        let mut segments = whole.finish().segments;
        let last = segments.split_off(2).remove(0);
        let none = SectionRange { file: 0, offset: 0, len: 0 };
        let entry =
            Entry { least: last.least, most: last.most, lookup: none, keys: none, check: None, counts: last.counts };
        let mut kept = Kept::new(vec![KeptSegment { entry, segment: None }], Vec::new()).unwrap();
        let mut around = Builder::new(1, SMALL).unwrap();
        [0u64, 8, 9, 10].iter().for_each(|&key| kept.push(&mut around, key, 0, 1).unwrap());
        kept.end(&mut around);
        assert_eq!(around.finish().segments, segments);
    }

    proptest! {
        #[test]
        fn segments_between_kept_ones_are_those_of_a_full_build(
            keys in proptest::collection::btree_set(prop_oneof![0u64..300, any::<u64>()], 1..60),
            is_kept in proptest::collection::vec(any::<bool>(), 60)
        ) {
            let mut whole = Builder::new(1, SMALL).unwrap();
            let mut around = Builder::new(1, SMALL).unwrap();
            keys.iter().for_each(|&key| whole.push(key, 0, 1).unwrap());
            let (mut rebuilt, mut kept) = (Vec::new(), Vec::new());
            for (segment, is_kept) in whole.finish().segments.into_iter().zip(is_kept) {
                if is_kept {
                    let none = SectionRange { file: 0, offset: 0, len: 0 };
                    let (least, most, counts) = (segment.least, segment.most, segment.counts);
                    let entry = Entry { least, most, lookup: none, keys: none, check: None, counts };
                    kept.push(KeptSegment { entry, segment: None });
                } else {
                    rebuilt.push(segment);
                }
            }
            let mut kept = Kept::new(kept, Vec::new()).unwrap();
            let outside = rebuilt.iter().flat_map(|segment| keys.range(segment.least..=segment.most));
            outside.for_each(|&key| kept.push(&mut around, key, 0, 1).unwrap());
            kept.end(&mut around);
            prop_assert_eq!(around.finish().segments, rebuilt);
        }
    }
}
