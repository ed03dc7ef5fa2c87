//! Divides the runs of a segment into blocks.

use std::ops::Range;

use crate::int::{to_u64, to_usize};
use crate::sieve::code::offset::{Offset, shifted};
use crate::sieve::code::separators::SeparatorBuilder;
use crate::sieve::segment::absent::AbsentKeys;
use crate::sieve::segment::coarsen::{KeyRun, NO_LOCATIONS, Sets};
use crate::sieve::segment::write::{PlannedBlock, SegmentPlan};

/// If a block has more separators, its segment is split in two: one block width does not suit all of its keys.
const MOST_SEPARATORS: usize = 192;

/// The keys of one run in one block.
#[derive(Debug, Clone)]
struct BlockRun<P> {
    first: P,
    last: P,
    set: u32,
    keys: Range<usize>,
}

/// How to plan the blocks of a segment.
#[derive(Debug, Clone, Copy)]
pub(in crate::sieve) struct BlockRules {
    /// The binary logarithm of the width of a block.
    pub(in crate::sieve) shift: u32,
    /// True for one run for each block.
    pub(in crate::sieve) plain: bool,
    pub(in crate::sieve) absent: AbsentKeys,
}

/// Splits the runs at the block boundaries and plans each block. Returns `None` if a block has too many separators.
pub(in crate::sieve) fn plan<P: Offset>(
    plan: &mut SegmentPlan<P>,
    runs: &[KeyRun],
    rules: BlockRules,
    point: impl Fn(usize) -> P,
    sets: &mut Sets,
) -> Option<()> {
    plan.clear();
    plan.separators.reserve(runs.len() + runs.len() / 8);
    plan.sets.reserve(runs.len() + runs.len() / 8);
    let shift = rules.shift;
    let first_key = runs.first()?.start;
    let base = shifted(point(first_key), shift);
    let inside = (P::ONE << shift) - P::ONE;
    let mut planner = Planner { plan, rules, inside, first_key, point: &point };
    let mut block = OpenBlock::new(planner.plan, base);
    let has_gaps = matches!(rules.absent, AbsentKeys::Gaps { .. });
    if has_gaps {
        // No query reaches the points before the least key.
        block.after = point(first_key) & inside;
    }
    for run in runs {
        let last_point = point(run.end - 1);
        let mut start = run.start;
        while start < run.end {
            let first = point(start);
            if shifted(first, shift) != block.number {
                planner.close(block, base, true, sets)?;
                block = OpenBlock::new(planner.plan, shifted(first, shift));
            }
            let (end, last) = if shifted(last_point, shift) == block.number {
                (run.end, last_point)
            } else {
                let end = first_beyond(start, run.end, |key| shifted(point(key), shift) > block.number);
                (end, point(end - 1))
            };
            let keys = BlockRun { first: first & inside, last: last & inside, set: run.set, keys: start..end };
            if rules.plain {
                block.unite(keys, sets);
            } else if has_gaps {
                planner.put_between_gaps(&mut block, &keys, sets);
            } else {
                planner.put(&mut block, keys, sets);
            }
            start = end;
        }
    }
    planner.close(block, base, false, sets)
}

/// A block that is being planned.
struct OpenBlock<P> {
    number: P,
    separators: usize,
    sets: usize,
    builder: SeparatorBuilder<P>,
    /// For plain blocks: one set for all keys of the block.
    united: Option<BlockRun<P>>,
    /// With gaps: the first point after the runs so far, relative to the block. It may be the width of the block.
    after: P,
}

impl<P: Offset> OpenBlock<P> {
    fn new(plan: &SegmentPlan<P>, number: P) -> Self {
        let (separators, sets) = (plan.separators.len(), plan.sets.len());
        Self { number, separators, sets, builder: SeparatorBuilder::default(), united: None, after: P::ZERO }
    }

