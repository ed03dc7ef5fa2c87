//! Encodes records as segments: finds and coarsens the runs, chooses the block width, and writes both sections.

use std::ops::Range;

use crate::int::{index, saturating_u32, to_u64, to_usize};
use crate::sieve::code::offset::{Offset, shifted, shortest_separator};
use crate::sieve::key::axis::Key;
use crate::sieve::key::hash::HashedKey;
use crate::sieve::key::string_points::StringPoints;
use crate::sieve::record::key_section::put_keys;
use crate::sieve::record::options::{Coarsen, Options};
use crate::sieve::record::records::Records;
use crate::sieve::segment::absent::{AbsentKeys, Choice, MAX_SECTION_BYTES, choose};
use crate::sieve::segment::coarsen::{KeyRun, Sets, coarsen};
use crate::sieve::segment::plan::{BlockRules, plan};
use crate::sieve::segment::write::{SegmentHeader, SegmentPlan, write};

/// Blocks have between half this number and this number of runs on average: few enough to decode quickly, enough to
/// share a stored bound.
const RUNS_PER_BLOCK: u64 = 8;

/// Blocks with large sets have fewer runs, and between half this number and this number of bits of sets, because skipping
/// a set takes time in proportion to its bits. The bound of a block takes about 14 bits, so smaller blocks take more
/// space: half this number makes the index of 200,000 keys in ten of 64 locations 14 % larger, and that of a Zipf
/// distribution over 4,096 locations 17 %.
const BITS_PER_BLOCK: u64 = 192;

/// Blocks with fingerprints have at most twice this many keys on average, because long sets of them take time to decode.
const KEYS_PER_BLOCK: u64 = 32;

/// A finished segment: its two stored sections and its directory entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedSegment<K> {
    /// The least key.
    pub least: K,
    /// The greatest key.
    pub most: K,
    /// The lookup section.
    pub lookup: Vec<u8>,
    /// The keys section, for compaction.
    pub keys: Vec<u8>,
    /// Totals over its keys.
    pub counts: Counts,
}

/// Totals over the keys of a segment or of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Distinct keys.
    pub keys: u64,
    /// Rows.
    pub rows: u64,
    /// `(key, location)` pairs, which is the number of reads of exact answers, summed over the keys.
    pub pairs: u64,
    /// Reads of the stored answers, summed over the keys.
    pub reads: u64,
    /// Stored runs.
    pub runs: u64,
    /// Blocks.
    pub blocks: u64,
}

impl Counts {
    pub(in crate::sieve) fn add(&mut self, other: &Self) {
        self.keys = self.keys.saturating_add(other.keys);
        self.rows = self.rows.saturating_add(other.rows);
        self.pairs = self.pairs.saturating_add(other.pairs);
        self.reads = self.reads.saturating_add(other.reads);
        self.runs = self.runs.saturating_add(other.runs);
        self.blocks = self.blocks.saturating_add(other.blocks);
    }
}

/// Memory that is reused for every segment.
#[derive(Debug, Default)]
pub(in crate::sieve) struct Scratch {
    /// The local number of each location. Valid only if its entry in `epochs` is the current epoch.
    locals: Vec<u32>,
    epochs: Vec<u32>,
    epoch: u32,
    runs: Vec<KeyRun>,
    narrow: SegmentPlan<u64>,
    wide: SegmentPlan<u128>,
}

/// Selects the plan for points of this width.
trait PlanWidth: Offset {
    fn plan(scratch: &mut Scratch) -> &mut SegmentPlan<Self>;
}

impl PlanWidth for u64 {
    fn plan(scratch: &mut Scratch) -> &mut SegmentPlan<Self> {
        &mut scratch.narrow
    }
}

impl PlanWidth for u128 {
    fn plan(scratch: &mut Scratch) -> &mut SegmentPlan<Self> {
        &mut scratch.wide
    }
}

impl Scratch {
    /// Returns the distinct locations of some pairs in ascending order, and assigns their local numbers.
    fn number(&mut self, locations: &[u32], num_locations: u32) -> Vec<u32> {
        self.locals.resize(index(num_locations), 0);
        self.epochs.resize(index(num_locations), 0);
        self.epoch += 1;
        let mut distinct = Vec::new();
        for &location in locations {
            if self.epochs[index(location)] != self.epoch {
                self.epochs[index(location)] = self.epoch;
                distinct.push(location);
            }
        }
        distinct.sort_unstable();
        for (local, &location) in (0..).zip(&distinct) {
            self.locals[index(location)] = local;
        }
        distinct
    }

