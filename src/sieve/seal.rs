//! Records -> stored segments: runs, coarsening, the width of blocks, and the bytes of both sections.

use std::ops::Range;

use super::axis::{Bytes, Key, parting, put_point, put_varint, shifted};
use super::bits::{BackWriter, BitWriter, Sink, width_of};
use super::block::{BLOCKS_PER_UNION, KINDS, Kind, Layout, Told, put_block, put_set, put_union};
use super::chart::Chart;
use super::coarsen::{Run, Sets, coarsen};
use super::format::{SEGMENT, frame};
use super::keys::put_keys;
use super::options::{Coarsen, Options};
use super::record::Records;
use super::run::{Habit, put_separators, separate};
use super::segment::{CLUMPED, UNIONS, on_line};
use super::set::put_members;
use crate::int::{index, low_u8, low_u64, saturating_u32, to_u64, to_usize};

/// Runs per block are between this and its half, on average: short enough to decode, long enough to share a bound.
const RUNS_PER_BLOCK: u64 = 8;

/// Where sets are large, blocks of fewer runs have about so many bits: passing a set costs time in its bits.
const BITS_PER_BLOCK: u64 = 96;

/// A block with more separators makes its segment be cut in two: its keys mix trends, and one width does not suit them.
const EVEN_SEPARATORS: usize = 192;

/// Unions of blocks may take this part of the blocks' own bits.
const UNION_SHARE: u64 = 8;

/// Blocks that are tried to choose between the two habits of separators.
const SAMPLED_BLOCKS: usize = 64;

/// One finished segment: its two stored sections and what the root says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed<K> {
    /// Least key.
    pub least: K,
    /// Greatest key.
    pub most: K,
    /// What lookups read.
    pub lookup: Vec<u8>,
    /// What compaction reads.
    pub keys: Vec<u8>,
    /// Counts for `stats()`.
    pub counts: Counts,
}

/// Sums over the keys of a segment or of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Distinct keys.
    pub keys: u64,
    /// Rows.
    pub rows: u64,
    /// `(key, location)` pairs: the reads of an exact answer, summed over the keys.
    pub pairs: u64,
    /// Reads of the stored answer, summed over the keys.
    pub reads: u64,
    /// Runs as stored.
    pub runs: u64,
    /// Blocks.
    pub blocks: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: &Self) {
        self.keys += other.keys;
        self.rows = self.rows.saturating_add(other.rows);
        self.pairs += other.pairs;
        self.reads += other.reads;
        self.runs += other.runs;
        self.blocks += other.blocks;
    }
}

/// Memory that is used again from segment to segment.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Local number of each location, valid where `epochs` says so.
    locals: Vec<u32>,
    epochs: Vec<u32>,
    epoch: u32,
}

