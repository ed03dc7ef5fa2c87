//! The separators between the runs of a block.
//!
//! A boundary may be anywhere in the gap between two keys, so the encoder picks the shortest separator of each gap. All
//! separators of a block form a tree of halved cells.
//!
//! A node of the tree is a cell with `count` separators strictly inside. It says how many of the `count + 1` runs begin
//! in the left half (the binomial code). If none or all of them do, the separators are all in the other half. Otherwise
//! the middle of the cell is itself a separator, and the two halves hold the rest:
//!
//! ```text
//!   cell 0..16, separators 4 5 8 12      runs:  A A A A B C C C D D D D E E E E
//!   node 0..16: 5 runs, 3 left: 8 is a separator   left 0..8: {4 5}, right 8..16: {12}
//!   node 0..8:  3 runs, 1 left: 4 is a separator   right 4..8: {5}
//!   node 4..8:  single separator: descend one half to the left, to 4..6; 5 is its middle
//! ```
//!
//! A single separator starts with a descent: how many halvings lead to the cell whose middle it is, and which halves
//! they take. If separators are clumped, every node starts with a descent, so reaching a boundary between two close
//! keys takes one step.

use crate::int::{index, low_u32, saturating_u32};
use crate::sieve::code::binomial::{put_binomial, take_binomial, take_binomial_unbounded};
use crate::sieve::code::bits::{BitReader, Sink, Source};
use crate::sieve::code::offset::{Offset, shortest_separator, top};

/// How the separators of a segment are distributed. Scattered ones fall into either half with equal probability.
/// Clumped ones mostly fall into the same half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sieve) enum Distribution {
    Scattered,
    Clumped,
}

/// If half a cell has at least this many bits, it is larger than the number of runs in any block.
const FREE_SHIFT: u32 = 12;

/// Up to this many separators, a linear count is faster than a binary search.
const COUNTED: usize = 16;

/// Turns the runs of one block into separators.
///
/// If two neighboring boundaries lie on either side of a cell's middle and the middle is in no gap, the run between
/// them is split at the middle. The tree requires it, and it costs less than a flag at every node.
#[derive(Debug, Default)]
pub(in crate::sieve) struct SeparatorBuilder<P> {
    /// The last point of the previous run, and its set.
    before: Option<(P, u32)>,
    separator: Option<P>,
}

