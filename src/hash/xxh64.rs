//! XXH64 with seed 0: one function per width, written so that batch loops can be vectorized.
//!
//! ```text
//! up to 31 bytes:   start = P5 + length;  then 8-byte words, one 4-byte word, single bytes, and the avalanche
//! 4 or 8 bytes:     exactly one of these steps, so a column of numbers is a loop without branches
//! ```

use crate::isa::per_instruction_set;

pub(super) const P1: u64 = 0x9e37_79b1_85eb_ca87;
pub(super) const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
pub(super) const P3: u64 = 0x1656_67b1_9e37_79f9;
pub(super) const P4: u64 = 0x85eb_ca77_c2b2_ae63;
pub(super) const P5: u64 = 0x27d4_eb2f_1656_67c5;

/// Returns the hash of a 4-byte value.
#[inline(always)]
pub fn hash_u32(value: u32) -> u64 {
    avalanche(mix_4(P5.wrapping_add(4), u64::from(value)))
}

/// Returns the hash of an 8-byte value.
#[inline(always)]
pub fn hash_u64(value: u64) -> u64 {
    avalanche(mix_8(P5.wrapping_add(8), value))
}

/// Returns the hash of a byte string.
#[inline(always)]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    if bytes.len() < 32 { hash_short(bytes) } else { twox_hash::XxHash64::oneshot(0, bytes) }
}

#[inline(always)]
fn hash_short(bytes: &[u8]) -> u64 {
    let mut hash = P5.wrapping_add(bytes.len() as u64);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        hash = mix_8(hash, u64::from_le_bytes(*word));
    }
    let (words, rest) = rest.as_chunks::<4>();
    for word in words {
        hash = mix_4(hash, u64::from(u32::from_le_bytes(*word)));
    }
    for byte in rest {
        hash = (hash ^ u64::from(*byte).wrapping_mul(P5)).rotate_left(11).wrapping_mul(P1);
    }
    avalanche(hash)
}

#[inline(always)]
fn mix_8(hash: u64, word: u64) -> u64 {
    let word = word.wrapping_mul(P2).rotate_left(31).wrapping_mul(P1);
    (hash ^ word).rotate_left(27).wrapping_mul(P1).wrapping_add(P4)
}

#[inline(always)]
fn mix_4(hash: u64, word: u64) -> u64 {
    (hash ^ word.wrapping_mul(P1)).rotate_left(23).wrapping_mul(P2).wrapping_add(P3)
}

#[inline(always)]
fn avalanche(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(P2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(P3);
    hash ^ (hash >> 32)
}

per_instruction_set! {
    /// Hashes many 4-byte values.
    pub fn hash_u32s(values: &[u32], hashes: &mut [u64]) = hash_u32s_body;
}
per_instruction_set! {
    /// Hashes many 8-byte values.
    pub fn hash_u64s(values: &[u64], hashes: &mut [u64]) = hash_u64s_body;
}

#[inline(always)]
fn hash_u32s_body(values: &[u32], hashes: &mut [u64]) {
    for (value, hash) in values.iter().zip(hashes) {
        *hash = hash_u32(*value);
    }
}

#[inline(always)]
fn hash_u64s_body(values: &[u64], hashes: &mut [u64]) {
    for (value, hash) in values.iter().zip(hashes) {
        *hash = hash_u64(*value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::InstructionSet;

    #[test]
    fn the_empty_string_has_its_published_hash() {
        assert_eq!(hash_bytes(b""), 0xef46_db37_51d8_e999);
    }

    #[test]
    fn every_length_agrees_with_twox_hash() {
        let bytes: Vec<u8> = (0..=255u8).cycle().take(600).map(|byte| byte.wrapping_mul(151)).collect();
        let last = if cfg!(miri) { 70 } else { bytes.len() };
        for start in 0..9 {
            for end in start..last {
                let slice = &bytes[start..end];
                assert_eq!(hash_bytes(slice), twox_hash::XxHash64::oneshot(0, slice), "bytes {start} to {end}");
            }
        }
    }

    #[test]
    fn numbers_hash_as_little_endian_bytes_on_every_instruction_set() {
        let values: Vec<u64> = (0..1000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let halves: Vec<u32> = values.iter().map(|value| (value >> 32) as u32).collect();
        for isa in InstructionSet::all() {
            let mut hashes = vec![0; values.len()];
            hash_u64s(isa, &values, &mut hashes);
            assert!(values.iter().zip(&hashes).all(|(value, hash)| hash_bytes(&value.to_le_bytes()) == *hash));
            hash_u32s(isa, &halves, &mut hashes);
            assert!(halves.iter().zip(&hashes).all(|(value, hash)| hash_bytes(&value.to_le_bytes()) == *hash));
        }
    }
}