    fn local(&self, location: u32) -> u32 {
        self.locals[index(location)]
    }
}

/// Encodes a range of neighboring keys as one segment, or as several if one block width does not suit all of them.
pub(in crate::sieve) fn encode_segment<K: Key>(
    records: &Records<K>,
    range: Range<usize>,
    limits: (&Options, u32),
    scratch: &mut Scratch,
    out: &mut impl FnMut(EncodedSegment<K>),
) {
    if K::POINT_BYTES == 8 {
        encode_points::<K, u64>(records, range, limits, scratch, out);
    } else {
        encode_points::<K, u128>(records, range, limits, scratch, out);
    }
}

fn encode_points<K: Key, P: PlanWidth>(
    records: &Records<K>,
    range: Range<usize>,
    (options, num_locations): (&Options, u32),
    scratch: &mut Scratch,
    out: &mut impl FnMut(EncodedSegment<K>),
) {
    let (least, most) = (&records.keys[range.start], &records.keys[range.end - 1]);
    let mapping = &K::point_mapping(&records.keys[range.clone()]);
    // Points of byte strings take long to compute.
    let points: Vec<P> = match K::POINTS_DIFFER {
        true => Vec::new(),
        false => records.keys[range.clone()].iter().map(|key| P::of(key.point(mapping))).collect(),
    };
    let point = |key: usize| match K::POINTS_DIFFER {
        true => P::of(records.keys[key].point(mapping)),
        false => points[key - range.start],
    };
    let (low, high) = (point(range.start), point(range.end - 1));
    let pairs = records.pairs(range.clone());
    let locations = scratch.number(&records.locations[pairs.clone()], num_locations);
    let mut sets = Sets::new(saturating_u32(locations.len()));

    let exact = runs(records, range.clone(), point, scratch, &mut sets);
    let runs = coarsen(exact, &mut sets, options.coarsen, num_locations);
    let rows = records.rows[pairs.clone()].iter().fold(0, |sum: u64, &rows| sum.saturating_add(rows));
    let Choice { absent, bits } = choose(options, (&runs, rows), &sets, K::POINTS_DIFFER, point);
    let most_bytes = if absent == AbsentKeys::ReadRuns { usize::MAX } else { MAX_SECTION_BYTES };
    if low < high && bits / 8 > to_u64(most_bytes) {
        scratch.runs = runs;
        return encode_halves::<K, P>(records, range, (low, high), mapping, (options, num_locations), scratch, out);
    }
    let most_blocks = match options.coarsen {
        Coarsen::Plain { keys } => to_u64(range.len()) / u64::from(keys),
        _ => {
            // A gap and the rest of the run after it are decoded quickly, so both together count as one run.
            let gaps = if let AbsentKeys::Gaps { count } = absent { count } else { 0 };
            let blocks = (to_u64(runs.len()) + gaps) * 2 / runs_per_block(&runs, &sets);
            let fingerprints = matches!(absent, AbsentKeys::Fingerprints { .. });
            if fingerprints { blocks.max(to_u64(range.len()) / KEYS_PER_BLOCK) } else { blocks }
        }
    };
    let shift = choose_shift(low, high, most_blocks);
    let num_blocks = to_usize((shifted(high, shift) - shifted(low, shift)).low()).unwrap_or(usize::MAX) + 1;
    let plain = matches!(options.coarsen, Coarsen::Plain { .. });
    let mut planned = std::mem::take(P::plan(scratch));
    let fits = plan(&mut planned, &runs, BlockRules { shift, plain, absent }, point, &mut sets);
    scratch.runs = runs;
    if fits.is_none() {
        *P::plan(scratch) = planned;
        // Some block has too many separators, so there are keys on both sides of the middle of their common cell.
        return encode_halves::<K, P>(records, range, (low, high), mapping, (options, num_locations), scratch, out);
    }
    if matches!(absent, AbsentKeys::Fingerprints { .. }) {
        planned.hashes.extend(records.keys[range.clone()].iter().map(HashedKey::key_hash));
    }
    let counts = Counts {
        keys: to_u64(range.len()),
        rows,
        pairs: to_u64(pairs.len()),
        reads: planned.reads,
        runs: to_u64(planned.sets.len()),
        blocks: to_u64(num_blocks),
    };
    let ends = (least.point(mapping), most.point(mapping));
    let format = options.format;
    let header = SegmentHeader { mapping, low: ends.0, high: ends.1, shift, num_blocks, num_locations, format, absent };
    let lookup = write::<K, P>(&header, &locations, &planned, &sets);
    *P::plan(scratch) = planned;
    if low < high && lookup.len() > most_bytes {
        return encode_halves::<K, P>(records, range, (low, high), mapping, (options, num_locations), scratch, out);
    }
    let keys = if options.stores_keys() { put_keys(records, range.clone()) } else { Vec::new() };
    out(EncodedSegment { least: least.clone(), most: most.clone(), lookup, keys, counts });
}

