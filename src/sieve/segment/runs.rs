//! The runs of a decoded segment: the start, the tag and the set of each in one number, because each access to another
//! array would be another cache miss.

use std::ops::Range;

use crate::int::{index, low_u32, low_u64};
use crate::sieve::code::bits::width_of;
use crate::sieve::code::offset::Offset;

/// Marks a run whose set is a list. The other bits are the start of the list.
pub(in crate::sieve) const LIST: u32 = 1 << 31;

/// The tag of a run without fingerprints.
pub(in crate::sieve) const NO_TAG: u32 = 0;
/// The tag of a run whose fingerprints are in another array.
pub(in crate::sieve) const OUTSIDE: u32 = u32::MAX;

/// Up to this many runs, a linear count is faster than a binary search.
const COUNTED: usize = 8;

/// One run, as lookups see it.
#[derive(Debug, Clone, Copy)]
pub(in crate::sieve) struct Run {
    pub(in crate::sieve) number: usize,
    /// A location, or [`LIST`] and the start of a list of locations.
    pub(in crate::sieve) set: u32,
    /// [`NO_TAG`], [`OUTSIDE`], or one more than the only fingerprint.
    pub(in crate::sieve) tag: u32,
}

/// The runs in order. From its highest bit, each number has the start of the run (relative to its block, and without the
/// low bits that are zero in every start), its tag, and its set.
#[derive(Debug)]
pub(in crate::sieve) struct Runs {
    numbers: Numbers,
    len: usize,
    /// The number of bits of a set. The highest one is [`LIST`].
    set_bits: u32,
    tag_bits: u32,
}

#[derive(Debug)]
enum Numbers {
    Short(Vec<u64>),
    Long(Vec<u128>),
}

impl Runs {
    /// Stores runs whose starts have `start_bits` bits after `ignored_bits` zeros. Returns `None` if a start is too long.
    /// `tags` is empty if no run has a tag.
    pub(in crate::sieve) fn new<P: Offset>(
        starts: &[P],
        (ignored_bits, start_bits): (u32, u32),
        sets: &[u32],
        tags: &[u32],
    ) -> Option<Self> {
        let widest = sets.iter().map(|&set| set & !LIST).max().unwrap_or(0);
        let set_bits = width_of(u64::from(widest)) + 1;
        // A tag of only ones means `OUTSIDE`, so no other tag may consist of ones.
        let greatest = tags.iter().filter(|&&tag| tag != OUTSIDE).max();
        let tag_bits = greatest.map_or(u32::from(!tags.is_empty()), |&tag| width_of(u64::from(tag) + 1));
        let low = |run: usize| {
            let set = u64::from(sets[run] & !LIST) | u64::from(sets[run] >> 31) << (set_bits - 1);
            let tag = u64::from(tags.get(run).copied().unwrap_or(NO_TAG)) & ((1 << tag_bits) - 1);
            tag << set_bits | set
        };
        let low_bits = set_bits + tag_bits;
        let start = |run: usize| (starts[run] >> ignored_bits).low();
        let numbers = match start_bits {
            bits if bits + low_bits < 64 => {
                let mut numbers: Vec<u64> = (0..sets.len()).map(|run| start(run) << low_bits | low(run)).collect();
                numbers.resize(sets.len() + COUNTED, 0);
                Numbers::Short(numbers)
            }
            ..=64 => {
                let number = |run| u128::from(start(run)) << low_bits | u128::from(low(run));
                let mut numbers: Vec<u128> = (0..sets.len()).map(number).collect();
                numbers.resize(sets.len() + COUNTED, 0);
                Numbers::Long(numbers)
            }
            _ => return None,
        };
        Some(Self { numbers, len: sets.len(), set_bits, tag_bits })
    }

    pub(in crate::sieve) fn len(&self) -> usize {
        self.len
    }

    /// Returns the memory in use.
    pub(in crate::sieve) fn num_bytes(&self) -> usize {
        match &self.numbers {
            Numbers::Short(numbers) => size_of_val(numbers.as_slice()),
            Numbers::Long(numbers) => size_of_val(numbers.as_slice()),
        }
    }

