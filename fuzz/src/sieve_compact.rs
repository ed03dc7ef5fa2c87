//! Compaction of version 2 with a damaged delta and a damaged keys section, both with a valid checksum. Either it fails,
//! or the new index has all rows of the undamaged parts.

use std::sync::OnceLock;

use parsieve::sieve::{
    Builder, Bytes, Change, ChangedSlice, CompactionFiles, Cut, EncodedRoot, Format, Index, IndexInfo, Key, Layout,
    Options, Query, SectionRange, SegmentStream, SliceLayout, Stats, UnitDelta, UnitNeed, UnitTimeline, WHOLE_SLICE,
    unit_root_over,
};

use super::samples;
use super::sieve::{Probes, SMALL, frame, unframe};
use super::sieve_unit_root::query_everything;

const OPTIONS: Options = Options { format: Format::V2, fingerprints: Some(true), keep_keys: true, ..SMALL };
/// The largest number of units of a damaged delta.
const MOST_UNITS: usize = 1 << 12;
/// The numbers of the files with the old segments and the new ones.
const FILES: CompactionFiles<'_> = CompactionFiles { segments: 1, pages: 2, old: &[0] };

/// A small index, and the keys and units that it was built from.
struct Base<K> {
    root: Vec<u8>,
    file: Vec<u8>,
    pairs: Vec<(K, u32)>,
}

/// Keys with a small index.
trait Compacted: Probes + 'static {
    fn base() -> &'static Base<Self>;
}

impl Compacted for u64 {
    fn base() -> &'static Base<Self> {
        static BASE: OnceLock<Base<u64>> = OnceLock::new();
        BASE.get_or_init(|| Base::new(samples::words(120)))
    }
}

impl Compacted for u128 {
    fn base() -> &'static Base<Self> {
        static BASE: OnceLock<Base<u128>> = OnceLock::new();
        let wide = || samples::words(60).into_iter().map(|(key, unit)| (u128::from(key) << 40 | 7, unit)).collect();
        BASE.get_or_init(|| Base::new(wide()))
    }
}

impl Compacted for Bytes {
    fn base() -> &'static Base<Self> {
        static BASE: OnceLock<Base<Bytes>> = OnceLock::new();
        BASE.get_or_init(|| Base::new(samples::texts(80)))
    }
}

impl<K: Probes> Base<K> {
    fn new(mut pairs: Vec<(K, u32)>) -> Self {
        pairs.sort();
        let mut builder = Builder::new(9, OPTIONS).unwrap();
        pairs.iter().for_each(|(key, unit)| builder.push(key.clone(), *unit, 1).unwrap());
        let built = builder.finish();
        let mut stream = SegmentStream::new(0);
        stream.put(built.segments);
        let (lookups, keys) = stream.take();
        let stats = vec![Stats::default(); 9];
        let root = unit_root_over(info::<K>(7), samples::layout(), stats, &built.spans, stream.into_entries(), 1);
        Self { root: root.unwrap().root, file: [lookups, keys].concat(), pairs }
    }

    fn bytes(&self, range: SectionRange) -> Vec<u8> {
        self.file[range.offset as usize..][..range.len as usize].to_vec()
    }

    /// Opens the index with a delta, and loads it completely.
    fn open(&self, delta: UnitDelta<K>) -> parsieve::Result<UnitTimeline<K>> {
        let mut timeline = UnitTimeline::new(K::AXIS, Some(Index::open_units(&self.root)?), vec![delta])?;
        let segments = timeline.base().unwrap().root().segments.clone();
        for (at, entry) in segments.into_iter().enumerate() {
            timeline.load_segment(at, &self.bytes(entry.lookup))?;
        }
        assert!(timeline.needs_slices(None).is_empty(), "the unit pages are behind the root");
        Ok(timeline)
    }
}

fn info<K: Probes>(instant: i64) -> IndexInfo {
    IndexInfo { axis: K::AXIS, instant, options: OPTIONS }
}