impl Scratch {
    /// The distinct locations of some pairs, ascending, each with its place as local number.
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

/// The keys of one run in one block.
#[derive(Debug, Clone, Copy)]
struct Piece {
    block: usize,
    first: u128,
    last: u128,
    set: u32,
    keys: u64,
}

/// The runs of one block, by range into the plan's separators and sets.
struct Planned {
    block: usize,
    separators: Range<usize>,
    sets: Range<usize>,
}

#[derive(Default)]
struct Plan {
    blocks: Vec<Planned>,
    separators: Vec<u128>,
    sets: Vec<u32>,
    reads: u64,
}

/// Seals some neighbouring keys as one segment, or as several where their trends differ.
pub(super) fn seal<K: Key>(
    records: &Records<K>,
    range: Range<usize>,
    (options, num_locations): (&Options, u32),
    scratch: &mut Scratch,
    out: &mut impl FnMut(Sealed<K>),
) {
    let (least, most) = (&records.keys[range.start], &records.keys[range.end - 1]);
    let chart = &K::chart(&records.keys[range.clone()]);
    let point = |key: usize| records.keys[key].point(chart);
    let (low, high) = (point(range.start), point(range.end - 1));
    let pairs = records.pairs(range.clone());
    let locations = scratch.number(&records.locations[pairs.clone()], num_locations);
    let mut sets = Sets::new(saturating_u32(locations.len()));

    let exact = runs(records, range.clone(), chart, scratch, &mut sets);
    let runs = coarsen(exact, &mut sets, options.coarsen, num_locations);
    let most_blocks = match options.coarsen {
        Coarsen::Plain { keys } => to_u64(range.len()) / u64::from(keys),
        _ => to_u64(runs.len()) * 2 / runs_per_block(&runs, &sets),
    };
    let shift = choose_shift(low, high, most_blocks, saturating_u32(K::POINT_BYTES) * 8);
    let num_blocks = to_usize(low_u64(shifted(high, shift) - shifted(low, shift))).unwrap_or(usize::MAX) + 1;
    let mut pieces = pieces(&runs, shift, point);
    if matches!(options.coarsen, Coarsen::Plain { .. }) {
        unite_blocks(&mut pieces, &mut sets);
    }
    let Some(plan) = plan(&pieces, &sets) else {
        // Some block is overfull, so there are keys on both sides of the middle of their common cell.
        let middle = parting(low, high);
        let cut = range.start + records.keys[range.clone()].partition_point(|key| key.point(chart) < middle);
        seal(records, range.start..cut, (options, num_locations), scratch, out);
        return seal(records, cut..range.end, (options, num_locations), scratch, out);
    };
    let counts = Counts {
        keys: to_u64(range.len()),
        rows: records.rows[pairs.clone()].iter().fold(0, |sum, &rows| sum.saturating_add(rows)),
        pairs: to_u64(pairs.len()),
        reads: plan.reads,
        runs: to_u64(plan.sets.len()),
        blocks: to_u64(num_blocks),
    };
    let header = Header { chart, low, high, shift, num_blocks, num_locations };
    let lookup = write::<K>(&header, &locations, &plan, &sets);
    let keys = put_keys(records, range.clone());
    out(Sealed { least: least.clone(), most: most.clone(), lookup, keys, counts });
}

/// The maximal runs of equal sets; keys that share a point share the union of their sets.
fn runs<K: Key>(
    records: &Records<K>,
    range: Range<usize>,
    chart: &Chart,
    scratch: &Scratch,
    sets: &mut Sets,
) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut members = Vec::new();
    let mut start = range.start;
    let mut after_single = false;
    let mut next_point = records.keys[start].point(chart);
    while start < range.end {
        let point = next_point;
        let mut end = start + 1;
        while end < range.end {
            next_point = records.keys[end].point(chart);
            if next_point != point {
                break;
            }
            end += 1;
        }
        // Most neighbours of long runs are equal, and then need no lookup by hash.
        let single = end == start + 1;
        let repeats = single && after_single && records.repeats(start);
        let set = match runs.last() {
            Some(run) if repeats => run.set,
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
            _ => runs.push(Run { start, end, set }),
        }
        after_single = single;
        start = end;
    }
    runs
}

fn runs_per_block(runs: &[Run], sets: &Sets) -> u64 {
    let bits: u64 = runs.iter().map(|run| sets.bits(run.set)).sum();
    (BITS_PER_BLOCK * to_u64(runs.len()) / bits.max(1)).clamp(1, RUNS_PER_BLOCK)
}

/// The largest width exponent is never needed: two blocks of half the axis are as good as one of all.
fn choose_shift(low: u128, high: u128, most_blocks: u64, point_bits: u32) -> u32 {
    let most_blocks = u128::from(most_blocks.max(1));
    (0..point_bits - 1)
        .find(|&shift| shifted(high, shift) - shifted(low, shift) < most_blocks)
        .unwrap_or(point_bits - 1)
}

