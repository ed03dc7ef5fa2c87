//! Separators between the runs of a block: a boundary may stand anywhere in the gap between two keys, so the shortest one
//! that separates is kept, and all of them together are a tree of halved cells.
//!
//! A node is a cell with `count` separators strictly inside. Think of the `count + 1` runs as things that fall into its
//! halves: `split` says how many fall left. None or all: the separators lie in the other half. Otherwise the middle of the
//! cell is itself a separator, and both halves go on with the rest:
//!
//! ```text
//!   cell 0..16, separators 4 5 8 12      runs:  A A A A B C C C D D D D E E E E
//!   node 0..16: 5 runs, 3 left: 8 is one        left 0..8: {4 5}, right 8..16: {12}
//!   node 0..8:  3 runs, 1 left: 4 is one        right 4..8: {5}
//!   node 4..8:  lone: one half down, to the left: 5 is the middle of 4..6 ... and of no larger cell
//! ```
//!
//! A lone separator, and every node where separators come in clumps, first says how many halves down its middle lies, and
//! which ones: so the long way to a boundary between two close keys is one step.

use crate::int::{index, low_u32, saturating_u32};
use crate::sieve::code::binomial::{put_split, take_free, take_split};
use crate::sieve::code::bits::{BitReader, Sink, Source};
use crate::sieve::code::offset::{Offset, parting, top};

/// How a segment writes its splits: scattered separators fall like coins; those that come in clumps mostly fall to one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sieve) enum Habit {
    Scattered,
    Clumped,
}

/// From this many bits on, half a cell is larger than the runs that a block may have.
const FREE_SHIFT: u32 = 12;

/// Separators up to which counting is faster than halving.
const COUNTED: usize = 16;

/// The runs of one block on their way to separators. Where two boundaries lie on either side of a cell's middle, but the middle
/// is in no gap, the run between them is cut there: the tree needs it, and it costs less than a flag at every node.
#[derive(Debug, Default)]
pub(in crate::sieve) struct Parting<P> {
    /// The last point of the run before, and its set.
    before: Option<(P, u32)>,
    separator: Option<P>,
}

impl<P: Offset> Parting<P> {
    /// Adds to `separators` (and to `sets`, the set of each run) the boundary before a run from its first to its last point,
    /// relative to the block.
    #[inline]
    pub(in crate::sieve) fn run(
        &mut self,
        (first, last, set): (P, P, u32),
        separators: &mut Vec<P>,
        sets: &mut Vec<u32>,
    ) {
        if let Some((end, previous_set)) = self.before {
            let next = parting(end, first);
            if let Some(previous) = self.separator {
                let middle = parting(previous, next);
                if middle != next && middle.trailing_zeros() > previous.trailing_zeros() {
                    separators.push(middle);
                    sets.push(previous_set);
                }
            }
            separators.push(next);
            self.separator = Some(next);
        }
        sets.push(set);
        self.before = Some((last, set));
    }
}

/// Writes the tree of `separators`, which lie strictly inside the cell of `shift` bits at `low`.
pub(in crate::sieve) fn put_separators<P: Offset>(
    out: &mut impl Sink,
    separators: &[P],
    low: P,
    mut shift: u32,
    habit: Habit,
) {
    let [first, .., last] = separators else {
        if let [lone] = separators {
            put_descent(out, shift - 1 - lone.trailing_zeros(), *lone - low, shift, habit);
        }
        return;
    };
    let runs = saturating_u32(separators.len()) + 1;
    let mut low = low;
    let mut half = P::ONE << (shift - 1);
    if habit == Habit::Clumped {
        // The highest point between the outer separators is one of them: `Parting` saw to it.
        let between = parting(*first, *last);
        let middle = if first.trailing_zeros() > between.trailing_zeros() { *first } else { between };
        let down = shift - 1 - middle.trailing_zeros();
        put_descent(out, down, middle - low, shift, habit);
        shift -= down;
        half = half >> down;
        low = middle - half;
    }
    let middle = low + half;
    let below = |separator: &P| *separator < middle;
    let cut = if separators.len() <= COUNTED {
        separators.iter().filter(|separator| below(separator)).count()
    } else {
        separators.partition_point(below)
    };
    let (left, right, below) = if separators.get(cut) == Some(&middle) {
        (&separators[..cut], &separators[cut + 1..], saturating_u32(cut) + 1)
    } else if cut == 0 {
        (&separators[..0], separators, 0)
    } else {
        debug_assert_eq!(cut, separators.len(), "a run across the middle was not cut");
        (separators, &separators[..0], runs)
    };
    // No block has nearly as many runs as the largest number here.
    let room = 1 << (shift - 1).min(30);
    match habit {
        Habit::Scattered => put_split(out, below, runs, room, room),
        Habit::Clumped => put_split(out, below - 1, runs - 2, room - 1, room - 1),
    }
    put_separators(out, left, low, shift - 1, habit);
    put_separators(out, right, middle, shift - 1, habit);
}

