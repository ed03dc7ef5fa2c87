//! Streams finished segments, so that no segment file is held in memory; also joins partial builds whose segments are
//! already stored.

use crate::error::{Error, ErrorKind, Result};
use crate::int::{index, saturating_u32, to_u64};
use crate::sieve::build::builder::{Builder, BuiltPartition, Fragment};
use crate::sieve::build::join::join;
use crate::sieve::code::format::{SHARE, cursor, finished, frame, malformed, take_u32, unframe};
use crate::sieve::index::directory::{Built, Entry, IndexInfo, Location, Root, SectionRange};
use crate::sieve::index::root::{put_entry, take_entry};
use crate::sieve::index::unit_root::{EncodedRoot, UnitRoot, check_of};
use crate::sieve::key::axis::Key;
use crate::sieve::record::key_section::take_keys;
use crate::sieve::record::options::{Format, Options};
use crate::sieve::record::records::Records;
use crate::sieve::segment::encode::EncodedSegment;
use crate::sieve::unit::layout::Layout;
use crate::sieve::unit::page::UnitPage;
use crate::sieve::unit::stats::{KeySpan, Stats, put_span, take_span};
use crate::varint::{put_varint, take_len};

/// Collects the directory of segments, and holds their bytes until the caller stores them.
///
/// The layout is that of [`crate::sieve::pack`]: all lookup sections, then all keys sections. The length of the first half is
/// unknown until the build is finished, so both halves are returned separately.
#[derive(Debug)]
pub struct SegmentStream<K> {
    file: u32,
    entries: Vec<Entry<K>>,
    lengths: (u64, u64),
    lookups: Vec<u8>,
    keys: Vec<u8>,
}

impl<K: Key> SegmentStream<K> {
    /// Creates a stream for file number `file` of the index.
    pub fn new(file: u32) -> Self {
        Self { file, entries: Vec::new(), lengths: (0, 0), lookups: Vec::new(), keys: Vec::new() }
    }

    /// Adds finished segments.
    pub fn put(&mut self, segments: Vec<EncodedSegment<K>>) {
        let file = self.file;
        for segment in segments {
            let extent = |at: &mut u64, section: &[u8]| {
                let extent = SectionRange { file, offset: *at, len: to_u64(section.len()) };
                *at += extent.len;
                extent
            };
            let lookup = extent(&mut self.lengths.0, &segment.lookup);
            let keys = extent(&mut self.lengths.1, &segment.keys);
            self.lookups.extend_from_slice(&segment.lookup);
            self.keys.extend_from_slice(&segment.keys);
            let (least, most, check) = (segment.least, segment.most, check_of(&segment.lookup));
            self.entries.push(Entry { least, most, lookup, keys, check, counts: segment.counts });
        }
    }

    /// Returns the bytes added since the last call: lookup sections and keys sections. In the file, the keys sections
    /// follow all lookup sections.
    pub fn take(&mut self) -> (Vec<u8>, Vec<u8>) {
        (std::mem::take(&mut self.lookups), std::mem::take(&mut self.keys))
    }

    /// Returns the directory after the last segment.
    pub fn into_entries(self) -> Vec<Entry<K>> {
        let before = self.lengths.0;
        let mut entries = self.entries;
        entries.iter_mut().for_each(|entry| entry.keys.offset += before);
        entries
    }
}

/// Builds a root over segments that are already stored.
pub fn root_over<K: Key>(
    info: IndexInfo,
    locations: Vec<Location>,
    stats: Vec<Stats<K>>,
    spans: &[Option<KeySpan<K>>],
    segments: Vec<Entry<K>>,
) -> Result<Root<K>> {
    if locations.len() != spans.len() || locations.len() != stats.len() {
        return Err(Error::new(ErrorKind::SieveLocation(saturating_u32(locations.len()))));
    }
    let stats = stats.into_iter().zip(spans).map(|(stats, span)| Stats { span: span.clone(), ..stats }).collect();
    let IndexInfo { axis, instant, options } = info;
    // Version 1 stores no checksums of segments.
    let segments = segments.into_iter().map(|entry| Entry { check: None, ..entry }).collect();
    Ok(Root { axis, instant, options, locations, stats, segments })
}

