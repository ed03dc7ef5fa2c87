//! Encodes planned blocks as the bytes of a lookup section.

use std::ops::Range;

use crate::int::{index, low_u8, saturating_u32, to_u64};
use crate::sieve::code::bits::{BackWriter, BitWriter, Sink, width_of};
use crate::sieve::code::format::{SEGMENT, SEGMENT_2, frame};
use crate::sieve::code::offset::Offset;
use crate::sieve::code::separators::{Distribution, put_separators};
use crate::sieve::code::set::put_members;
use crate::sieve::key::axis::{Bytes, Key, put_point};
use crate::sieve::key::string_points::StringPoints;
use crate::sieve::record::options::Format;
use crate::sieve::segment::absent::AbsentKeys;
use crate::sieve::segment::block::{
    BLOCKS_PER_UNION, CLUMPED, FINGERPRINTS, GAPS, KINDS, Layout, SetForm, SetKind, StoredRun, UNIONS, on_line,
    put_block, put_set, put_union,
};
use crate::sieve::segment::coarsen::{NO_LOCATIONS, Sets};
use crate::varint::put_varint;

/// Unions may take at most one part in this many of the bits of the blocks.
const UNION_SHARE: u64 = 8;

/// The number of blocks sampled to choose the distribution of separators.
const SAMPLED_BLOCKS: usize = 64;

/// The runs of one block, as ranges into the plan's separators and sets.
#[derive(Debug)]
pub(in crate::sieve) struct PlannedBlock {
    pub(in crate::sieve) block: usize,
    pub(in crate::sieve) separators: Range<usize>,
    pub(in crate::sieve) sets: Range<usize>,
}

/// The blocks of a segment, ready to be written.
#[derive(Debug, Default)]
pub(in crate::sieve) struct SegmentPlan<P> {
    pub(in crate::sieve) blocks: Vec<PlannedBlock>,
    pub(in crate::sieve) separators: Vec<P>,
    pub(in crate::sieve) sets: Vec<u32>,
    /// With fingerprints: the end of each run's keys in `hashes`, and the hash of each key.
    pub(in crate::sieve) ends: Vec<usize>,
    pub(in crate::sieve) hashes: Vec<u64>,
    /// Reads of the answers, summed over the keys.
    pub(in crate::sieve) reads: u64,
}

impl<P> SegmentPlan<P> {
    /// Clears the plan and keeps its memory.
    pub(in crate::sieve) fn clear(&mut self) {
        self.blocks.clear();
        self.separators.clear();
        self.sets.clear();
        self.ends.clear();
        self.hashes.clear();
        self.reads = 0;
    }

    /// Returns the first key of a run, relative to the segment.
    pub(in crate::sieve) fn start_of(&self, run: usize) -> usize {
        run.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    /// Returns the hashes of the keys of a run, or none if the segment has no fingerprints.
    fn hashes_of(&self, run: usize) -> &[u64] {
        if self.hashes.is_empty() { &[] } else { &self.hashes[self.start_of(run)..self.ends[run]] }
    }
}

/// The inputs of [`write()`] that are not part of the plan.
pub(in crate::sieve) struct SegmentHeader<'a> {
    pub(in crate::sieve) mapping: &'a StringPoints,
    pub(in crate::sieve) low: u128,
    pub(in crate::sieve) high: u128,
    pub(in crate::sieve) shift: u32,
    pub(in crate::sieve) num_blocks: usize,
    pub(in crate::sieve) num_locations: u32,
    pub(in crate::sieve) format: Format,
    pub(in crate::sieve) absent: AbsentKeys,
}