    /// Returns the last run of a range that starts at or before `start`, which has no ignored bits.
    #[inline]
    pub(in crate::sieve) fn find(&self, range: (usize, usize), start: u64) -> Option<Run> {
        let low_bits = self.set_bits + self.tag_bits;
        let (number, low) = match &self.numbers {
            Numbers::Short(all) => last_at_most(all, range, start << low_bits | ((1 << low_bits) - 1))?,
            Numbers::Long(all) => {
                let bound = u128::from(start) << low_bits | ((1 << low_bits) - 1);
                let (number, low) = last_at_most(all, range, bound)?;
                (number, low_u64(low))
            }
        };
        let tag = low_u32(low >> self.set_bits & ((1 << self.tag_bits) - 1));
        let is_outside = self.tag_bits > 0 && u64::from(tag) == (1 << self.tag_bits) - 1;
        Some(Run { number, set: self.unpack(low), tag: if is_outside { OUTSIDE } else { tag } })
    }

    #[inline]
    fn unpack(&self, low: u64) -> u32 {
        let highest = self.set_bits - 1;
        low_u32(low & ((1 << highest) - 1)) | low_u32(low >> highest & 1) << 31
    }

    /// Visits the sets of a range of runs.
    pub(in crate::sieve) fn for_each_set(&self, runs: Range<usize>, mut visit: impl FnMut(u32)) {
        match &self.numbers {
            Numbers::Short(all) => {
                all.get(runs).unwrap_or_default().iter().for_each(|&run| visit(self.unpack(run)));
            }
            Numbers::Long(all) => {
                all.get(runs).unwrap_or_default().iter().for_each(|&run| visit(self.unpack(low_u64(run))));
            }
        }
    }
}

/// Returns the last number of `start..end` that is at most `bound`, and its index. `numbers` must be padded with
/// `COUNTED` more elements, so that a search in a short range has no branch to mispredict.
#[inline]
fn last_at_most<T: Copy + Ord + Default>(numbers: &[T], (start, end): (usize, usize), bound: T) -> Option<(usize, T)> {
    let len = end.checked_sub(start)?;
    if len > COUNTED {
        let count = numbers.get(start..end)?.partition_point(|number| *number <= bound);
        let at = start + usize::checked_sub(count, 1)?;
        return Some((at, *numbers.get(at)?));
    }
    let window: &[T; COUNTED] = numbers.get(start..)?.first_chunk()?;
    let (mut count, mut last) = (0, T::default());
    for (at, &number) in window.iter().enumerate() {
        let within = (at < len) & (number <= bound);
        count += usize::from(within);
        last = if within { number } else { last };
    }
    Some((start + usize::checked_sub(count, 1)?, last))
}

/// Returns the index of the first item of a list that is preceded by its length, and its items.
#[inline]
pub(in crate::sieve) fn list_at(lists: &[u32], start: u32) -> &[u32] {
    let list = lists.get(index(start)..).and_then(<[u32]>::split_first);
    list.and_then(|(len, rest)| rest.get(..index(*len))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_of_any_width_are_found(
            runs in proptest::collection::btree_map(any::<u64>(), (0u32..=u32::MAX, prop_oneof![Just(NO_TAG), Just(OUTSIDE), 1u32..u32::MAX]), 1..40),
            narrow in 0u32..60,
            small in 0u32..30,
            tagged: bool,
            probe: u64,
        ) {
            // Starts below `1 << 64 - narrow`, and sets and tags of any width.
            let runs: std::collections::BTreeMap<u64, (u32, u32)> = runs
                .into_iter()
                .map(|(start, (set, tag))| {
                    let short = |number: u32| if number == OUTSIDE { number } else { number >> small };
                    (start >> narrow, ((set & !LIST) >> small | set & LIST, short(tag)))
                })
                .collect();
            let starts: Vec<u64> = runs.keys().map(|start| start << narrow).collect();
            let sets: Vec<u32> = runs.values().map(|run| run.0).collect();
            let tags: Vec<u32> = if tagged { runs.values().map(|run| run.1).collect() } else { Vec::new() };
            let stored = Runs::new(&starts, (narrow, 64 - narrow), &sets, &tags).unwrap();
            let mut all = Vec::new();
            stored.for_each_set(0..stored.len(), |set| all.push(set));
            prop_assert_eq!(&all, &sets);
            for probe in starts.iter().copied().chain([probe]) {
                let expected = starts.partition_point(|&start| start <= probe).checked_sub(1);
                let found = stored.find((0, stored.len()), probe >> narrow);
                prop_assert_eq!(found.map(|run| run.number), expected);
                if let Some(run) = found {
                    prop_assert_eq!((run.set, run.tag), (sets[run.number], tags.get(run.number).copied().unwrap_or(NO_TAG)));
                }
            }
        }
    }
}