/// Encodes a root of version 2 over segments that are already stored. Takes nulls, NaN and unread rows from `stats`, and
/// spans from `spans`.
pub fn unit_root_over<K: Key>(
    info: IndexInfo,
    layout: Layout,
    stats: Vec<Stats<K>>,
    spans: &[Option<KeySpan<K>>],
    segments: Vec<Entry<K>>,
    pages_file: u32,
) -> Result<EncodedRoot> {
    if info.options.format != Format::V2 {
        return Err(Error::new(ErrorKind::SieveOption("an index of units has format 2")));
    }
    if layout.num_units() != spans.len() || stats.len() != spans.len() {
        return Err(Error::new(ErrorKind::SieveLocation(saturating_u32(stats.len()))));
    }
    let stats = stats.into_iter().zip(spans).map(|(stats, span)| Stats { span: span.clone(), ..stats }).collect();
    UnitRoot::encode(info, &UnitPage::new(layout, stats)?, segments, pages_file)
}

/// The result of building one partition, without the bytes of its segments. Input of [`join_shares`].
#[derive(Debug)]
pub struct Share<K> {
    head: Fragment,
    tail: Fragment,
    spans: Vec<Option<KeySpan<K>>>,
    entries: Vec<Entry<K>>,
}

impl<K: Key> Share<K> {
    /// Finishes a partition, and returns the remaining bytes of the two halves of its file.
    pub fn finish(builder: Builder<K>, mut stream: SegmentStream<K>) -> (Self, Vec<u8>, Vec<u8>) {
        let BuiltPartition { head, built, tail } = builder.finish_part();
        stream.put(built.segments);
        let (lookups, keys) = stream.take();
        (Self { head, tail, spans: built.spans, entries: stream.into_entries() }, lookups, keys)
    }

    /// Finishes a build of whole pages. The next page begins at `next`, and the share contains no unbuilt keys.
    pub fn finish_before(
        builder: Builder<K>,
        mut stream: SegmentStream<K>,
        next: Option<&K>,
    ) -> Result<(Self, Vec<u8>, Vec<u8>)> {
        let BuiltPartition { head, tail, .. } = Builder::<K>::new(0, Options::default())?.finish_part();
        let built = builder.finish_before(next);
        stream.put(built.segments);
        let (lookups, keys) = stream.take();
        Ok((Self { head, tail, spans: built.spans, entries: stream.into_entries() }, lookups, keys))
    }

    /// Encodes the share.
    pub fn write(&self) -> Vec<u8> {
        let mut body = vec![K::CODE];
        for fragment in [&self.head, &self.tail] {
            put_varint(&mut body, to_u64(fragment.as_bytes().len()));
            body.extend_from_slice(fragment.as_bytes());
        }
        put_varint(&mut body, to_u64(self.spans.len()));
        let present = self.spans.iter().flatten().count();
        put_varint(&mut body, to_u64(present));
        for (location, span) in (0u64..).zip(&self.spans) {
            if let Some(span) = span {
                put_varint(&mut body, location);
                put_span(&mut body, span);
            }
        }
        put_varint(&mut body, to_u64(self.entries.len()));
        let mut previous = None;
        for entry in &self.entries {
            put_entry(&mut body, previous, entry);
            body.extend_from_slice(&entry.check.unwrap_or(0).to_le_bytes());
            previous = Some(&entry.most);
        }
        frame(SHARE, &body)
    }

    /// Decodes a share of a build over `num_locations` locations.
    pub fn read(bytes: &[u8], num_locations: u32) -> Result<Self> {
        let mut cursor = cursor(unframe(SHARE, bytes)?);
        let cursor = &mut cursor;
        if cursor.u8()? != K::CODE {
            return Err(malformed(cursor, "key width"));
        }
        let mut fragment = || {
            let len = take_len(cursor)?;
            cursor.take(len).map(|bytes| Fragment::from_bytes(bytes.to_vec()))
        };
        let (head, tail) = (fragment()?, fragment()?);
        if cursor.varint()? != u64::from(num_locations) {
            return Err(malformed(cursor, "number of locations"));
        }
        let mut spans = vec![None; index(num_locations)];
        for _ in 0..cursor.varint()? {
            let location = take_u32(cursor)?;
            let span = take_span(cursor)?;
            *spans.get_mut(index(location)).ok_or_else(|| malformed(cursor, "location"))? = Some(span);
        }
        let mut entries: Vec<Entry<K>> = Vec::new();
        for _ in 0..cursor.varint()? {
            let entry = take_entry(cursor, entries.last().map(|entry| &entry.most))?;
            entries.push(Entry { check: Some(cursor.u32()?), ..entry });
        }
        finished(cursor)?;
        Ok(Self { head, tail, spans, entries })
    }
}