/// Chooses the form of each set of a block. `shared` maps the handle of a set of several locations to its number in the
/// dictionary.
fn choose_forms<'a>(handles: &'a [u32], sets: &'a Sets, shared: &'a [u32]) -> impl Iterator<Item = SetForm<'a>> {
    let num_locals = sets.num_locals();
    let (mut previous, mut before) = (None, None);
    handles.iter().map(move |&handle| {
        let form = if previous == Some(handle) {
            SetForm::Previous
        } else if before == Some(handle) {
            SetForm::BeforePrevious
        } else if handle == NO_LOCATIONS {
            SetForm::Empty
        } else if handle < num_locals {
            SetForm::One(handle)
        } else {
            match shared.get(index(handle - num_locals)) {
                Some(&number) if number != u32::MAX => SetForm::Shared(number),
                _ => SetForm::Inline(sets.members(handle)),
            }
        };
        (before, previous) = (previous, Some(handle));
        form
    })
}

/// Returns the sets for the dictionary: those stored more than once, most frequent first, ties in the order of members.
fn dictionary<P>(plan: &SegmentPlan<P>, sets: &Sets) -> Vec<u32> {
    if sets.num_several() == 0 {
        return Vec::new();
    }
    let mut times = std::collections::HashMap::new();
    for block in &plan.blocks {
        let handles = &plan.sets[block.sets.clone()];
        for (form, &handle) in choose_forms(handles, sets, &[]).zip(handles) {
            if form.kind() == SetKind::Inline {
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

/// Returns the distribution that takes fewer bits in blocks sampled evenly from the segment.
fn choose_distribution<P: Offset>(plan: &SegmentPlan<P>, shift: u32) -> Distribution {
    let step = plan.blocks.len().div_ceil(SAMPLED_BLOCKS).max(1);
    let bits = |distribution| {
        let mut count = BitCount::default();
        for block in plan.blocks.iter().step_by(step) {
            put_separators(&mut count, &plan.separators[block.separators.clone()], P::ZERO, shift, distribution);
        }
        count.0
    };
    if bits(Distribution::Clumped) < bits(Distribution::Scattered) {
        Distribution::Clumped
    } else {
        Distribution::Scattered
    }
}

/// Writes the lookup section of a plan.
pub(in crate::sieve) fn write<K: Key, P: Offset>(
    header: &SegmentHeader<'_>,
    locations: &[u32],
    plan: &SegmentPlan<P>,
    sets: &Sets,
) -> Vec<u8> {
    let dictionary = dictionary(plan, sets);
    let mut shared = vec![u32::MAX; sets.num_several()];
    for (number, &handle) in (0..).zip(&dictionary) {
        shared[index(handle - sets.num_locals())] = number;
    }
    let mut times = [0u64; KINDS.len()];
    let mut max_members = 1;
    for block in &plan.blocks {
        for form in choose_forms(&plan.sets[block.sets.clone()], sets, &shared) {
            times[usize::from(form.kind() as u8)] += 1;
        }
    }
    let several = if sets.num_several() == 0 { &[][..] } else { &plan.sets };
    for &handle in several.iter().filter(|&&handle| handle >= sets.num_locals()) {
        max_members = max_members.max(saturating_u32(sets.members(handle).len()));
    }
    let mut kinds: Vec<SetKind> = KINDS.into_iter().filter(|&kind| times[usize::from(kind as u8)] > 0).collect();
    kinds.sort_by_key(|&kind| std::cmp::Reverse(times[usize::from(kind as u8)]));
    let most_separators = plan.blocks.iter().map(|block| block.separators.len()).max().unwrap_or(0);
    let layout = Layout {
        shift: header.shift,
        distribution: choose_distribution(plan, header.shift),
        count_bits: width_of(to_u64(most_separators)),
        kinds,
        num_locals: saturating_u32(locations.len()),
        num_shared: saturating_u32(dictionary.len()),
        max_members,
        slots: if let AbsentKeys::Fingerprints { slots } = header.absent { slots } else { 0 },
    };

    let mut locals = BitWriter::default();
    put_members(&mut locals, locations, 0, header.num_locations);
    let mut shared_bounds = vec![0];
    let mut shared_sets = BitWriter::default();
    for &handle in &dictionary {
        put_set(&mut shared_sets, sets.members(handle), &layout);
        shared_bounds.push(shared_sets.len());
    }
    let (mut payload, mut back) = (BitWriter::with_room(plan.sets.len() * 2), BackWriter::default());
    let mut bounds = Vec::with_capacity(header.num_blocks + 1);
    for block in &plan.blocks {
        // A block without keys ends where it begins.
        bounds.resize(block.block + 1, payload.len());
        let handles = &plan.sets[block.sets.clone()];
        let separators = &plan.separators[block.separators.clone()];
        let forms = choose_forms(handles, sets, &shared);
        let runs = forms.zip(handles).zip(block.sets.clone()).map(|((form, &handle), run)| StoredRun {
            form,
            num_locations: u32::try_from(sets.len_of(handle)).unwrap_or(u32::MAX),
            hashes: plan.hashes_of(run),
        });
        put_block(&mut payload, &mut back, &layout, separators, runs);
        // A block with keys has at least one bit, to distinguish it from an empty block, even if its only set needs
        // none.
        if payload.len() == *bounds.last().unwrap_or(&0) {
            payload.put(0, 1);
        }
    }
    bounds.resize(header.num_blocks + 1, payload.len());

    let unions = unions(plan, sets, header.num_blocks);
    // Unions that are too large are not worthwhile: with many locations, long intervals have long answers anyway.
    let unions = unions.filter(|(_, unions)| unions.len() * UNION_SHARE <= payload.len());
    let clumped = if layout.distribution == Distribution::Clumped { CLUMPED } else { 0 };
    let absent = match header.absent {
        AbsentKeys::ReadRuns => 0,
        AbsentKeys::Fingerprints { .. } => FINGERPRINTS,
        AbsentKeys::Gaps { .. } => GAPS,
    };
    let mut body = vec![K::CODE, clumped | absent | if unions.is_some() { UNIONS } else { 0 }];
    body.extend([low_u8(u64::from(layout.shift)), low_u8(u64::from(layout.count_bits))]);
    body.push(low_u8(to_u64(layout.kinds.len())));
    body.extend(layout.kinds.iter().map(|&kind| kind as u8));
    if K::CODE == Bytes::CODE {
        header.mapping.write(&mut body);
    }
    put_point::<K>(&mut body, header.low);
    put_point::<K>(&mut body, header.high);
    let locals = locals.finish();
    if header.format == Format::V2 {
        put_varint(&mut body, u64::from(header.num_locations));
        if layout.slots > 0 {
            put_varint(&mut body, u64::from(layout.slots));
        }
    }
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
    frame(if header.format == Format::V1 { SEGMENT } else { SEGMENT_2 }, &body)
}

/// Builds the union of each group of neighboring blocks, if the segment has enough groups.
fn unions<P>(plan: &SegmentPlan<P>, sets: &Sets, num_blocks: usize) -> Option<(Vec<u64>, BitWriter)> {
    let num_unions = num_blocks.div_ceil(BLOCKS_PER_UNION);
    // With more locations than runs per union, the union would hardly be smaller than the blocks.
    if num_unions < 3 || index(sets.num_locals()) > 2 * plan.sets.len() / num_unions {
        return None;
    }
    let mut out = BitWriter::default();
    let mut bounds = vec![0];
    // For each local number, the last union that contains it.
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

/// Writes the bounds as distances from a straight line, all in the same width.
fn put_bounds(body: &mut Vec<u8>, bounds: &[u64]) {
    let total = bounds.last().copied().unwrap_or(0);
    let last = to_u64(bounds.len() - 1);
    let off = |(at, &bound): (u64, &u64)| bound.cast_signed() - on_line(at, last, total).cast_signed();
    let least = (0..).zip(bounds).map(off).min().unwrap_or(0);
    let most = (0..).zip(bounds).map(off).max().unwrap_or(0);
    // Never zero: readers reject a count that claims no bytes.
    let width = width_of((most - least).unsigned_abs()).max(1);
    put_varint(body, least.unsigned_abs());
    body.push(low_u8(u64::from(width)));
    let mut packed = BitWriter::default();
    (0..).zip(bounds).for_each(|pair| packed.put((off(pair) - least).unsigned_abs(), width));
    body.extend(packed.finish());
}