/// Cuts the runs at the borders of blocks that hold keys of theirs.
fn pieces(runs: &[Run], shift: u32, point: impl Fn(usize) -> u128) -> Vec<Piece> {
    let Some(first_run) = runs.first() else { return Vec::new() };
    let base = shifted(point(first_run.start), shift);
    let inside = (1u128 << shift) - 1;
    let mut pieces = Vec::with_capacity(runs.len() + runs.len() / 8);
    for run in runs {
        let last_point = point(run.end - 1);
        let mut start = run.start;
        while start < run.end {
            let first = point(start);
            let block = shifted(first, shift);
            let (end, last) = if shifted(last_point, shift) == block {
                (run.end, last_point)
            } else {
                let end = first_beyond(start, run.end, |key| shifted(point(key), shift) > block);
                (end, point(end - 1))
            };
            pieces.push(Piece {
                block: to_usize(low_u64(block - base)).unwrap_or(usize::MAX),
                first: first & inside,
                last: last & inside,
                set: run.set,
                keys: to_u64(end - start),
            });
            start = end;
        }
    }
    pieces
}

/// The first of `start..end` that is beyond, in a range that is sorted by it.
fn first_beyond(mut start: usize, mut end: usize, beyond: impl Fn(usize) -> bool) -> usize {
    while start < end {
        let middle = start + (end - start) / 2;
        if beyond(middle) { end = middle } else { start = middle + 1 }
    }
    start
}

/// The thesis's blocks: one set for all keys of a block.
fn unite_blocks(pieces: &mut Vec<Piece>, sets: &mut Sets) {
    let mut united: Vec<Piece> = Vec::new();
    for piece in pieces.drain(..) {
        match united.last_mut() {
            Some(last) if last.block == piece.block => {
                last.set = sets.union(last.set, piece.set);
                last.last = piece.last;
                last.keys += piece.keys;
            }
            _ => united.push(piece),
        }
    }
    *pieces = united;
}

/// Separators and sets of every block with keys; `None` if a block has too many.
fn plan(pieces: &[Piece], sets: &Sets) -> Option<Plan> {
    let mut plan = Plan::default();
    plan.separators.reserve(pieces.len());
    plan.sets.reserve(pieces.len() + pieces.len() / 8);
    let mut separators = Vec::new();
    for block in pieces.chunk_by(|a, b| a.block == b.block) {
        separators.clear();
        let before = (plan.separators.len(), plan.sets.len());
        separate(block.iter().map(|piece| (piece.first, piece.last, piece.set)), &mut separators, &mut plan.sets);
        if separators.len() > EVEN_SEPARATORS {
            return None;
        }
        plan.separators.extend_from_slice(&separators);
        plan.blocks.push(Planned {
            block: block[0].block,
            separators: before.0..plan.separators.len(),
            sets: before.1..plan.sets.len(),
        });
        plan.reads += block.iter().map(|piece| piece.keys * sets.len_of(piece.set)).sum::<u64>();
    }
    Some(plan)
}

struct Header<'a> {
    chart: &'a Chart,
    low: u128,
    high: u128,
    shift: u32,
    num_blocks: usize,
    num_locations: u32,
}

/// How each set of a block is told; `shared` maps the handle of a set of several to its number in the dictionary.
fn tell<'a>(handles: &'a [u32], sets: &'a Sets, shared: &'a [u32]) -> impl Iterator<Item = Told<'a>> {
    (0..handles.len()).map(move |run| {
        let handle = handles[run];
        if run >= 1 && handles[run - 1] == handle {
            Told::Previous
        } else if run >= 2 && handles[run - 2] == handle {
            Told::BeforePrevious
        } else {
            match handle.checked_sub(sets.num_locals()).map(|several| shared.get(index(several))) {
                None => Told::One(handle),
                Some(Some(&number)) if number != u32::MAX => Told::Shared(number),
                Some(_) => Told::Inline(sets.members(handle)),
            }
        }
    })
}

