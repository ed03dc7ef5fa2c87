//! Merges neighboring runs, the fewest needless reads per saved bit first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use crate::int::{index, saturating_u32, to_u64};
use crate::sieve::record::options::Coarsen;

/// The approximate cost of a boundary between two runs, in bits.
const BITS_PER_SEPARATOR: u64 = 3;

/// The handle of the set without locations, which only gaps between keys have.
pub(in crate::sieve) const NO_LOCATIONS: u32 = u32::MAX;

/// The location sets of a segment by handle. A handle below `num_locals` is a single location; any other but
/// [`NO_LOCATIONS`] is a set of several.
#[derive(Debug, Default)]
pub(in crate::sieve) struct Sets {
    identity: Vec<u32>,
    several: Vec<Box<[u32]>>,
    handles: HashMap<Box<[u32]>, u32>,
}

impl Sets {
    pub(in crate::sieve) fn new(num_locals: u32) -> Self {
        Self { identity: (0..num_locals).collect(), ..Self::default() }
    }

    pub(in crate::sieve) fn num_locals(&self) -> u32 {
        saturating_u32(self.identity.len())
    }

    pub(in crate::sieve) fn num_several(&self) -> usize {
        self.several.len()
    }

    /// Returns the handle of a set of local numbers, which must ascend and not be empty.
    pub(in crate::sieve) fn handle(&mut self, members: &[u32]) -> u32 {
        if let [only] = members {
            return *only;
        }
        if let Some(&handle) = self.handles.get(members) {
            return handle;
        }
        let handle = saturating_u32(self.identity.len() + self.several.len());
        self.several.push(members.into());
        self.handles.insert(members.into(), handle);
        handle
    }

    pub(in crate::sieve) fn members(&self, handle: u32) -> &[u32] {
        if handle == NO_LOCATIONS {
            return &[];
        }
        let handle = index(handle);
        match handle.checked_sub(self.identity.len()) {
            None => &self.identity[handle..=handle],
            Some(number) => &self.several[number],
        }
    }

    pub(in crate::sieve) fn len_of(&self, handle: u32) -> u64 {
        if handle == NO_LOCATIONS {
            return 0;
        }
        match index(handle).checked_sub(self.identity.len()) {
            None => 1,
            Some(number) => to_u64(self.several[number].len()),
        }
    }

    pub(in crate::sieve) fn union(&mut self, a: u32, b: u32) -> u32 {
        if a == b {
            return a;
        }
        let mut members = [self.members(a), self.members(b)].concat();
        members.sort_unstable();
        members.dedup();
        self.handle(&members)
    }

    /// Estimates the size of a set in bits, to compare merges. It uses integers only, so all machines agree.
    pub(in crate::sieve) fn bits(&self, handle: u32) -> u64 {
        let (count, universe) = (self.len_of(handle), to_u64(self.identity.len()));
        let log = |value: u64| u64::from(64 - value.leading_zeros());
        match count {
            1 => log(universe - 1),
            _ => (count * log(universe / count)).min(universe) + 2,
        }
    }
}

/// A maximal sequence of neighboring keys with the same location set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sieve) struct KeyRun {
    /// The range of its keys in the records.
    pub(in crate::sieve) start: usize,
    pub(in crate::sieve) end: usize,
    pub(in crate::sieve) set: u32,
}

/// Returns the cost of merging two neighbors: needless reads per saved bit (scaled by 1,000), and needless reads in
/// total.
fn price(sets: &mut Sets, a: KeyRun, b: KeyRun) -> (u64, u64) {
    let union = sets.union(a.set, b.set);
    let size = sets.len_of(union);
    let waste = |run: KeyRun| to_u64(run.end - run.start) * (size - sets.len_of(run.set));
    let excess = waste(a) + waste(b);
    let saved = (sets.bits(a.set) + sets.bits(b.set) + BITS_PER_SEPARATOR).saturating_sub(sets.bits(union)).max(1);
    (excess.saturating_mul(1000) / saved, excess)
}

