//! How a segment answers missing keys: with the run that they are in, by fingerprints, or exactly, by gaps.
//!
//! All estimates are integers, so every machine makes the same choice. They count bits in eighths.

use crate::int::{low_u64, saturating_u32, to_u64};
use crate::sieve::code::offset::Offset;
use crate::sieve::record::options::{Coarsen, Format, Options};
use crate::sieve::segment::coarsen::{KeyRun, Sets};
use crate::sieve::segment::fingerprint::{MAX_SLOTS, universe};

/// A segment with fingerprints or gaps is split if it is longer, so that a cold point reads one short range.
pub(in crate::sieve) const MAX_SECTION_BYTES: usize = 64 << 10;

/// The part of a segment that excludes missing keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sieve) enum AbsentKeys {
    /// Nothing. A missing key reads the run that it is in.
    ReadRuns,
    /// Fingerprints with this number of slots for each location.
    Fingerprints { slots: u32 },
    /// The gaps between keys, as runs without locations. A missing key reads nothing.
    Gaps {
        /// The number of gaps.
        count: u64,
    },
}

/// A choice, and the estimated size of the segment in bits.
#[derive(Debug, Clone, Copy)]
pub(in crate::sieve) struct Choice {
    pub(in crate::sieve) absent: AbsentKeys,
    pub(in crate::sieve) bits: u64,
}

const EIGHTHS: u64 = 8;

/// Fingerprints let through four fifths of the promised rate on average, so that a sample of missing keys stays below
/// it. If keys have one location, 20,000 questions at a rate of 0.02 would have to exceed their mean by four standard
/// errors. A single key at this rate takes six bits exactly.
const SLOTS_AT_ONE: u32 = 1_250_000;

/// The estimated cost of a run besides its set: about three bits of separators, and its share of its block.
const BITS_OF_RUN: u64 = 6;

/// Chooses how a segment with these runs and `rows` rows excludes missing keys.
///
/// Fingerprints and gaps pay if they take at most two thirds of the other bits of the segment plus half a bit for each row.
/// The cheaper of the two is chosen. Gaps are possible if `points_differ`, because a point then has one key.
pub(in crate::sieve) fn choose<P: Offset>(
    options: &Options,
    (runs, rows): (&[KeyRun], u64),
    sets: &Sets,
    points_differ: bool,
    point: impl Fn(usize) -> P,
) -> Choice {
    let lookup: u64 = runs.iter().map(|run| (sets.bits(run.set) + BITS_OF_RUN) * EIGHTHS).sum();
    let nothing = Choice { absent: AbsentKeys::ReadRuns, bits: lookup / EIGHTHS };
    if options.format == Format::V1 || options.fingerprints == Some(false) {
        return nothing;
    }
    let forced = options.fingerprints == Some(true);
    let allowed = if forced { u64::MAX } else { lookup * 2 / 3 + rows.saturating_mul(EIGHTHS / 2) };
    let slots = SLOTS_AT_ONE.div_ceil(options.fpp.max(1)).min(MAX_SLOTS);
    let mut choice = AbsentKeys::Fingerprints { slots };
    let mut bits: u64 = runs.iter().map(|run| fingerprint_bits(run, sets, slots)).fold(0, u64::saturating_add);
    // Plain blocks have one run each.
    if points_differ && !matches!(options.coarsen, Coarsen::Plain { .. }) {
        let (first, last) = (runs.first().map_or(0, |run| run.start), runs.last().map_or(0, |run| run.end));
        let gaps = gap_bits(first..last, bits.min(allowed), point);
        if let Some((count, gaps)) = gaps {
            (choice, bits) = (AbsentKeys::Gaps { count }, gaps);
        }
    }
    if bits > allowed {
        return nothing;
    }
    Choice { absent: choice, bits: (lookup.saturating_add(bits)) / EIGHTHS }
}

/// Estimates the bits of the fingerprints of a run. Each of several keys takes about 1.4 bits more than a single key.
fn fingerprint_bits(run: &KeyRun, sets: &Sets, slots: u32) -> u64 {
    let locations = u32::try_from(sets.len_of(run.set)).unwrap_or(u32::MAX);
    let alone = log2_in_eighths(u64::from(universe(1, locations, slots)));
    match to_u64(run.end - run.start) {
        1 => alone,
        keys => alone + u64::from(saturating_u32(run.end - run.start).ilog2()) * 2 * EIGHTHS + keys * (alone + 12),
    }
}

/// Counts the gaps between keys and estimates their bits, or returns `None` if these exceed `limit`.
fn gap_bits<P: Offset>(keys: std::ops::Range<usize>, limit: u64, point: impl Fn(usize) -> P) -> Option<(u64, u64)> {
    let (mut count, mut bits) = (0, 0);
    let mut before = point(keys.start);
    for key in keys.skip(1) {
        let next = point(key);
        let gap = next - before - P::ONE;
        if gap > P::ZERO {
            count += 1;
            bits += BITS_OF_GAP * EIGHTHS + u64::from(P::BITS - 1 - gap.leading_zeros()) * EIGHTHS;
            if bits > limit {
                return None;
            }
        }
        before = next;
    }
    Some((count, bits))
}

/// The estimated cost of a gap between two keys, besides the binary logarithm of its length.
const BITS_OF_GAP: u64 = 5;

/// Approximates the binary logarithm by a line between two powers.
fn log2_in_eighths(value: u64) -> u64 {
    let whole = value.max(1).ilog2();
    let rest = value.max(1) - (1 << whole);
    u64::from(whole) * EIGHTHS + low_u64((u128::from(rest) * u128::from(EIGHTHS)) >> whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_exact_at_powers_and_grow_between_them() {
        let logarithms = [0, 1, 2, 3, 4, 5, 6, 7, 8, 1 << 63, u64::MAX].map(log2_in_eighths);
        assert_eq!(logarithms, [0, 0, 8, 12, 16, 18, 20, 22, 24, 63 * 8, 63 * 8 + 7]);
    }
}