/// The sets worth a place in the dictionary: those told twice; the most frequent first, ties in the order of their members.
fn dictionary(plan: &Plan, sets: &Sets) -> Vec<u32> {
    if sets.num_several() == 0 {
        return Vec::new();
    }
    let mut times = std::collections::HashMap::new();
    for block in &plan.blocks {
        let handles = &plan.sets[block.sets.clone()];
        for (told, &handle) in tell(handles, sets, &[]).zip(handles) {
            if told.kind() == Kind::Inline {
                *times.entry(handle).or_insert(0u32) += 1;
            }
        }
    }
    let mut frequent: Vec<(u32, u32)> = times.into_iter().filter(|&(_, times)| times > 1).collect();
    frequent.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| sets.members(a.0).cmp(sets.members(b.0))));
    frequent.into_iter().map(|(handle, _)| handle).collect()
}

/// Counts bits without writing them.
#[derive(Default)]
struct BitCount(u64);

impl Sink for BitCount {
    fn put(&mut self, _: u64, bits: u32) {
        self.0 += u64::from(bits);
    }
}

/// The habit that costs fewer bits over blocks spread evenly over the segment.
fn choose_habit(plan: &Plan, shift: u32) -> Habit {
    let step = plan.blocks.len().div_ceil(SAMPLED_BLOCKS).max(1);
    let bits = |habit| {
        let mut count = BitCount::default();
        for block in plan.blocks.iter().step_by(step) {
            put_separators(&mut count, &plan.separators[block.separators.clone()], 0, shift, habit);
        }
        count.0
    };
    if bits(Habit::Clumped) < bits(Habit::Scattered) { Habit::Clumped } else { Habit::Scattered }
}

fn write<K: Key>(header: &Header<'_>, locations: &[u32], plan: &Plan, sets: &Sets) -> Vec<u8> {
    let dictionary = dictionary(plan, sets);
    let mut shared = vec![u32::MAX; sets.num_several()];
    for (number, &handle) in (0..).zip(&dictionary) {
        shared[index(handle - sets.num_locals())] = number;
    }
    let mut times = [0u64; KINDS.len()];
    let mut max_members = 1;
    for block in &plan.blocks {
        for told in tell(&plan.sets[block.sets.clone()], sets, &shared) {
            times[usize::from(told.kind() as u8)] += 1;
        }
    }
    for &handle in plan.sets.iter().filter(|&&handle| handle >= sets.num_locals()) {
        max_members = max_members.max(saturating_u32(sets.members(handle).len()));
    }
    let mut kinds: Vec<Kind> = KINDS.into_iter().filter(|&kind| times[usize::from(kind as u8)] > 0).collect();
    kinds.sort_by_key(|&kind| std::cmp::Reverse(times[usize::from(kind as u8)]));
    let most_separators = plan.blocks.iter().map(|block| block.separators.len()).max().unwrap_or(0);
    let layout = Layout {
        shift: header.shift,
        habit: choose_habit(plan, header.shift),
        count_bits: width_of(to_u64(most_separators)),
        kinds,
        num_locals: saturating_u32(locations.len()),
        num_shared: saturating_u32(dictionary.len()),
        max_members,
    };

    let mut locals = BitWriter::default();
    put_members(&mut locals, locations, 0, header.num_locations);
    let mut shared_bounds = vec![0];
    let mut shared_sets = BitWriter::default();
    for &handle in &dictionary {
        put_set(&mut shared_sets, sets.members(handle), &layout);
        shared_bounds.push(shared_sets.len());
    }
    let (mut payload, mut back) = (BitWriter::default(), BackWriter::default());
    let mut bounds = Vec::with_capacity(header.num_blocks + 1);
    for block in &plan.blocks {
        // Blocks without keys end where they begin.
        bounds.resize(block.block + 1, payload.len());
        let handles = &plan.sets[block.sets.clone()];
        let separators = &plan.separators[block.separators.clone()];
        put_block(&mut payload, &mut back, &layout, separators, tell(handles, sets, &shared));
        // A block with keys has at least one bit, even where one would know its only set without.
        if payload.len() == *bounds.last().unwrap_or(&0) {
            payload.put(0, 1);
        }
    }
    bounds.resize(header.num_blocks + 1, payload.len());

    let unions = unions(plan, sets, header.num_blocks);
    // Unions that cost too much save nothing either: where locations are many, long intervals have long answers.
    let unions = unions.filter(|(_, unions)| unions.len() * UNION_SHARE <= payload.len());
    let clumped = if layout.habit == Habit::Clumped { CLUMPED } else { 0 };
    let mut body = vec![K::CODE, clumped | if unions.is_some() { UNIONS } else { 0 }];
    body.extend([low_u8(u64::from(layout.shift)), low_u8(u64::from(layout.count_bits))]);
    body.push(low_u8(to_u64(layout.kinds.len())));
    body.extend(layout.kinds.iter().map(|&kind| kind as u8));
    if K::CODE == Bytes::CODE {
        header.chart.write(&mut body);
    }
    put_point::<K>(&mut body, header.low);
    put_point::<K>(&mut body, header.high);
    let locals = locals.finish();
    for number in [layout.num_locals, layout.num_shared, layout.max_members] {
        put_varint(&mut body, u64::from(number));
    }
    put_varint(&mut body, to_u64(locals.len()));
    put_varint(&mut body, shared_sets.len());
    put_varint(&mut body, payload.len());
    body.extend_from_slice(&locals);
    if layout.num_shared > 0 {
        put_bounds(&mut body, &shared_bounds);
    }
    body.extend(shared_sets.finish());
    if let Some((bounds, unions)) = unions {
        put_varint(&mut body, unions.len());
        put_bounds(&mut body, &bounds);
        body.extend(unions.finish());
    }
    put_bounds(&mut body, &bounds);
    body.extend(payload.finish());
    frame(SEGMENT, &body)
}