/// Joins the shares of all partitions in order of their keys. Encodes the segments at the borders as file number
/// `file`. A single builder would produce the same segments.
pub fn join_shares<K: Key>(
    shares: Vec<Share<K>>,
    num_locations: u32,
    options: Options,
    file: u32,
) -> Result<Joined<K>> {
    let mut stored = Vec::new();
    let mut parts = Vec::with_capacity(shares.len());
    for Share { head, tail, spans, entries } in shares {
        // A stored segment enters the join without its bytes. Empty bytes identify it afterwards.
        let placeholder = |entry: &Entry<K>| EncodedSegment {
            least: entry.least.clone(),
            most: entry.most.clone(),
            lookup: Vec::new(),
            keys: Vec::new(),
            counts: entry.counts,
        };
        let segments = entries.iter().map(placeholder).collect();
        stored.extend(entries);
        parts.push(BuiltPartition { head, built: Built { segments, spans }, tail });
    }
    let built = join(parts, num_locations, options)?;
    let (mut stored, mut stream) = (stored.into_iter(), SegmentStream::new(file));
    let is_stored: Vec<bool> = built.segments.iter().map(|segment| segment.lookup.is_empty()).collect();
    stream.put(built.segments.into_iter().filter(|segment| !segment.lookup.is_empty()).collect());
    let (mut bytes, keys) = stream.take();
    bytes.extend_from_slice(&keys);
    let mut border = stream.into_entries().into_iter();
    let entries = is_stored.into_iter().filter_map(|is_stored| if is_stored { stored.next() } else { border.next() });
    Ok(Joined { segments: entries.collect(), spans: built.spans, file: bytes })
}

/// The result of joining the shares of a build.
#[derive(Debug)]
pub struct Joined<K> {
    /// The directory of all segments.
    pub segments: Vec<Entry<K>>,
    /// The span of each location.
    pub spans: Vec<Option<KeySpan<K>>>,
    /// The bytes of the segments at the borders.
    pub file: Vec<u8>,
}