/// How many halves down a middle lies, and its highest bits, which say which halves. Scattered separators are seldom far
/// down: ones and a zero, where there is anything to tell; clumps get Elias's gamma code.
fn put_descent<P: Offset>(out: &mut impl Sink, down: u32, middle: P, shift: u32, habit: Habit) {
    match habit {
        Habit::Scattered => {
            let mut ones = down;
            while ones >= 31 {
                out.put((1 << 31) - 1, 31);
                ones -= 31;
            }
            out.put((1 << ones) - 1, ones + u32::from(down + 1 < shift));
        }
        Habit::Clumped => {
            let bits = 32 - (down + 1).leading_zeros();
            out.put((1 << (bits - 1)) - 1, bits);
            out.put(u64::from(down + 1) & ((1 << (bits - 1)) - 1), bits - 1);
        }
    }
    let mut left = down;
    while left > 0 {
        let bits = left.min(32);
        left -= bits;
        let path = middle >> (shift - down + left);
        out.put(path.low() & ((1 << bits) - 1), bits);
    }
}

/// Reads what `put_descent` wrote: how far down, and the way.
#[inline]
fn take_descent<P: Offset>(reader: &mut BitReader<'_>, shift: u32, habit: Habit) -> Option<(u32, P)> {
    let down = match habit {
        Habit::Scattered => {
            let mut down = reader.peek().trailing_ones();
            if down < 32 {
                reader.skip(down.min(shift.checked_sub(1)?) + u32::from(down + 1 < shift));
            } else {
                // Rare: two keys that share many bits more than their neighbours.
                down = 0;
                while down + 1 < shift && reader.take(1) == 1 {
                    down += 1;
                }
            }
            down.min(shift - 1)
        }
        Habit::Clumped => {
            let bits = reader.peek().trailing_ones();
            if bits > 7 {
                return None;
            }
            reader.skip(bits + 1);
            (1 << bits | low_u32(reader.take(bits))) - 1
        }
    };
    if down >= shift {
        return None;
    }
    let mut path = P::ZERO;
    let mut left = down;
    while left > 0 {
        let bits = left.min(32);
        left -= bits;
        path = (path << bits) + P::of(u128::from(reader.take(bits)));
    }
    Some((down, path))
}

/// How many of the runs of a node fall left, once its middle is known to have half a cell of `shift` bits on either side.
#[inline]
fn take_node(reader: &mut BitReader<'_>, runs: u32, shift: u32, habit: Habit) -> u32 {
    let half = 1 << shift.min(FREE_SHIFT);
    match (habit, shift >= FREE_SHIFT) {
        (Habit::Scattered, true) => take_free(reader, runs),
        (Habit::Scattered, false) => take_split(reader, runs, half, half),
        (Habit::Clumped, true) => 1 + take_free(reader, runs - 2),
        (Habit::Clumped, false) => 1 + take_split(reader, runs - 2, half - 1, half - 1),
    }
}

/// How many of the `count` separators of a cell of `shift` bits are at most `point`, which is relative to the cell. `None`
/// where the bits make no tree.
#[inline]
pub(in crate::sieve) fn rank<P: Offset>(
    reader: &mut BitReader<'_>,
    mut count: u32,
    mut shift: u32,
    point: P,
    habit: Habit,
) -> Option<u32> {
    // The next bit of the point to decide by is kept on top.
    let mut path = if shift == 0 { P::ZERO } else { point << (P::BITS - shift) };
    let mut rank = 0;
    while count > 0 {
        if reader.exhausted() {
            return None;
        }
        if count == 1 || habit == Habit::Clumped {
            let (down, way) = take_descent(reader, shift, habit)?;
            let ours = top(path, down);
            if ours != way {
                // Every separator lies on one side of the point.
                return Some(if ours > way { rank + count } else { rank });
            }
            path = path << down;
            if count == 1 {
                return Some(rank + u32::from(top(path, 1) == P::ONE));
            }
            shift -= down;
        }
        shift = shift.checked_sub(1)?;
        let runs = count + 1;
        let below = take_node(reader, runs, shift, habit);
        let goes_right = top(path, 1) == P::ONE;
        path = path << 1;
        if below == 0 {
            if !goes_right {
                break;
            }
        } else if below >= runs {
            if goes_right {
                rank += count;
                break;
            }
        } else if goes_right {
            pass::<P>(reader, below - 1, shift, habit)?;
            rank += below;
            count = runs - below - 1;
        } else {
            count = below - 1;
        }
    }
    Some(rank)
}

/// Reads past the tree of a cell.
fn pass<P: Offset>(reader: &mut BitReader<'_>, mut count: u32, mut shift: u32, habit: Habit) -> Option<()> {
    while count > 0 {
        if reader.exhausted() {
            return None;
        }
        if count == 1 || habit == Habit::Clumped {
            let (down, _) = take_descent::<P>(reader, shift, habit)?;
            if count == 1 {
                break;
            }
            shift -= down;
        }
        shift = shift.checked_sub(1)?;
        let runs = count + 1;
        let below = take_node(reader, runs, shift, habit);
        if below > 0 && below < runs {
            pass::<P>(reader, below - 1, shift, habit)?;
            count = runs - below - 1;
        }
    }
    Some(())
}