/// The union of each stretch of neighbouring blocks, if the segment has more than one.
fn unions(plan: &Plan, sets: &Sets, num_blocks: usize) -> Option<(Vec<u64>, BitWriter)> {
    let num_unions = num_blocks.div_ceil(BLOCKS_PER_UNION);
    if num_unions < 3 {
        return None;
    }
    let mut out = BitWriter::default();
    let mut bounds = vec![0];
    // The last union that each local number was put into.
    let mut last = vec![usize::MAX; index(sets.num_locals())];
    let mut blocks = plan.blocks.iter().peekable();
    for union in 0..num_unions {
        let mut members = Vec::new();
        while let Some(block) = blocks.next_if(|block| block.block / BLOCKS_PER_UNION == union) {
            for &handle in &plan.sets[block.sets.clone()] {
                for &member in sets.members(handle) {
                    if last[index(member)] != union {
                        last[index(member)] = union;
                        members.push(member);
                    }
                }
            }
        }
        members.sort_unstable();
        put_union(&mut out, &members, sets.num_locals());
        bounds.push(out.len());
    }
    Some((bounds, out))
}

/// Bounds lie near a straight line, so their distances from it are written, in equal widths.
fn put_bounds(body: &mut Vec<u8>, bounds: &[u64]) {
    let total = bounds.last().copied().unwrap_or(0);
    let last = to_u64(bounds.len() - 1);
    let off = |(at, &bound): (u64, &u64)| bound.cast_signed() - on_line(at, last, total).cast_signed();
    let least = (0..).zip(bounds).map(off).min().unwrap_or(0);
    let most = (0..).zip(bounds).map(off).max().unwrap_or(0);
    // Never zero, so that a count without bytes is refused.
    let width = width_of((most - least).unsigned_abs()).max(1);
    put_varint(body, least.unsigned_abs());
    body.push(low_u8(u64::from(width)));
    let mut packed = BitWriter::default();
    (0..).zip(bounds).for_each(|pair| packed.put((off(pair) - least).unsigned_abs(), width));
    body.extend(packed.finish());
}
