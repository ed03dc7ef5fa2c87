//! A segment decoded for many lookups: the start and the set of each run, in plain arrays.
//!
//! The stored form is made to be read over a network, and every lookup decodes its bits again. Once a segment's lookups
//! have cost about as much as decoding all of it, the segment is decoded once, if the cache has room. Both forms give
//! the same answers.

use crate::int::{index, low_u32, low_u64, saturating_u32, to_usize};
use crate::sieve::code::bits::{BackReader, BitReader, Source};
use crate::sieve::code::offset::{Offset, shifted};
use crate::sieve::code::separators::{MAX_SEPARATORS, take_separators};
use crate::sieve::segment::block::{FUEL, Layout, SetKind, StoredSets, take_kind, take_set, take_shared};
use crate::sieve::segment::fingerprint::{fingerprint, take_fingerprints, universe};
use crate::sieve::segment::runs::{LIST, NO_TAG, OUTSIDE, Run, Runs, list_at};
use std::ops::Range;

/// Returns the number of runs per stored union, which lets a long interval skip them in one step. Small unions cover
/// fewer runs.
fn runs_per_group(words: usize) -> usize {
    if words <= 4 { 32 } else { 128 }
}

/// The most runs or list members of a segment worth decoding: several times the number that the default
/// `Options::max_weight` allows.
const MOST_ENTRIES: usize = 1 << 18;

/// The most bytes for the unions of groups.
const MOST_UNION_BYTES: usize = 1 << 18;

/// The runs of one segment, block by block.
#[derive(Debug)]
pub(in crate::sieve) struct DecodedSegment {
    shift: u32,
    /// The number of low bits of a point that no run depends on.
    ignored_bits: u32,
    /// The block number of the least point.
    base: u128,
    /// The first run of each block, and the end of the last block.
    starts: Vec<u32>,
    runs: Runs,
    /// Lists of locations, each preceded by its length.
    lists: Vec<u32>,
    /// The slots of a fingerprint for each location, or zero if there are no fingerprints.
    slots: u32,
    /// For each run with the tag `OUTSIDE`, the list of its fingerprints in `fingerprints`. Empty if there is none.
    outside: Vec<u32>,
    /// Lists of fingerprints of several keys, each preceded by its length.
    fingerprints: Vec<u32>,
    /// Unions of groups of neighboring runs as bit sets. Empty if there are few runs or too many locations.
    unions: Vec<u64>,
    /// The location of the first bit in a union.
    origin: u32,
    words: usize,
}

/// The parts of a stored segment that decoding needs.
pub(in crate::sieve) struct StoredSegment<'a> {
    pub(in crate::sieve) layout: &'a Layout,
    /// The locations by local number. Not empty.
    pub(in crate::sieve) locations: &'a [u32],
    pub(in crate::sieve) least: u128,
    pub(in crate::sieve) shared: StoredSets<'a>,
    pub(in crate::sieve) bounds: &'a [u32],
    pub(in crate::sieve) payload: &'a [u8],
}

/// The state of decoding a segment.
struct SegmentDecoder<P> {
    starts: Vec<u32>,
    lows: Vec<P>,
    /// The location of each run, or the start of its list.
    sets: Vec<u32>,
    lists: Vec<u32>,
    /// The list without locations, once it is needed.
    empty: Option<u32>,
    /// The list of each shared set decoded so far.
    shared: Vec<u32>,
    /// The tag of each run, and the list of its fingerprints if they are outside.
    tags: Vec<u32>,
    outside: Vec<u32>,
    fingerprints: Vec<u32>,
    fuel: u64,
}

impl<P: Offset> SegmentDecoder<P> {
    /// Adds a list of the locations that `take` visits.
    fn list(
        &mut self,
        locations: &[u32],
        take: impl FnOnce(&mut u64, &mut dyn FnMut(u32)) -> Option<()>,
    ) -> Option<u32> {
        let Self { lists, fuel, .. } = self;
        let start = lists.len();
        lists.push(0);
        take(fuel, &mut |local| lists.extend(locations.get(index(local))))?;
        lists[start] = saturating_u32(lists.len() - start - 1);
        Some(LIST | saturating_u32(start))
    }

