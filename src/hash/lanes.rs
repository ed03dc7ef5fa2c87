//! XXH64 of eight byte strings at once, one per lane of an AVX-512 register. Tests compare it with the portable code.
//!
//! ```text
//! eight strings          a 32-byte window of each       four registers: word w of every string
//! s0 ────────            s0: w0 w1 w2 w3                w0: s0 s1 … s7
//! s1 ───          load   s1: w0 w1 w2 w3    transpose   w1: s0 s1 … s7
//! …                      …                              …
//! ```
//! Whole 32-byte stripes come first, as long as any lane has one. Then follow the last 0 to 31 bytes, masked by each
//! lane's length. Masked loads access no byte outside a string, so a string may end at the end of a memory page.

use super::xxh64::{P1, P2, P3, P4, P5};
use std::arch::x86_64::*;

/// Number of strings hashed together.
pub(super) const LANES: usize = 8;

/// # Safety
/// The processor must support the features below.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2")]
pub(super) unsafe fn hash_eight(strings: &[&[u8]; LANES]) -> [u64; LANES] {
    let [a, b, c, d, e, f, g, h] = strings.map(|string| string.len() as i64);
    // Built from registers. Loading eight lengths that were just stored one by one would stall on store forwarding.
    let length = _mm512_setr_epi64(a, b, c, d, e, f, g, h);
    let mut hash = splat(P5);
    if _mm512_cmpge_epu64_mask(length, splat(32)) != 0 {
        // SAFETY: the caller guarantees the features.
        hash = unsafe { stripes(strings, length) };
    }
    hash = _mm512_add_epi64(hash, length);

    let rest = _mm512_and_si512(length, splat(31));
    // SAFETY: as above, and each window ends at the end of its string.
    let words = unsafe {
        transpose(strings.map(|string| {
            let rest = string.len() & 31;
            load(string.as_ptr().wrapping_add(string.len() - rest), rest)
        }))
    };
    for (i, word) in words.iter().take(3).enumerate() {
        let has = _mm512_cmpge_epu64_mask(rest, splat(8 * (i as u64 + 1)));
        if has == 0 {
            break;
        }
        let mixed = mul(rotate::<27>(_mm512_xor_si512(hash, round(_mm512_setzero_si512(), *word))), P1);
        hash = _mm512_mask_add_epi64(hash, has, mixed, splat(P4));
    }
    if _mm512_test_epi64_mask(rest, splat(7)) != 0 {
        hash = tail(hash, rest, &words);
    }

    hash = mul(_mm512_xor_si512(hash, _mm512_srli_epi64::<33>(hash)), P2);
    hash = mul(_mm512_xor_si512(hash, _mm512_srli_epi64::<29>(hash)), P3);
    hash = _mm512_xor_si512(hash, _mm512_srli_epi64::<32>(hash));
    let mut hashes = [0; LANES];
    // SAFETY: `hashes` has room for eight u64, which are 64 bytes.
    unsafe { _mm512_storeu_si512(hashes.as_mut_ptr().cast(), hash) };
    hashes
}

/// Returns the four merged accumulators over all whole stripes, or `P5` in lanes without a whole stripe.
///
/// # Safety
/// As for [`hash_eight`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2")]
unsafe fn stripes(strings: &[&[u8]; LANES], length: __m512i) -> __m512i {
    let mut lanes = [splat(P1.wrapping_add(P2)), splat(P2), splat(0), splat(0u64.wrapping_sub(P1))];
    let longest = _mm512_reduce_max_epu64(length) / 32;
    for stripe in 0..longest {
        let start = 32 * stripe as usize;
        let active = _mm512_cmpge_epu64_mask(length, splat(32 * (stripe + 1)));
        // SAFETY: a window is loaded only if the string contains all of it; otherwise the mask is empty.
        let words = unsafe {
            transpose(strings.map(|string| {
                let count = if string.len() >= start + 32 { 32 } else { 0 };
                load(string.as_ptr().wrapping_add(start), count)
            }))
        };
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = _mm512_mask_mov_epi64(*lane, active, round(*lane, word));
        }
    }
    let mut merged = _mm512_add_epi64(
        _mm512_add_epi64(rotate::<1>(lanes[0]), rotate::<7>(lanes[1])),
        _mm512_add_epi64(rotate::<12>(lanes[2]), rotate::<18>(lanes[3])),
    );
    for lane in lanes {
        let mixed = mul(_mm512_xor_si512(merged, round(_mm512_setzero_si512(), lane)), P1);
        merged = _mm512_add_epi64(mixed, splat(P4));
    }
    _mm512_mask_mov_epi64(splat(P5), _mm512_cmpge_epu64_mask(length, splat(32)), merged)
}