/// Reads `data` as flags of slices that are gone, the length of the body of a delta, that body, and the body of the first
/// keys section. An empty section is not damaged. The delta's first byte determines the width of the keys.
pub fn run(data: &[u8]) {
    let Some((&[gone, low, high], rest)) = data.split_first_chunk::<3>() else { return };
    let Some((delta, keys)) = rest.split_at_checked(usize::from(u16::from_le_bytes([low, high]))) else { return };
    match delta.first() {
        Some(1) => check::<u64>(gone, delta, keys),
        Some(2) => check::<u128>(gone, delta, keys),
        _ => check::<Bytes>(gone, delta, keys),
    }
}

fn check<K: Compacted>(gone: u8, delta: &[u8], keys: &[u8]) {
    let Ok(delta) = UnitDelta::<K>::read(&frame(b"SvD2", delta)) else { return };
    let base = K::base();
    let Ok(timeline) = base.open(delta) else { return };
    let Ok(units) = timeline.all_units() else { return };
    if units.layout.num_units() > MOST_UNITS {
        return;
    }
    let ids = units.layout.ids().iter().enumerate();
    let masked: Vec<u32> = ids.filter(|(at, _)| gone >> (at % 8) & 1 == 1).map(|(_, &id)| id).collect();
    let first = timeline.base().unwrap().root().segments[0].clone();
    let section = frame(b"SvK1", keys);
    let keys_at = |range: SectionRange| {
        if range == first.keys && !keys.is_empty() { Ok(section.clone()) } else { Ok(base.bytes(range)) }
    };
    let (mut lookups, mut new_keys) = (Vec::new(), Vec::new());
    let write = |lookup: Vec<u8>, keys: Vec<u8>| {
        lookups.extend(lookup);
        new_keys.extend(keys);
        Ok(())
    };
    let is_damaged = |key: &K| !keys.is_empty() && *key <= first.most;
    if let Ok((root, _)) = timeline.compact_keys(&masked, None, FILES, keys_at, write) {
        check_compacted(&timeline, &masked, root, &lookups, is_damaged);
    }
    if let Ok((root, lookups)) = compact_again(&timeline, &masked) {
        let compacted = check_compacted(&timeline, &masked, root, &lookups, |_| false);
        // A compaction from keys may also apply a deletion of a row that the same delta adds.
        for (key, unit, _) in timeline.delta_keys(&masked, &[]) {
            let (slice, unit) = name(&units.layout, unit);
            assert!(keeps(&compacted, &key, slice, unit), "{key:?} in unit {unit} of the new slice {slice} is lost");
        }
    }
}

/// Compacts by reading the slices of the base again.
fn compact_again<K: Compacted>(timeline: &UnitTimeline<K>, masked: &[u32]) -> parsieve::Result<(EncodedRoot, Vec<u8>)> {
    let touched = timeline.touched(masked, &[]);
    let layout = timeline.all_units()?.layout;
    let mut kept = timeline.kept(&touched.segments, FILES.old, masked, &[])?;
    let slices = samples::layout();
    let is_read = |unit: u32| touched.slices.binary_search(&name(&slices, unit).0).is_ok();
    let again = K::base().pairs.iter().filter(|(_, unit)| is_read(*unit));
    let mut keys: Vec<(K, u32, u64)> = again.map(|(key, unit)| (key.clone(), *unit, 1)).collect();
    keys.extend(timeline.delta_keys(masked, &[]));
    keys.sort();
    let mut builder = Builder::new(layout.num_units() as u32, OPTIONS)?;
    for (key, unit, rows) in keys {
        kept.push(&mut builder, key, unit, rows)?;
    }
    kept.end(&mut builder);
    let mut built = builder.finish();
    let mut stream = SegmentStream::new(FILES.segments);
    stream.put(std::mem::take(&mut built.segments));
    let (lookups, _) = stream.take();
    let (entries, spans) = kept.join(built, stream.into_entries());
    let sides = timeline.sides(masked)?.into_iter();
    let stats = sides.map(|(nulls, nans, unknown)| Stats { nulls, nans, unknown, span: None }).collect();
    Ok((unit_root_over(info::<K>(timeline.instant()), layout, stats, &spans, entries, FILES.pages)?, lookups))
}