    /// Decodes the fingerprints of a run.
    fn tag(&mut self, set: u32, layout: &Layout, back: &mut BackReader<'_>) -> Option<()> {
        let num_locations = if set & LIST == 0 { 1 } else { saturating_u32(list_at(&self.lists, set & !LIST).len()) };
        let (mut tag, mut outside) = (NO_TAG, 0);
        if num_locations > 0 {
            let Self { fingerprints, fuel, .. } = self;
            outside = fingerprints.len();
            fingerprints.push(0);
            take_fingerprints(back, (num_locations, layout.slots), fuel, |_, stored| fingerprints.push(stored)).ok()?;
            fingerprints[outside] = saturating_u32(fingerprints.len() - outside - 1);
            tag = OUTSIDE;
            if let [1, only] = fingerprints[outside..] {
                tag = only + 1;
                fingerprints.truncate(outside);
                outside = 0;
            }
        }
        self.tags.push(tag);
        self.outside.push(saturating_u32(outside));
        Some(())
    }

    fn block(&mut self, stored: &StoredSegment<'_>, start: usize, end: usize) -> Option<()> {
        let layout = stored.layout;
        let mut reader = BitReader::new(stored.payload, start, end);
        let count = low_u32(reader.take(layout.count_bits)).min(MAX_SEPARATORS);
        self.lows.push(P::ZERO);
        take_separators(&mut reader, count, layout.shift, P::ZERO, layout.distribution, &mut self.lows)?;
        let mut back = BackReader::new(stored.payload, start, end);
        let first = self.sets.len();
        for run in first..=first + index(count) {
            let set = match take_kind(&mut back, layout).ok()? {
                SetKind::One => *stored.locations.get(index(back.take_below(layout.num_locals)))?,
                SetKind::Shared => {
                    let number = back.take_below(layout.num_shared);
                    let list = *self.shared.get(index(number))?;
                    if list == u32::MAX {
                        let list = self.list(stored.locations, |fuel, mut add| {
                            take_shared(stored.shared, number, layout, fuel, &mut add).ok().map(drop)
                        })?;
                        self.shared[index(number)] = list;
                        list
                    } else {
                        list
                    }
                }
                SetKind::Inline => self.list(stored.locations, |fuel, mut add| {
                    take_set(&mut back, layout, fuel, &mut add).ok().map(drop)
                })?,
                SetKind::Previous => *self.sets.get(run.checked_sub(1).filter(|&run| run >= first)?)?,
                SetKind::BeforePrevious => *self.sets.get(run.checked_sub(2).filter(|&run| run >= first)?)?,
                SetKind::Empty => match self.empty {
                    Some(list) => list,
                    None => {
                        let list = self.list(&[], |_, _| Some(()))?;
                        *self.empty.insert(list)
                    }
                },
            };
            if back.exhausted() {
                return None;
            }
            self.sets.push(set);
            if layout.slots > 0 {
                self.tag(set, layout, &mut back)?;
            }
        }
        let entries = self.sets.len().max(self.lists.len()).max(self.fingerprints.len());
        (entries <= MOST_ENTRIES).then_some(())
    }
}