/// Mixes in the last 1 to 7 bytes of each lane. They are in the word after the lane's last whole word.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2")]
fn tail(mut hash: __m512i, rest: __m512i, words: &[__m512i; 4]) -> __m512i {
    let which = _mm512_srli_epi64::<3>(rest);
    let mut last = words[0];
    for (i, word) in words.iter().enumerate().skip(1) {
        last = _mm512_mask_mov_epi64(last, _mm512_cmpeq_epi64_mask(which, splat(i as u64)), *word);
    }
    let four = _mm512_test_epi64_mask(rest, splat(4));
    let low = _mm512_and_si512(last, splat(0xffff_ffff));
    let mixed = mul(rotate::<23>(_mm512_xor_si512(hash, mul(low, P1))), P2);
    hash = _mm512_mask_add_epi64(hash, four, mixed, splat(P3));
    last = _mm512_mask_srli_epi64::<32>(last, four, last);
    let singles = _mm512_and_si512(rest, splat(3));
    for i in 0..3 {
        let has = _mm512_cmpgt_epu64_mask(singles, splat(i));
        if has == 0 {
            break;
        }
        let byte = _mm512_and_si512(last, splat(0xff));
        let mixed = mul(rotate::<11>(_mm512_xor_si512(hash, mul(byte, P5))), P1);
        hash = _mm512_mask_mov_epi64(hash, has, mixed);
        last = _mm512_srli_epi64::<8>(last);
    }
    hash
}

/// Loads the first `count` (at most 32) bytes from `start` and pads them with zeros. Accesses no other byte.
///
/// # Safety
/// As for [`hash_eight`]. In addition, `count` bytes from `start` must be readable.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2")]
unsafe fn load(start: *const u8, count: usize) -> __m256i {
    let mask = ((1u64 << count) - 1) as u32;
    // SAFETY: a masked load does not access bytes outside the mask.
    unsafe { _mm256_maskz_loadu_epi8(mask, start.cast()) }
}

/// Transposes rows of four words into columns of eight lanes.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,bmi2")]
fn transpose(rows: [__m256i; LANES]) -> [__m512i; 4] {
    // Rows r and r + 4 share a register, because both halves are transposed in the same way.
    let pair = |r: usize| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(rows[r]), rows[r + 4]);
    let (a, b, c, d) = (pair(0), pair(1), pair(2), pair(3));
    let (even_ab, odd_ab) = (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    let (even_cd, odd_cd) = (_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d));
    let first = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
    let second = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
    [
        _mm512_permutex2var_epi64(even_ab, first, even_cd),
        _mm512_permutex2var_epi64(odd_ab, first, odd_cd),
        _mm512_permutex2var_epi64(even_ab, second, even_cd),
        _mm512_permutex2var_epi64(odd_ab, second, odd_cd),
    ]
}

#[target_feature(enable = "avx512f")]
fn splat(value: u64) -> __m512i {
    _mm512_set1_epi64(value.cast_signed())
}

#[target_feature(enable = "avx512f,avx512dq")]
fn mul(a: __m512i, factor: u64) -> __m512i {
    _mm512_mullo_epi64(a, splat(factor))
}

#[target_feature(enable = "avx512f")]
fn rotate<const LEFT: i32>(a: __m512i) -> __m512i {
    _mm512_rol_epi64::<LEFT>(a)
}

#[target_feature(enable = "avx512f,avx512dq")]
fn round(lane: __m512i, word: __m512i) -> __m512i {
    mul(rotate::<31>(_mm512_add_epi64(lane, mul(word, P2))), P1)
}
