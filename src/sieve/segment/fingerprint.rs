//! Fingerprints: a few bits of each key's hash, stored after the set of a run. They exclude most missing keys.
//!
//! The fingerprints of a run with `n` keys and `c` locations are numbers below `n * c * slots`. A missing key has one
//! of them with a probability of `1 / (c * slots)`, and then reads `c` locations. So it reads `1 / slots` locations on
//! average, however long the run and however large its set. A set without locations has no fingerprints.

use crate::int::{low_u32, low_u64, saturating_u32};
use crate::sieve::code::bits::{BackReader, BackWriter, Sink, Source};
use crate::sieve::code::set::{put_members, take_members};
use crate::sieve::segment::block::{Damaged, Visited};

/// Fingerprints are below this number, which bounds the work of decoding them.
const MAX_UNIVERSE: u64 = (1 << 31) - 1;

/// The most slots for each location, which is a probability of one in a million.
pub(in crate::sieve) const MAX_SLOTS: u32 = 1_000_000;

/// Returns the exclusive limit of the fingerprints of a run.
#[inline]
pub(in crate::sieve) fn universe(keys: u32, locations: u32, slots: u32) -> u32 {
    let universe = (u64::from(keys) * u64::from(locations)).saturating_mul(u64::from(slots));
    low_u32(universe.min(MAX_UNIVERSE))
}

/// Reduces a hash to a fingerprint below `universe`.
#[inline]
pub(in crate::sieve) fn fingerprint(hash: u64, universe: u32) -> u32 {
    low_u32(low_u64((u128::from(hash) * u128::from(universe)) >> 64))
}

/// Writes the fingerprints of a run's distinct keys.
///
/// A single fingerprint is a phase-in code. The limit of a single fingerprint is an escape: the number of keys and the
/// members of their set follow.
pub(in crate::sieve) fn put_fingerprints(out: &mut BackWriter, hashes: &[u64], locations: u32, slots: u32) {
    let single = universe(1, locations, slots);
    if let [hash] = hashes {
        return out.put_below(fingerprint(*hash, single), single + 1);
    }
    out.put_below(single, single + 1);
    let count = saturating_u32(hashes.len()).max(2);
    put_gamma(out, count - 1);
    let universe = universe(count, locations, slots);
    let mut members: Vec<u32> = hashes.iter().map(|&hash| fingerprint(hash, universe)).collect();
    members.sort_unstable();
    members.dedup();
    // The reader knows the number of keys. If some share a fingerprint, the least unused numbers take their places.
    let missing = hashes.len().max(2) - members.len();
    let unused = (0..universe).filter(|number| members.binary_search(number).is_err());
    let unused: Vec<u32> = unused.take(missing).collect();
    members.extend(unused);
    members.sort_unstable();
    put_members(out, &members, 0, universe);
}

/// Visits the fingerprints of a run as `(universe, fingerprint)`.
#[inline]
pub(in crate::sieve) fn take_fingerprints(
    back: &mut BackReader<'_>,
    (locations, slots): (u32, u32),
    fuel: &mut u64,
    mut visit: impl FnMut(u32, u32),
) -> Visited {
    let single = universe(1, locations, slots);
    let value = back.take_below(single + 1);
    if value < single {
        visit(single, value);
    } else {
        let count = take_gamma(back)? + 1;
        *fuel = fuel.checked_sub(u64::from(count)).ok_or(Damaged)?;
        let universe = universe(count, locations, slots);
        take_members(back, count, 0, universe, &mut |member| visit(universe, member));
    }
    if back.exhausted() { Err(Damaged) } else { Ok(()) }
}

/// Writes Elias's gamma code of a positive number: ones for the bits after its highest bit, a zero, and these bits.
fn put_gamma(out: &mut BackWriter, value: u32) {
    let bits = value.ilog2();
    out.put((1 << (bits + 1)) - 2, bits + 1);
    out.put(u64::from(value) & ((1 << bits) - 1), bits);
}

fn take_gamma(back: &mut BackReader<'_>) -> Result<u32, Damaged> {
    let mut bits = 0;
    while back.take(1) == 1 {
        bits += 1;
        if bits > 30 {
            return Err(Damaged);
        }
    }
    Ok(1 << bits | low_u32(back.take(bits)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::int::to_usize;
    use crate::sieve::code::bits::BitWriter;
    use crate::sieve::tests::model::Random;
    use proptest::prelude::*;

    /// Writes the fingerprints of several runs, and returns the bytes and the number of bits.
    fn written(runs: &[(Vec<u64>, u32)], slots: u32) -> (Vec<u8>, usize) {
        let (mut out, mut back) = (BitWriter::default(), BackWriter::default());
        runs.iter().for_each(|(hashes, locations)| put_fingerprints(&mut back, hashes, *locations, slots));
        back.drain_into(&mut out);
        let bits = to_usize(out.len()).unwrap();
        (out.finish(), bits)
    }

    proptest! {
        #[test]
        fn every_key_of_a_run_has_its_fingerprint(
            runs in proptest::collection::vec((proptest::collection::vec(any::<u64>(), 1..40), 1u32..3000), 1..20),
            slots in 1u32..2000,
        ) {
            let (bytes, bits) = written(&runs, slots);
            let mut back = BackReader::new(&bytes, 0, bits);
            for (hashes, locations) in &runs {
                let mut stored = Vec::new();
                take_fingerprints(&mut back, (*locations, slots), &mut (1 << 20), |all, one| stored.push((all, one))).unwrap();
                prop_assert_eq!(stored.len(), hashes.len());
                for &hash in hashes {
                    prop_assert!(stored.iter().any(|&(all, one)| fingerprint(hash, all) == one));
                }
            }
            prop_assert_eq!(back.position(), 0);
        }

        #[test]
        fn random_bits_never_hang_the_decoder(bytes: Vec<u8>, locations in 1u32..100_000, slots in 1u32..=MAX_SLOTS) {
            let mut back = BackReader::new(&bytes, 0, bytes.len() * 8);
            while take_fingerprints(&mut back, (locations, slots), &mut (1 << 16), |all, one| assert!(one < all)).is_ok() {}
        }
    }

    #[test]
    fn keys_with_equal_fingerprints_are_found() {
        let hashes = vec![7, 7, 8, u64::MAX];
        let (bytes, bits) = written(&[(hashes, 1)], 1);
        let mut stored = Vec::new();
        take_fingerprints(&mut BackReader::new(&bytes, 0, bits), (1, 1), &mut 9, |_, one| stored.push(one)).unwrap();
        assert_eq!(stored, [0, 1, 2, 3]);
    }

    #[test]
    fn a_key_takes_under_six_bits_alone_and_under_eight_in_a_long_run() {
        let mut random = Random(5);
        let mut hashes = |count: usize| -> Vec<u64> { (0..count).map(|_| random.below(u64::MAX)).collect() };
        let alone: Vec<(Vec<u64>, u32)> = (0..1000).map(|_| (hashes(1), 1)).collect();
        let (_, bits) = written(&alone, 50);
        assert!((5640..5800).contains(&bits), "{bits}");
        let (_, bits) = written(&[(hashes(1000), 1)], 50);
        assert!((7000..7500).contains(&bits), "{bits}");
    }
}