/// Opens and queries a compacted index, which must have the rows of the base.
fn check_compacted<K: Compacted>(
    timeline: &UnitTimeline<K>,
    masked: &[u32],
    root: EncodedRoot,
    lookups: &[u8],
    is_damaged: impl Fn(&K) -> bool,
) -> UnitTimeline<K> {
    let index = Index::open_units(&root.root).expect("a compacted index");
    let mut compacted = UnitTimeline::new(K::AXIS, Some(index), Vec::new()).unwrap();
    for need in compacted.needs_slices(None) {
        let UnitNeed::Page(page, range) = need else { unreachable!("a slice needs its page") };
        compacted.load_page(page, &root.pages[range.offset as usize..][..range.len as usize]).unwrap();
    }
    let segments = compacted.base().unwrap().root().segments.clone();
    for (at, entry) in segments.into_iter().enumerate() {
        let bytes = match entry.lookup.file {
            0 => K::base().bytes(entry.lookup),
            _ => lookups[entry.lookup.offset as usize..][..entry.lookup.len as usize].to_vec(),
        };
        compacted.load_segment(at, &bytes).unwrap();
    }
    query_everything(&compacted);
    let slices = samples::layout();
    let changed = timeline.changed();
    for (key, unit) in &K::base().pairs {
        let (slice, unit) = name(&slices, *unit);
        // A delta may delete rows of a slice that it changes.
        let is_kept = !masked.contains(&slice) && !changed.contains(&slice) && !is_damaged(key);
        assert!(!is_kept || keeps(&compacted, key, slice, unit), "{key:?} in unit {unit} of slice {slice} is lost");
    }
    compacted
}

/// Returns the slice of a unit, and its number in the slice.
fn name(layout: &Layout, unit: u32) -> (u32, u32) {
    let firsts = (0..layout.num_slices()).map(|position| layout.first(position).unwrap());
    let position = firsts.take_while(|first| *first <= unit).count() - 1;
    (layout.ids()[position], unit - layout.first(position).unwrap())
}

fn keeps<K: Key>(timeline: &UnitTimeline<K>, key: &K, slice: u32, unit: u32) -> bool {
    let named = timeline.answer(&[&Query::Point(key.clone())]);
    named.is_none_or(|named| named.contains(&(slice, unit)) || named.contains(&(slice, WHOLE_SLICE)))
}

/// Returns deltas of each width, with and without a keys section.
pub fn seeds() -> Vec<Vec<u8>> {
    let wide = || samples::words(9).into_iter().map(|(key, unit)| (u128::from(key) << 40 | 9, unit)).collect();
    [
        seed(0, samples::words(9), false),
        seed(2, samples::words(30), true),
        seed(1, wide(), true),
        seed(9, samples::texts(20), true),
        seed(0, samples::texts(2), false),
    ]
    .to_vec()
}

fn seed<K: Compacted>(gone: u8, pairs: Vec<(K, u32)>, with_keys: bool) -> Vec<u8> {
    let mut layout = Layout::default();
    layout.add(SliceLayout { id: 8, cut: Cut::RowGroups, row_groups: &[5, 6] }).unwrap();
    layout.add(SliceLayout { id: 9, cut: Cut::Whole, row_groups: &[] }).unwrap();
    // The last location is slice 6, which the base has.
    let changes = pairs.into_iter().map(|(key, unit)| Change { key, location: unit % 4, plus: 1, minus: 0 });
    let changed = ChangedSlice { id: 6, nulls: (1, 0), ..ChangedSlice::default() };
    let sides = [(1, 0, false), (0, 2, false), (0, 0, false)];
    let delta = UnitDelta::new(9, layout, &sides, vec![changed], changes.collect()).unwrap().write();
    let delta = unframe(&delta);
    let len = u16::try_from(delta.len()).unwrap().to_le_bytes();
    let base = K::base();
    let keys = Index::<K>::open_units(&base.root).unwrap().root().segments[0].keys;
    let keys = if with_keys { base.bytes(keys) } else { vec![0; 8] };
    [&[gone, len[0], len[1]], delta, unframe(&keys)].concat()
}