/// Decodes a keys section of an index over `num_locations` locations, to verify that it is intact.
pub fn check_keys<K: Key>(bytes: &[u8], num_locations: u32) -> Result<()> {
    take_keys::<K>(bytes, num_locations, &mut Records::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sieve::build::merge::Merge;
    use crate::sieve::key::axis::{AxisType, Bytes};
    use crate::sieve::record::options::Coarsen;
    use crate::sieve::record::pairs::{PairBuffer, RunWriter, SortableKey};
    use proptest::prelude::*;

    const SMALL: Options =
        Options { max_records: 40, max_key_bytes: 400, max_weight: 24, coarsen: Coarsen::Exact, ..Options::DEFAULT };

    /// Sorts rows into `runs` runs, merges them and feeds them to a builder.
    fn build<K: SortableKey>(rows: &[(K::Value<'_>, u32)], runs: usize, mut builder: Builder<K>) -> Builder<K> {
        let runs: Vec<Vec<Vec<u8>>> = (0..runs)
            .map(|run| {
                let mut pairs = K::Buffer::default();
                rows.iter().skip(run).step_by(runs).for_each(|(value, location)| pairs.push(*value, *location, 1));
                let mut writer = RunWriter::default();
                pairs.drain(&mut |key, location, rows| writer.push(key, location, rows));
                writer.finish()
            })
            .collect();
        let mut merge = Merge::<K>::new(runs.len());
        let mut feeds: Vec<_> = runs.into_iter().map(Vec::into_iter).collect();
        while let Some(waiting) = merge.pour(|key, location, rows| builder.push(key, location, rows)).unwrap() {
            merge.feed(waiting, feeds[waiting].next()).unwrap();
        }
        builder
    }

    fn check<K: SortableKey>(rows: &[(K::Value<'_>, u32)], runs: usize, borders: &[K::Value<'_>]) {
        let info = IndexInfo { axis: AxisType::Unsigned, instant: 3, options: SMALL };
        let locations: Vec<Location> =
            (0..9).map(|number| Location { partition: String::new(), group: format!("{number}") }).collect();
        let expected = build(rows, 1, Builder::<K>::new(9, SMALL).unwrap()).finish();
        let (root, file) = Root::new(info, locations.clone(), vec![Stats::default(); 9], &expected).unwrap();
        // Merged runs, and segments taken while the build runs, result in the same file.
        let mut builder = build(rows, runs, Builder::<K>::new(9, SMALL).unwrap());
        let mut stream = SegmentStream::new(0);
        stream.put(builder.take_segments());
        let (mut lookups, mut keys) = stream.take();
        let rest = builder.finish();
        stream.put(rest.segments);
        let more = stream.take();
        lookups.extend(more.0);
        keys.extend(more.1);
        let streamed =
            root_over(info, locations.clone(), vec![Stats::default(); 9], &rest.spans, stream.into_entries()).unwrap();
        assert_eq!((&streamed, [lookups, keys].concat()), (&root, file));
        // Shares join to the same segments, no matter which file contains them.
        let mut borders: Vec<K> = borders.iter().map(|border| K::owned(*border)).collect();
        borders.sort_unstable();
        let mut files = Vec::new();
        let shares: Vec<_> = (0..=borders.len())
            .map(|at| {
                let inside =
                    |key: &K| (at == 0 || *key >= borders[at - 1]) && borders.get(at).is_none_or(|to| key < to);
                let rows: Vec<_> = rows.iter().filter(|row| inside(&K::owned(row.0))).copied().collect();
                let mut builder = build(&rows, 1, Builder::<K>::partition(9, SMALL).unwrap());
                let mut stream = SegmentStream::new(u32::try_from(at).unwrap());
                stream.put(builder.take_segments());
                let first = stream.take();
                let (share, lookups, keys) = Share::finish(builder, stream);
                files.push([first.0, lookups, first.1, keys].concat());
                Share::read(&share.write(), 9).unwrap()
            })
            .collect();
        let border_file = u32::try_from(files.len()).unwrap();
        let Joined { segments: entries, spans, file } = join_shares(shares, 9, SMALL, border_file).unwrap();
        files.push(file);
        assert_eq!(spans, expected.spans);
        assert_eq!(entries.len(), expected.segments.len());
        for (entry, segment) in entries.iter().zip(&expected.segments) {
            let section = |extent: SectionRange| {
                let start = usize::try_from(extent.offset).unwrap();
                &files[index(extent.file)][start..start + usize::try_from(extent.len).unwrap()]
            };
            assert_eq!((section(entry.lookup), section(entry.keys)), (&segment.lookup[..], &segment.keys[..]));
            assert_eq!((&entry.least, &entry.most, entry.counts), (&segment.least, &segment.most, segment.counts));
        }
    }

    proptest! {
        #[test]
        fn i5_runs_and_shares_of_words_build_the_same_segments(
            rows in proptest::collection::vec((prop_oneof![0u64..300, any::<u64>()], 0u32..9), 0..400),
            runs in 1usize..5,
            borders in proptest::collection::vec(prop_oneof![0u64..300, any::<u64>()], 0..4),
        ) {
            check::<u64>(&rows, runs, &borders);
        }

        #[test]
        fn i5_runs_and_shares_of_texts_build_the_same_segments(
            rows in proptest::collection::vec((text(), 0u32..9), 0..200),
            runs in 1usize..5,
            borders in proptest::collection::vec(text(), 0..4),
        ) {
            let rows: Vec<(&[u8], u32)> = rows.iter().map(|(text, location)| (&text[..], *location)).collect();
            let borders: Vec<&[u8]> = borders.iter().map(|text| &text[..]).collect();
            check::<Bytes>(&rows, runs, &borders);
        }

        #[test]
        fn i11_random_bytes_as_chunks_or_shares_never_panic(bytes: Vec<u8>, framed: bool) {
            let part = |part| if framed { frame(part, &bytes) } else { bytes.clone() };
            if let Ok(mut chunk) = crate::sieve::record::pairs::RunChunk::<Bytes>::new(part(crate::sieve::code::format::RUN)) {
                while let Ok(Some(_)) = chunk.next_pair() {}
            }
            drop(Share::<Bytes>::read(&part(SHARE), 3));
        }
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(0u8), Just(b'a'), any::<u8>()], 0..12)
    }
}