impl DecodedSegment {
    /// Decodes all blocks. Returns `None` if the segment is not worth decoding or a block is corrupt.
    pub(in crate::sieve) fn new<P: Offset>(stored: &StoredSegment<'_>) -> Option<Self> {
        let layout = stored.layout;
        let mut decoder = SegmentDecoder::<P> {
            starts: Vec::with_capacity(stored.bounds.len()),
            lows: Vec::new(),
            sets: Vec::new(),
            lists: Vec::new(),
            empty: None,
            tags: Vec::new(),
            outside: Vec::new(),
            fingerprints: Vec::new(),
            shared: vec![u32::MAX; index(layout.num_shared)],
            fuel: FUEL,
        };
        for bounds in stored.bounds.windows(2) {
            decoder.starts.push(saturating_u32(decoder.sets.len()));
            if bounds[0] < bounds[1] {
                decoder.block(stored, index(bounds[0]), index(bounds[1]))?;
            }
        }
        decoder.starts.push(saturating_u32(decoder.sets.len()));
        let SegmentDecoder { starts, lows, sets, lists, tags, mut outside, fingerprints, .. } = decoder;
        let zeros = lows.iter().filter(|&&low| low != P::ZERO).map(|low| low.trailing_zeros()).min();
        let ignored_bits = zeros.unwrap_or(0).min(layout.shift);
        let runs = Runs::new(&lows, (ignored_bits, layout.shift - ignored_bits), &sets, &tags)?;
        if fingerprints.is_empty() {
            outside = Vec::new();
        }
        let (origin, end) = (*stored.locations.first()?, *stored.locations.last()?);
        let (base, words) = (shifted(stored.least, layout.shift), index(end.checked_sub(origin)?) / 64 + 1);
        let (unions, shift, slots) = (Vec::new(), layout.shift, layout.slots);
        let mut decoded = Self {
            shift,
            ignored_bits,
            base,
            starts,
            runs,
            lists,
            slots,
            outside,
            fingerprints,
            unions,
            origin,
            words,
        };
        decoded.unite();
        Some(decoded)
    }

    fn unite(&mut self) {
        let per_group = runs_per_group(self.words);
        let groups = self.runs.len() / per_group;
        if groups < 3 || groups * self.words * 8 > MOST_UNION_BYTES {
            return;
        }
        let mut unions = vec![0; groups * self.words];
        for (group, union) in unions.chunks_mut(self.words).enumerate() {
            self.mark(group * per_group..(group + 1) * per_group, union);
        }
        self.unions = unions;
    }

    /// Returns the memory in use.
    pub(in crate::sieve) fn num_bytes(&self) -> usize {
        let words = self.starts.len() + self.lists.len() + self.outside.len() + self.fingerprints.len();
        self.runs.num_bytes() + words * 4 + self.unions.len() * 8
    }

    /// Returns the number of low bits of a point that do not matter.
    #[inline]
    pub(in crate::sieve) fn ignored_bits(&self) -> u32 {
        self.ignored_bits
    }

    /// Returns the run of a point. Returns `None` outside the segment or in a block without keys.
    #[inline]
    fn run_of(&self, point: u128) -> Option<Run> {
        let block = to_usize(low_u64(shifted(point, self.shift).checked_sub(self.base)?))?;
        let ends = self.starts.get(block..)?.first_chunk::<2>()?;
        let inside = low_u64((point & ((1u128 << self.shift) - 1)) >> self.ignored_bits);
        self.runs.find((index(ends[0]), index(ends[1])), inside)
    }

    /// Appends the locations of the run of a point, unless its fingerprints exclude the key with this hash.
    #[inline]
    pub(in crate::sieve) fn point(&self, point: u128, hash: impl FnOnce() -> u64, out: &mut Vec<u32>) {
        let Some(run) = self.run_of(point) else { return };
        if run.tag != NO_TAG && !self.may_contain(run, hash()) {
            return;
        }
        if run.set < LIST { out.push(run.set) } else { out.extend_from_slice(self.list(run.set)) }
    }

    #[inline]
    fn may_contain(&self, run: Run, hash: u64) -> bool {
        let num_locations = if run.set < LIST { 1 } else { saturating_u32(self.list(run.set).len()) };
        if run.tag != OUTSIDE {
            return fingerprint(hash, universe(1, num_locations, self.slots)) == run.tag - 1;
        }
        let members = self.outside.get(run.number).map_or(&[][..], |&at| list_at(&self.fingerprints, at));
        let wanted = fingerprint(hash, universe(saturating_u32(members.len()), num_locations, self.slots));
        members.binary_search(&wanted).is_ok()
    }

