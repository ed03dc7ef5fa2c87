//! Sets of small numbers, stored as the number of members in each half of the universe, recursively.
//!
//! The size is close to the entropy of a random set at any density. A full universe takes no bits.

use crate::int::{index, saturating_u32};
use crate::sieve::code::binomial::{BinomialSource, put_binomial, take_binomial};
use crate::sieve::code::bits::Sink;

/// Writes a sorted set of distinct members in `low .. low + width`. The reader must know their number.
pub(in crate::sieve) fn put_members(out: &mut impl Sink, members: &[u32], low: u32, width: u32) {
    match members {
        [] => {}
        [only] => out.put_below(only - low, width),
        _ if members.len() == index(width) => {}
        _ => {
            let left = width - width / 2;
            let cut = members.partition_point(|&member| member < low + left);
            let (count, below) = (saturating_u32(members.len()), saturating_u32(cut));
            put_binomial(out, below, count, left, width - left);
            put_members(out, &members[..cut], low, left);
            put_members(out, &members[cut..], low + left, width - left);
        }
    }
}

/// Visits the members written by [`put_members`] in ascending order. All are inside the universe even if the bits are
/// corrupt.
pub(in crate::sieve) fn take_members(
    source: &mut impl BinomialSource,
    count: u32,
    low: u32,
    width: u32,
    visit: &mut impl FnMut(u32),
) {
    if count == 0 || source.exhausted() {
        return;
    }
    if count >= width {
        return (low..low + width).for_each(visit);
    }
    if count == 1 {
        let member = source.take_below(width);
        return visit(low + member);
    }
    let left = width - width / 2;
    let below = take_binomial(source, count, left, width - left);
    take_members(source, below, low, left, visit);
    take_members(source, count - below.min(count), low + left, width - left, visit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sieve::code::bits::{BackReader, BackWriter, BitReader, BitWriter};
    use proptest::prelude::*;

    fn round_trip(members: &[u32], width: u32) -> u64 {
        let count = saturating_u32(members.len());
        let (mut forward, mut back) = (BitWriter::default(), BackWriter::default());
        put_members(&mut forward, members, 0, width);
        put_members(&mut back, members, 0, width);
        let end = usize::try_from(forward.len()).unwrap();
        back.drain_into(&mut forward);
        let total = usize::try_from(forward.len()).unwrap();
        let bytes = forward.finish();
        let (mut forward_members, mut backward_members) = (Vec::new(), Vec::new());
        take_members(&mut BitReader::new(&bytes, 0, end), count, 0, width, &mut |member| forward_members.push(member));
        take_members(&mut BackReader::new(&bytes, end, total), count, 0, width, &mut |member| {
            backward_members.push(member)
        });
        assert_eq!(forward_members, members);
        assert_eq!(backward_members, members);
        u64::try_from(end).unwrap()
    }

    proptest! {
        #[test]
        fn sets_of_any_density_read_back(width in 1u32..5000, keep in 0.0f64..=1.0, seed: u64) {
            let threshold = (keep * 65536.0).round();
            let members: Vec<u32> = (0..width)
                .filter(|&i| f64::from(low16(seed ^ u64::from(i).wrapping_mul(0x9e37_79b9_7f4a_7c15))) < threshold)
                .collect();
            round_trip(&members, width);
        }

        #[test]
        fn random_bits_decode_to_members_of_the_universe(bytes: Vec<u8>, count: u32, low in 0u32..9, width in 1u32..300) {
            let end = bytes.len() * 8;
            take_members(&mut BitReader::new(&bytes, 0, end), count, low, width, &mut |member| {
                assert!((low..low + width).contains(&member));
            });
            take_members(&mut BackReader::new(&bytes, 0, end), count, low, width, &mut |member| {
                assert!((low..low + width).contains(&member));
            });
        }
    }

    fn low16(value: u64) -> u16 {
        u16::try_from((value ^ value >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 48).unwrap()
    }

    #[test]
    fn a_full_set_takes_no_bits_and_a_random_set_is_near_its_entropy() {
        assert_eq!(round_trip(&(0..4096).collect::<Vec<_>>(), 4096), 0);
        // ln C(4096, 10) = 68.1 nats = 98 bits.
        assert!(round_trip(&[17, 311, 788, 1200, 1201, 2047, 2600, 3333, 3500, 4000], 4096) < 112);
    }
}