/// Merges runs as far as `coarsen` allows in an index over `num_locations` locations. Plain blocks are built later, by
/// width.
pub(in crate::sieve) fn coarsen(
    runs: Vec<KeyRun>,
    sets: &mut Sets,
    coarsen: Coarsen,
    num_locations: u32,
) -> Vec<KeyRun> {
    let num_keys: usize = runs.iter().map(|run| run.end - run.start).sum();
    let (dearest, mut budget) = match coarsen {
        Coarsen::Exact | Coarsen::Plain { .. } => return runs,
        Coarsen::Error { millionths } => {
            let share = u128::from(millionths) * u128::from(to_u64(num_keys)) * u128::from(num_locations) / 1_000_000;
            (u64::MAX, u64::try_from(share).unwrap_or(u64::MAX))
        }
        Coarsen::Slope { thousandths } => (u64::from(thousandths), u64::MAX),
    };
    let len = runs.len();
    let mut runs: Vec<Option<KeyRun>> = runs.into_iter().map(Some).collect();
    // A doubly linked list of the remaining runs. `stamp` counts the changes of a run, which reveals outdated offers.
    let mut next: Vec<usize> = (1..=len).collect();
    let mut previous: Vec<usize> = (0..len).map(|run| run.wrapping_sub(1)).collect();
    let mut stamp = vec![0u32; len];
    let mut offers = BinaryHeap::new();
    let offer = |left: usize, right: usize, runs: &[Option<KeyRun>], stamp: &[u32], sets: &mut Sets| {
        let (a, b) = (runs.get(left).copied().flatten()?, runs.get(right).copied().flatten()?);
        let (rate, excess) = price(sets, a, b);
        Some(Reverse((rate, left, right, excess, stamp[left], stamp[right])))
    };
    for right in 1..len {
        offers.extend(offer(right - 1, right, &runs, &stamp, sets));
    }
    while let Some(Reverse((rate, left, right, excess, left_stamp, right_stamp))) = offers.pop() {
        let (Some(a), Some(b)) = (runs[left], runs[right]) else { continue };
        if stamp[left] != left_stamp || stamp[right] != right_stamp {
            continue;
        }
        if rate > dearest || excess > budget {
            break;
        }
        budget -= excess;
        runs[left] = Some(KeyRun { start: a.start, end: b.end, set: sets.union(a.set, b.set) });
        runs[right] = None;
        stamp[left] += 1;
        next[left] = next[right];
        if let Some(back) = previous.get_mut(next[right]) {
            *back = left;
        }
        offers.extend(offer(previous[left], left, &runs, &stamp, sets));
        offers.extend(offer(left, next[left], &runs, &stamp, sets));
    }
    runs.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_neighbors_merge_first_and_the_budget_holds() {
        let mut sets = Sets::new(8);
        let runs: Vec<KeyRun> = [(0, 10, 0), (10, 11, 1), (11, 30, 2), (30, 60, 3)]
            .map(|(start, end, set)| KeyRun { start, end, set })
            .to_vec();
        let exact = coarsen(runs.clone(), &mut sets, Coarsen::Error { millionths: 0 }, 8);
        assert_eq!(exact, runs);
        // 60 keys, 8 locations: a share of 0.025 allows 12 needless reads. Merging the first two runs costs 10 + 1.
        let united = coarsen(runs.clone(), &mut sets, Coarsen::Error { millionths: 25_000 }, 8);
        assert_eq!(united.len(), 3);
        assert_eq!((united[0].start, united[0].end, sets.members(united[0].set)), (0, 11, &[0, 1][..]));
        let all = coarsen(runs, &mut sets, Coarsen::Error { millionths: 1_000_000 }, 8);
        assert_eq!((all.len(), sets.members(all[0].set)), (1, &[0, 1, 2, 3][..]));
    }
}