    #[inline]
    fn list(&self, set: u32) -> &[u32] {
        list_at(&self.lists, set & !LIST)
    }

    /// Sets the bit of each location of a range of runs.
    fn mark(&self, runs: Range<usize>, union: &mut [u64]) {
        let mut set_bit = |location: u32| {
            let bit = location.wrapping_sub(self.origin);
            if let Some(word) = union.get_mut(index(bit / 64)) {
                *word |= 1 << (bit % 64);
            }
        };
        self.runs.for_each_set(runs, |set| {
            if set < LIST { set_bit(set) } else { self.list(set).iter().for_each(|&at| set_bit(at)) }
        });
    }

    /// Appends the locations of every run that overlaps the points from `least` to `most`, both within the segment.
    pub(in crate::sieve) fn interval(&self, least: u128, most: u128, out: &mut Vec<u32>) {
        let block =
            |point: u128| shifted(point, self.shift).checked_sub(self.base).and_then(|at| to_usize(low_u64(at)));
        let start_of = |block: usize| self.starts.get(block).map_or(self.runs.len(), |&start| index(start));
        // A block without keys has no run. The interval then starts with the first run after it and ends with the last
        // run before it.
        let first = self.run_of(least).map(|run| run.number).or_else(|| block(least).map(start_of)).unwrap_or(0);
        let end = self.run_of(most).map(|run| run.number + 1).or_else(|| block(most).map(start_of));
        let end = end.unwrap_or(self.runs.len()).max(first);
        let mut union = vec![0; self.words];
        let per_group = runs_per_group(self.words);
        let groups = first.div_ceil(per_group)..end / per_group;
        if groups.is_empty() || self.unions.is_empty() {
            self.mark(first..end, &mut union);
        } else {
            self.mark(first..groups.start * per_group, &mut union);
            self.mark(groups.end * per_group..end, &mut union);
            for group_union in self.unions.chunks(self.words).take(groups.end).skip(groups.start) {
                union.iter_mut().zip(group_union).for_each(|(word, bits)| *word |= bits);
            }
        }
        for (&word, first) in union.iter().zip((self.origin..).step_by(64)) {
            let mut left = word;
            while left != 0 {
                out.push(first + left.trailing_zeros());
                left &= left - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::sieve::tests::model::Random;
    use crate::sieve::{
        AxisType, Builder, Bytes, Coarsen, Index, IndexInfo, Key, Location, Options, Query, Root, Stats, axis::signed,
    };
    use proptest::prelude::*;

    const LOCATIONS: u32 = 200;

    fn index<K: Key>(mut pairs: Vec<(K, u32)>, options: Options) -> Index<K> {
        pairs.sort();
        let mut builder = Builder::new(LOCATIONS, options).unwrap();
        pairs.into_iter().for_each(|(key, location)| builder.push(key, location, 1).unwrap());
        let names = (0..LOCATIONS).map(|at| Location { partition: String::new(), group: format!("{at:04}") });
        let stats = vec![Stats::default(); usize::try_from(LOCATIONS).unwrap()];
        let info = IndexInfo { axis: AxisType::Signed, instant: 1, options };
        let (root, file) = Root::new(info, names.collect(), stats, &builder.finish()).unwrap();
        let mut index = Index::new(root);
        index.load_all(&file).unwrap();
        index
    }

    /// Checks that stored and decoded segments answer all points and some intervals alike. Returns true if any segment
    /// was decoded.
    fn check<K: Key>(pairs: Vec<(K, u32)>, absent: &[K], options: Options, random: &mut Random) -> bool {
        let mut keys: Vec<K> = pairs.iter().map(|pair| pair.0.clone()).chain(absent.iter().cloned()).collect();
        // Clones share their segments, and so their decoded forms.
        let (mut stored, decoded) = (index(pairs.clone(), options), index(pairs, options));
        stored.set_cache_bytes(0);
        decoded.decode_all();
        keys.sort();
        for key in &keys {
            let point = Query::Point(key.clone());
            assert_eq!(stored.answer(&point), decoded.answer(&point), "{key:?}");
        }
        for _ in 0..200 {
            let mut key = || keys[usize::try_from(random.below(keys.len() as u64)).unwrap()].clone();
            let interval = Query::Between(key(), key());
            assert_eq!(stored.answer(&interval), decoded.answer(&interval), "{interval:?}");
        }
        assert!(stored.slots.iter().all(|slot| !is_cached(slot)));
        decoded.slots.iter().any(is_cached)
    }

    fn is_cached<K>(slot: &crate::sieve::index::loaded::Slot<K>) -> bool {
        matches!(slot, crate::sieve::index::loaded::Slot::Ready(segment) if segment.cache.get().is_some())
    }

    /// A key from one of three distributions: dense, sparse, and clumps of keys that share many bits.
    fn key(random: &mut Random, distribution: u64) -> u64 {
        match distribution {
            0 => random.below(3000),
            1 => random.below(u64::MAX),
            _ => random.below(9) << 60 | random.below(300),
        }
    }

    proptest! {
        #[test]
        fn decoded_and_stored_segments_answer_alike(seed: u64, distribution in 0u64..3, rows in 1usize..2500, few in 1u64..200, coarse in 0usize..4) {
            let random = &mut Random(seed);
            let coarsens = [Coarsen::Exact, Coarsen::Plain { keys: 5 }, Coarsen::Error { millionths: 9000 }, Coarsen::Slope { thousandths: 900 }];
            let options = Options { coarsen: coarsens[coarse], max_weight: [700, 16_384][rows % 2], ..Options::default() };
            let pairs: Vec<(u64, u32)> =
                (0..rows).map(|_| (key(random, distribution), u32::try_from(random.below(few)).unwrap())).collect();
            let mut absent: Vec<u64> = (0..100).map(|_| key(random, distribution)).collect();
            absent.extend([0, u64::MAX, signed(0)]);
            prop_assert!(check(pairs.clone(), &absent, options, random));
            let wide = |key: u64| u128::from(key) << 64 | u128::from(key % 3);
            let wides = pairs.iter().map(|pair| (wide(pair.0), pair.1)).collect();
            let absent_wides: Vec<u128> = absent.iter().map(|&key| wide(key) + 1).collect();
            check(wides, &absent_wides, options, random);
            let text = |key: u64| Bytes::new(format!("{}-{key:x}", ["", "stem-0000000000", "stem-1"][usize::try_from(key % 3).unwrap()]).as_bytes());
            let texts = pairs.iter().map(|pair| (text(pair.0), pair.1)).collect();
            let mut absent_texts: Vec<Bytes> = absent.iter().map(|&key| text(key)).collect();
            absent_texts.extend([&b""[..], b"stem", b"stem-0000000000-zz", b"t"].map(Bytes::new));
            check(texts, &absent_texts, options, random);
        }
    }

    #[test]
    fn segments_with_many_lookups_are_decoded_while_the_cache_has_room() {
        let pairs: Vec<(u64, u32)> = (0..5000).map(|key| (key * 7, u32::try_from(key * key % 199).unwrap())).collect();
        let mut index = index(pairs, Options { max_weight: 2000, ..Options::default() });
        index.set_cache_bytes(20_000);
        let segments = index.slots.len();
        for key in (0..5000).cycle().take(40_000) {
            index.point(&(key * 7), &mut Vec::new());
        }
        let cached = index.slots.iter().filter(|slot| is_cached(slot)).count();
        assert!(0 < cached && cached < segments, "{cached} of {segments}");
    }
}