    fn unite(&mut self, run: BlockRun<P>, sets: &mut Sets) {
        self.united = Some(match self.united.take() {
            Some(before) => BlockRun {
                first: before.first,
                last: run.last,
                set: sets.union(before.set, run.set),
                keys: before.keys.start..run.keys.end,
            },
            None => run,
        });
    }
}

/// The plan of a segment, while its blocks are added.
struct Planner<'a, P, F> {
    plan: &'a mut SegmentPlan<P>,
    rules: BlockRules,
    /// The bits of a point that are its position in the block.
    inside: P,
    /// The number of the segment's first key.
    first_key: usize,
    point: &'a F,
}

impl<P: Offset, F: Fn(usize) -> P> Planner<'_, P, F> {
    #[inline]
    fn put(&mut self, block: &mut OpenBlock<P>, run: BlockRun<P>, sets: &Sets) {
        let plan = &mut *self.plan;
        let runs_before = plan.sets.len();
        block.builder.add_run((run.first, run.last, run.set), &mut plan.separators, &mut plan.sets);
        plan.reads += to_u64(run.keys.len()) * sets.len_of(run.set);
        if matches!(self.rules.absent, AbsentKeys::Fingerprints { .. }) {
            if let ([.., middle, _], Some(&end)) = (&plan.separators[..], plan.ends.last())
                && plan.sets.len() == runs_before + 2
            {
                // The separators cut the run before this one at a middle, and both parts have keys.
                let (from, to) = (self.first_key + plan.start_of(runs_before - 1), self.first_key + end);
                let cut = first_beyond(from, to, |key| (self.point)(key) & self.inside >= *middle);
                plan.ends.pop();
                plan.ends.extend([cut - self.first_key, end]);
            }
            plan.ends.push(run.keys.end - self.first_key);
        }
    }

    /// Adds the keys of a run, and a run without locations for each gap before or between them.
    fn put_between_gaps(&mut self, block: &mut OpenBlock<P>, run: &BlockRun<P>, sets: &Sets) {
        let mut start = run.keys.start;
        while start < run.keys.end {
            let first = (self.point)(start) & self.inside;
            let (mut end, mut last) = (start + 1, first);
            while end < run.keys.end && (self.point)(end) & self.inside == last + P::ONE {
                last = last + P::ONE;
                end += 1;
            }
            self.put_gap(block, first, sets);
            self.put(block, BlockRun { first, last, set: run.set, keys: start..end }, sets);
            block.after = last + P::ONE;
            start = end;
        }
    }

    /// Adds the gap from the runs so far to `end`, if there is one.
    fn put_gap(&mut self, block: &mut OpenBlock<P>, end: P, sets: &Sets) {
        if block.after < end {
            let gap = BlockRun { first: block.after, last: end - P::ONE, set: NO_LOCATIONS, keys: 0..0 };
            self.put(block, gap, sets);
        }
    }

    /// Completes a block, which other blocks may follow. Returns `None` if it has too many separators.
    fn close(&mut self, mut block: OpenBlock<P>, base: P, followed: bool, sets: &Sets) -> Option<()> {
        if let Some(united) = block.united.take() {
            self.put(&mut block, united, sets);
        }
        if matches!(self.rules.absent, AbsentKeys::Gaps { .. }) && followed {
            self.put_gap(&mut block, self.inside + P::ONE, sets);
        }
        let separators = block.separators..self.plan.separators.len();
        let fits = separators.len() <= MOST_SEPARATORS;
        let number = to_usize((block.number - base).low())?;
        self.plan.blocks.push(PlannedBlock { block: number, separators, sets: block.sets..self.plan.sets.len() });
        fits.then_some(())
    }
}

/// Returns the first index of `start..end` for which `beyond` is true. The range must be partitioned by `beyond`.
fn first_beyond(mut start: usize, mut end: usize, beyond: impl Fn(usize) -> bool) -> usize {
    while start < end {
        let middle = start + (end - start) / 2;
        if beyond(middle) { end = middle } else { start = middle + 1 }
    }
    start
}
