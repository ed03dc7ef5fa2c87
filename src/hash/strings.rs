//! Hashes many byte strings: eight at a time with AVX-512, otherwise grouped by length.

use super::xxh64::hash_bytes;
use crate::isa::{InstructionSet, per_instruction_set};

/// Strings longer than this are hashed separately unless all eight have similar lengths, because lanes wait for the
/// longest string.
#[cfg(target_arch = "x86_64")]
const LONG: usize = 256;

/// Hashes many byte strings.
pub fn hash_strings(isa: InstructionSet, strings: &[&[u8]], hashes: &mut [u64]) {
    #[cfg(target_arch = "x86_64")]
    if isa.level() == crate::isa::Level::Avx512 {
        // SAFETY: the instruction set was detected.
        return unsafe { in_lanes(strings, hashes) };
    }
    for (strings, hashes) in strings.chunks(ORDERED).zip(hashes.chunks_mut(ORDERED)) {
        if strings.iter().all(|string| string.len() == strings[0].len()) {
            one_by_one(isa, strings, hashes);
        } else {
            by_length(isa, strings, hashes);
        }
    }
}

/// # Safety
/// The processor must support the features of [`super::lanes::hash_eight`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2")]
unsafe fn in_lanes(strings: &[&[u8]], hashes: &mut [u64]) {
    use super::lanes::{LANES, hash_eight};
    let (groups, rest) = strings.as_chunks::<LANES>();
    let (outs, rest_out) = hashes.as_chunks_mut::<LANES>();
    for (group, out) in groups.iter().zip(outs) {
        let (mut shortest, mut longest) = (usize::MAX, 0);
        for string in group {
            shortest = shortest.min(string.len());
            longest = longest.max(string.len());
        }
        if longest > LONG && shortest < longest / 2 {
            *out = group.map(hash_bytes);
        } else {
            // SAFETY: the caller guarantees the features.
            *out = unsafe { hash_eight(group) };
        }
    }
    for (string, hash) in rest.iter().zip(rest_out) {
        *hash = hash_bytes(string);
    }
}

/// Number of strings sorted together. Their lengths and positions stay in the L1 cache.
const ORDERED: usize = 512;
/// Number of length classes. Longer strings share the last bucket, because hashing them hides a mispredicted branch.
const BUCKETS: usize = 64;

per_instruction_set! {
    fn one_by_one(strings: &[&[u8]], hashes: &mut [u64]) = one_by_one_body;
}
per_instruction_set! {
    fn by_length(strings: &[&[u8]], hashes: &mut [u64]) = by_length_body;
}

#[inline(always)]
fn one_by_one_body(strings: &[&[u8]], hashes: &mut [u64]) {
    for (string, hash) in strings.iter().zip(hashes) {
        *hash = hash_bytes(string);
    }
}

/// Hashes strings in order of their length. The branches taken for a string depend on its length, so mixed lengths
/// cause one or two mispredictions per string, which cost more than a counting sort.
#[inline(always)]
fn by_length_body(strings: &[&[u8]], hashes: &mut [u64]) {
    let mut starts = [0u16; BUCKETS + 1];
    for string in strings {
        starts[string.len().min(BUCKETS - 1) + 1] += 1;
    }
    for bucket in 0..BUCKETS {
        starts[bucket + 1] += starts[bucket];
    }
    let mut order = [0u16; ORDERED];
    for (place, string) in strings.iter().enumerate() {
        let next = &mut starts[string.len().min(BUCKETS - 1)];
        order[usize::from(*next) % ORDERED] = place as u16;
        *next += 1;
    }
    for place in &order[..strings.len()] {
        hashes[usize::from(*place)] = hash_bytes(strings[usize::from(*place)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(strings: &[&[u8]]) {
        for isa in InstructionSet::all() {
            let mut hashes = vec![0; strings.len()];
            hash_strings(isa, strings, &mut hashes);
            for (string, hash) in strings.iter().zip(&hashes) {
                assert_eq!(*hash, twox_hash::XxHash64::oneshot(0, string), "{} bytes on {}", string.len(), isa.name());
            }
        }
    }

    #[test]
    fn every_length_is_hashed_correctly_in_every_lane() {
        let bytes: Vec<u8> = (0..5000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for length in 0..if cfg!(miri) { 3 } else { 200 } {
            let uniform: Vec<&[u8]> = (0..17).map(|start| &bytes[start..start + length]).collect();
            check(&uniform);
            let mixed: Vec<&[u8]> = (0..67).map(|n| &bytes[n..n + (n * length) % (length + 1)]).collect();
            check(&mixed);
        }
        let uneven: Vec<&[u8]> = [0, 4096, 31, 32, 33, 255, 256, 257].map(|length| &bytes[..length]).to_vec();
        check(&uneven);
        let long: Vec<&[u8]> = (0..8).map(|n| &bytes[n..n + 3000 + n]).collect();
        check(&long);
    }

    proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "thousands of strings")]
        fn random_strings_are_hashed_correctly(strings in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 0..1200)) {
            let slices: Vec<&[u8]> = strings.iter().map(Vec::as_slice).collect();
            check(&slices);
        }
    }
}