/// Encodes the keys on both sides of the middle of their common cell, which depends only on the least and the greatest
/// point.
fn encode_halves<K: Key, P: PlanWidth>(
    records: &Records<K>,
    range: Range<usize>,
    (low, high): (P, P),
    mapping: &StringPoints,
    limits: (&Options, u32),
    scratch: &mut Scratch,
    out: &mut impl FnMut(EncodedSegment<K>),
) {
    let middle = shortest_separator(low, high);
    let cut = range.start + records.keys[range.clone()].partition_point(|key| P::of(key.point(mapping)) < middle);
    encode_points::<K, P>(records, range.start..cut, limits, scratch, out);
    encode_points::<K, P>(records, cut..range.end, limits, scratch, out);
}

/// Returns the maximal runs of keys with equal sets. Keys that share a point get the union of their sets.
fn runs<K: Key, P: Offset>(
    records: &Records<K>,
    range: Range<usize>,
    point_of: impl Fn(usize) -> P,
    scratch: &mut Scratch,
    sets: &mut Sets,
) -> Vec<KeyRun> {
    let mut runs: Vec<KeyRun> = std::mem::take(&mut scratch.runs);
    runs.clear();
    let pairs = records.pairs(range.clone());
    if K::POINTS_DIFFER && pairs.len() == range.len() {
        // The most frequent case: every key has one location.
        let mut locals = records.locations[pairs].iter().map(|&location| scratch.local(location));
        let mut run = KeyRun { start: range.start, end: range.end, set: locals.next().unwrap_or(0) };
        for (key, set) in (range.start + 1..).zip(locals) {
            if set != run.set {
                runs.push(KeyRun { end: key, ..run });
                run = KeyRun { start: key, set, ..run };
            }
        }
        runs.push(run);
        return runs;
    }
    let mut members = Vec::new();
    let mut start = range.start;
    let mut after_single = false;
    let mut next_point = point_of(start);
    while start < range.end {
        let point = next_point;
        let mut end = start + 1;
        while end < range.end {
            next_point = point_of(end);
            if next_point != point {
                break;
            }
            end += 1;
        }
        // Neighbors in long runs mostly have equal sets, which saves the hash lookup.
        let single = end == start + 1;
        let repeats = single && after_single && records.repeats(start);
        let set = match runs.last() {
            Some(run) if repeats => run.set,
            _ if single && records.set(start).len() == 1 => scratch.local(records.set(start)[0]),
            _ => {
                members.clear();
                members.extend(
                    records.locations[records.pairs(start..end)].iter().map(|&location| scratch.local(location)),
                );
                if !single {
                    members.sort_unstable();
                    members.dedup();
                }
                sets.handle(&members)
            }
        };
        match runs.last_mut() {
            Some(run) if run.set == set => run.end = end,
            _ => runs.push(KeyRun { start, end, set }),
        }
        after_single = single;
        start = end;
    }
    runs
}

fn runs_per_block(runs: &[KeyRun], sets: &Sets) -> u64 {
    let single_bits = sets.bits(0);
    let bits_of = |run: &KeyRun| if run.set < sets.num_locals() { single_bits } else { sets.bits(run.set) };
    let bits: u64 = runs.iter().map(bits_of).sum();
    (BITS_PER_BLOCK * to_u64(runs.len()) / bits.max(1)).clamp(1, RUNS_PER_BLOCK)
}

/// Chooses the smallest shift that gives at most `most_blocks` blocks. The largest shift is never needed: two blocks of
/// half the axis are as good as one block for all of it.
fn choose_shift<P: Offset>(low: P, high: P, most_blocks: u64) -> u32 {
    let most_blocks = P::of(u128::from(most_blocks.max(1)));
    (0..P::BITS - 1).find(|&shift| shifted(high, shift) - shifted(low, shift) < most_blocks).unwrap_or(P::BITS - 1)
}