impl<P: Offset> SeparatorBuilder<P> {
    /// Adds the boundary before a run to `separators`, and the set of each resulting run to `sets`. The run is given by
    /// its first and last point, relative to the block.
    #[inline]
    pub(in crate::sieve) fn add_run(
        &mut self,
        (first, last, set): (P, P, u32),
        separators: &mut Vec<P>,
        sets: &mut Vec<u32>,
    ) {
        if let Some((end, previous_set)) = self.before {
            let next = shortest_separator(end, first);
            if let Some(previous) = self.separator {
                let middle = shortest_separator(previous, next);
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

/// Writes the tree of `separators`, which lie strictly inside the cell of `shift` bits that starts at `low`.
pub(in crate::sieve) fn put_separators<P: Offset>(
    out: &mut impl Sink,
    separators: &[P],
    low: P,
    mut shift: u32,
    distribution: Distribution,
) {
    let [first, .., last] = separators else {
        if let [lone] = separators {
            put_descent(out, shift - 1 - lone.trailing_zeros(), *lone - low, shift, distribution);
        }
        return;
    };
    let runs = saturating_u32(separators.len()) + 1;
    let mut low = low;
    let mut half = P::ONE << (shift - 1);
    if distribution == Distribution::Clumped {
        // `SeparatorBuilder` guarantees that the shortest separator between the outermost two is one of them.
        let between = shortest_separator(*first, *last);
        let middle = if first.trailing_zeros() > between.trailing_zeros() { *first } else { between };
        let down = shift - 1 - middle.trailing_zeros();
        put_descent(out, down, middle - low, shift, distribution);
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
    // No block has nearly 2^30 runs, so the limit changes nothing.
    let room = 1 << (shift - 1).min(30);
    match distribution {
        Distribution::Scattered => put_binomial(out, below, runs, room, room),
        Distribution::Clumped => put_binomial(out, below - 1, runs - 2, room - 1, room - 1),
    }
    put_separators(out, left, low, shift - 1, distribution);
    put_separators(out, right, middle, shift - 1, distribution);
}

/// Writes how many halvings lead to a middle, and the middle's highest bits, which select the halves. Scattered
/// separators rarely need many halvings, so the number is unary: ones and, unless it is the maximum, a zero. Clumped
/// separators use Elias's gamma code.
fn put_descent<P: Offset>(out: &mut impl Sink, down: u32, middle: P, shift: u32, distribution: Distribution) {
    match distribution {
        Distribution::Scattered => {
            let mut ones = down;
            while ones >= 31 {
                out.put((1 << 31) - 1, 31);
                ones -= 31;
            }
            out.put((1 << ones) - 1, ones + u32::from(down + 1 < shift));
        }
        Distribution::Clumped => {
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

/// Reads what `put_descent` wrote: the number of halvings, and which halves.
#[inline]
fn take_descent<P: Offset>(reader: &mut BitReader<'_>, shift: u32, distribution: Distribution) -> Option<(u32, P)> {
    let down = match distribution {
        Distribution::Scattered => {
            let most = shift.checked_sub(1)?;
            let mut down = reader.peek().trailing_ones();
            if down < 32 {
                reader.skip(down.min(most) + u32::from(down < most));
            } else {
                // Rare: two keys that share many more bits than their neighbors do.
                down = 0;
                while down < most && reader.take(1) == 1 {
                    down += 1;
                }
            }
            down.min(most)
        }
        Distribution::Clumped => {
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

/// Reads how many runs of a node begin in its left half. Each half has `shift` bits.
#[inline]
fn take_node(reader: &mut BitReader<'_>, runs: u32, shift: u32, distribution: Distribution) -> u32 {
    let half = 1 << shift.min(FREE_SHIFT);
    match (distribution, shift >= FREE_SHIFT) {
        (Distribution::Scattered, true) => take_binomial_unbounded(reader, runs),
        (Distribution::Scattered, false) => take_binomial(reader, runs, half, half),
        (Distribution::Clumped, true) => 1 + take_binomial_unbounded(reader, runs - 2),
        (Distribution::Clumped, false) => 1 + take_binomial(reader, runs - 2, half - 1, half - 1),
    }
}

/// Returns how many of the `count` separators of a cell are at most `point`. The cell has `shift` bits, and `point` is
/// relative to its start. Returns `None` if the bits do not form a tree.
#[inline]
pub(in crate::sieve) fn rank<P: Offset>(
    reader: &mut BitReader<'_>,
    mut count: u32,
    mut shift: u32,
    point: P,
    distribution: Distribution,
) -> Option<u32> {
    // The bits of the point that are still undecided, the next one highest.
    let mut path = if shift == 0 { P::ZERO } else { point << (P::BITS - shift) };
    let mut rank = 0;
    while count > 0 {
        if reader.exhausted() {
            return None;
        }
        if count == 1 || distribution == Distribution::Clumped {
            let (down, stored_path) = take_descent(reader, shift, distribution)?;
            let point_path = top(path, down);
            if point_path != stored_path {
                // All separators of the cell are on the same side of the point.
                return Some(if point_path > stored_path { rank + count } else { rank });
            }
            path = path << down;
            if count == 1 {
                return Some(rank + u32::from(top(path, 1) == P::ONE));
            }
            shift -= down;
        }
        shift = shift.checked_sub(1)?;
        let runs = count + 1;
        let below = take_node(reader, runs, shift, distribution);
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
            pass::<P>(reader, below - 1, shift, distribution)?;
            rank += below;
            count = runs - below - 1;
        } else {
            count = below - 1;
        }
    }
    Some(rank)
}

/// Skips the tree of a cell.
fn pass<P: Offset>(
    reader: &mut BitReader<'_>,
    mut count: u32,
    mut shift: u32,
    distribution: Distribution,
) -> Option<()> {
    while count > 0 {
        if reader.exhausted() {
            return None;
        }
        if count == 1 || distribution == Distribution::Clumped {
            let (down, _) = take_descent::<P>(reader, shift, distribution)?;
            if count == 1 {
                break;
            }
            shift -= down;
        }
        shift = shift.checked_sub(1)?;
        let runs = count + 1;
        let below = take_node(reader, runs, shift, distribution);
        if below > 0 && below < runs {
            pass::<P>(reader, below - 1, shift, distribution)?;
            count = runs - below - 1;
        }
    }
    Some(())
}

/// Appends all separators of the cell that starts at `low`, in ascending order. Returns `None` if the bits do not form
/// a tree.
pub(in crate::sieve) fn take_separators<P: Offset>(
    reader: &mut BitReader<'_>,
    mut count: u32,
    mut shift: u32,
    mut low: P,
    distribution: Distribution,
    out: &mut Vec<P>,
) -> Option<()> {
    while count > 0 {
        if reader.exhausted() {
            return None;
        }
        if count == 1 || distribution == Distribution::Clumped {
            let (down, stored_path) = take_descent::<P>(reader, shift, distribution)?;
            shift -= down;
            // Without a descent the cell can be as wide as the integer, and shifting by the full width would overflow.
            low = if down == 0 { low } else { low + (stored_path << shift) };
            if count == 1 {
                out.push(low + (P::ONE << shift.checked_sub(1)?));
                break;
            }
        }
        shift = shift.checked_sub(1)?;
        let (runs, middle) = (count + 1, low + (P::ONE << shift));
        let below = take_node(reader, runs, shift, distribution);
        if below == 0 {
            low = middle;
        } else if below < runs {
            take_separators(reader, below - 1, shift, low, distribution, out)?;
            out.push(middle);
            count = runs - below - 1;
            low = middle;
        }
    }
    Some(())
}

/// The most separators that a stored block may claim. The limit bounds the work for a malicious block.
pub(in crate::sieve) const MAX_SEPARATORS: u32 = 1023;

const _: () = assert!(1 << FREE_SHIFT > index(MAX_SEPARATORS) + 1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sieve::code::bits::BitWriter;
    use proptest::prelude::*;

    fn check(keys: &[(u128, u32)], shift: u32, distribution: Distribution) -> u64 {
        let mut runs: Vec<(u128, u128, u32)> = Vec::new();
        for &(key, set) in keys {
            match runs.last_mut() {
                Some(run) if run.2 == set => run.1 = key,
                _ => runs.push((key, key, set)),
            }
        }
        let (mut separators, mut sets) = (Vec::new(), Vec::new());
        let mut builder = SeparatorBuilder::default();
        runs.into_iter().for_each(|run| builder.add_run(run, &mut separators, &mut sets));
        assert_eq!(sets.len(), separators.len() + 1);
        let mut writer = BitWriter::default();
        put_separators(&mut writer, &separators, 0, shift, distribution);
        let bits = usize::try_from(writer.len()).unwrap();
        let bytes = writer.finish();
        for &(key, set) in keys {
            let mut reader = BitReader::new(&bytes, 0, bits);
            let rank = rank(&mut reader, saturating_u32(separators.len()), shift, key, distribution).unwrap();
            assert_eq!(rank, saturating_u32(separators.partition_point(|&separator| separator <= key)));
            assert_eq!(sets[index(rank)], set, "key {key}");
        }
        let mut unfolded = Vec::new();
        let count = saturating_u32(separators.len());
        take_separators(&mut BitReader::new(&bytes, 0, bits), count, shift, 0, distribution, &mut unfolded).unwrap();
        assert_eq!(unfolded, separators);
        u64::try_from(bits).unwrap()
    }

    proptest! {
        #[test]
        fn every_key_finds_its_run(keys in proptest::collection::btree_map(0u128..4096, 0u32..3, 1..60), clumped: bool, stretch in 0u32..100) {
            let keys: Vec<_> = keys.into_iter().map(|(key, set)| (key << stretch, set)).collect();
            check(&keys, 12 + stretch, if clumped { Distribution::Clumped } else { Distribution::Scattered });
        }

        #[test]
        fn random_bits_never_hang_the_decoder(bytes: Vec<u8>, count in 0u32..=MAX_SEPARATORS, shift in 0u32..128, point: u128, clumped: bool) {
            let distribution = if clumped { Distribution::Clumped } else { Distribution::Scattered };
            let point = if shift == 0 { 0 } else { point >> (128 - shift) };
            let mut reader = BitReader::new(&bytes, 0, bytes.len() * 8);
            if let Some(rank) = rank(&mut reader, count, shift, point, distribution) {
                prop_assert!(rank <= count);
            }
            let mut separators = Vec::new();
            let mut reader = BitReader::new(&bytes, 0, bytes.len() * 8);
            if take_separators(&mut reader, count, shift, 0u128, distribution, &mut separators).is_some() {
                prop_assert!(separators.is_sorted_by(|a, b| a < b) && separators.len() == index(count));
            }
        }
    }

    #[test]
    fn keys_that_share_many_bits_find_their_runs() {
        for shared in [30, 31, 32, 33, 62, 63, 64, 65, 100, 116] {
            let prefix = (u128::MAX / 3) >> (128 - shared) << 12;
            for (last, first) in [(4, 5), (7, 8)] {
                for distribution in [Distribution::Scattered, Distribution::Clumped] {
                    check(&[(prefix | last, 0), (prefix | first, 1)], shared + 12, distribution);
                }
            }
        }
    }

    #[test]
    fn a_cell_of_one_point_has_no_separator() {
        let bytes = [0xff; 16];
        for distribution in [Distribution::Scattered, Distribution::Clumped] {
            let mut reader = BitReader::new(&bytes, 0, 128);
            assert_eq!(rank(&mut reader, 1, 0, 0u64, distribution), None);
            let mut reader = BitReader::new(&bytes, 0, 128);
            assert_eq!(take_separators(&mut reader, 1, 0, 0u64, distribution, &mut Vec::new()), None);
        }
    }

    #[test]
    fn scattered_keys_take_under_three_bits_and_dense_keys_take_none() {
        let mut state = 7u64;
        let mut keys: Vec<u128> = (0..512)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                u128::from(state >> 20)
            })
            .collect();
        keys.sort();
        let keys: Vec<_> = keys.into_iter().zip(0..).collect();
        assert!(check(&keys, 44, Distribution::Scattered) < 512 * 3);
        let dense: Vec<_> = (0..512u32).map(|key| (u128::from(key), key)).collect();
        assert_eq!(check(&dense, 9, Distribution::Scattered), 0);
    }
}