/// All separators of a cell at `low`, ascending. `None` where the bits make no tree.
pub(in crate::sieve) fn unfold<P: Offset>(
    reader: &mut BitReader<'_>,
    mut count: u32,
    mut shift: u32,
    mut low: P,
    habit: Habit,
    out: &mut Vec<P>,
) -> Option<()> {
    while count > 0 {
        if reader.exhausted() {
            return None;
        }
        if count == 1 || habit == Habit::Clumped {
            let (down, way) = take_descent::<P>(reader, shift, habit)?;
            shift -= down;
            // Nothing went down where the cell is as wide as the number: there `way` has no bits.
            low = if down == 0 { low } else { low + (way << shift) };
            if count == 1 {
                out.push(low + (P::ONE << shift.checked_sub(1)?));
                break;
            }
        }
        shift = shift.checked_sub(1)?;
        let (runs, middle) = (count + 1, low + (P::ONE << shift));
        let below = take_node(reader, runs, shift, habit);
        if below == 0 {
            low = middle;
        } else if below < runs {
            unfold(reader, below - 1, shift, low, habit, out)?;
            out.push(middle);
            count = runs - below - 1;
            low = middle;
        }
    }
    Some(())
}

/// Most separators that a stored block may claim, so that a hostile one costs little time.
pub(in crate::sieve) const MAX_SEPARATORS: u32 = 1023;

const _: () = assert!(1 << FREE_SHIFT > index(MAX_SEPARATORS) + 1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sieve::code::bits::BitWriter;
    use proptest::prelude::*;

    fn check(keys: &[(u128, u32)], shift: u32, habit: Habit) -> u64 {
        let mut runs: Vec<(u128, u128, u32)> = Vec::new();
        for &(key, set) in keys {
            match runs.last_mut() {
                Some(run) if run.2 == set => run.1 = key,
                _ => runs.push((key, key, set)),
            }
        }
        let (mut separators, mut sets) = (Vec::new(), Vec::new());
        let mut parting = Parting::default();
        runs.into_iter().for_each(|run| parting.run(run, &mut separators, &mut sets));
        assert_eq!(sets.len(), separators.len() + 1);
        let mut writer = BitWriter::default();
        put_separators(&mut writer, &separators, 0, shift, habit);
        let bits = usize::try_from(writer.len()).unwrap();
        let bytes = writer.finish();
        for &(key, set) in keys {
            let mut reader = BitReader::new(&bytes, 0, bits);
            let rank = rank(&mut reader, saturating_u32(separators.len()), shift, key, habit).unwrap();
            assert_eq!(rank, saturating_u32(separators.partition_point(|&separator| separator <= key)));
            assert_eq!(sets[index(rank)], set, "key {key}");
        }
        let mut unfolded = Vec::new();
        let count = saturating_u32(separators.len());
        unfold(&mut BitReader::new(&bytes, 0, bits), count, shift, 0, habit, &mut unfolded).unwrap();
        assert_eq!(unfolded, separators);
        u64::try_from(bits).unwrap()
    }

    proptest! {
        #[test]
        fn every_key_finds_its_run(keys in proptest::collection::btree_map(0u128..4096, 0u32..3, 1..60), clumped: bool, stretch in 0u32..100) {
            let keys: Vec<_> = keys.into_iter().map(|(key, set)| (key << stretch, set)).collect();
            check(&keys, 12 + stretch, if clumped { Habit::Clumped } else { Habit::Scattered });
        }

        #[test]
        fn foreign_bits_end(bytes: Vec<u8>, count in 0u32..=MAX_SEPARATORS, shift in 0u32..128, point: u128, clumped: bool) {
            let habit = if clumped { Habit::Clumped } else { Habit::Scattered };
            let point = if shift == 0 { 0 } else { point >> (128 - shift) };
            let mut reader = BitReader::new(&bytes, 0, bytes.len() * 8);
            if let Some(rank) = rank(&mut reader, count, shift, point, habit) {
                prop_assert!(rank <= count);
            }
            let mut separators = Vec::new();
            let mut reader = BitReader::new(&bytes, 0, bytes.len() * 8);
            if unfold(&mut reader, count, shift, 0u128, habit, &mut separators).is_some() {
                prop_assert!(separators.is_sorted_by(|a, b| a < b) && separators.len() == index(count));
            }
        }
    }

    #[test]
    fn scattered_keys_cost_under_three_bits_and_dense_ones_nothing() {
        let mut state = 7u64;
        let mut keys: Vec<u128> = (0..512)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                u128::from(state >> 20)
            })
            .collect();
        keys.sort();
        let keys: Vec<_> = keys.into_iter().zip(0..).collect();
        assert!(check(&keys, 44, Habit::Scattered) < 512 * 3);
        let dense: Vec<_> = (0..512u32).map(|key| (u128::from(key), key)).collect();
        assert_eq!(check(&dense, 9, Habit::Scattered), 0);
    }
}
