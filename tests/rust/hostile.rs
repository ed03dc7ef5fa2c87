//! Runs every fuzz target on damaged seeds, with changed, missing, repeated and inserted bytes.

use crate::fuzz::memory::{BOUND, bounded, peak_of};
use crate::fuzz::{TARGETS, Target, seeds};

/// Number of damaged inputs per target. `make fuzz` tries millions.
const DAMAGES: usize = 1500;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ x >> 31) % bound as u64) as usize
    }
}

/// Encoded numbers that are typical of malicious input.
const CLAIMS: [&[u8]; 6] = [
    b"\0",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\x7f",
    b"\x19\xfc\xff\xff\xff\xff\x07",
    b"\x80\x80\x04",
];

fn damage(seed: &[u8], random: &mut Random) -> Vec<u8> {
    let mut data = seed.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(data.len().max(1)).min(data.len());
        match random.below(6) {
            0 => data.truncate(at),
            1 => drop(data.splice(at..at, CLAIMS[random.below(CLAIMS.len())].iter().copied())),
            2 => {
                let end = (at + random.below(9)).min(data.len());
                drop(data.drain(at..end));
            }
            3 => {
                let copy = data[at..(at + random.below(40)).min(data.len())].to_vec();
                let to = random.below(data.len().max(1)).min(data.len());
                drop(data.splice(to..to, copy));
            }
            _ => {
                let flip = random.below(256) as u8;
                if let Some(byte) = data.get_mut(at) {
                    *byte ^= flip;
                }
            }
        }
    }
    data
}

fn replay((name, run): Target) {
    let random = &mut Random(1);
    let seeds = seeds::of(name);
    seeds.iter().for_each(|seed| bounded(seed, run));
    for round in 0..DAMAGES {
        let data = damage(&seeds[round % seeds.len()], random);
        // The message names the input that caused a panic.
        let result = std::panic::catch_unwind(|| bounded(&data, run));
        assert!(result.is_ok(), "{name}, damage {round}: {data:02x?}");
    }
}

/// Loads the debug information of this program, which the first backtrace of a process reads into memory. Otherwise it
/// would count as memory for the input that first makes the `parquet` crate panic.
fn load_debug_information() {
    drop(std::backtrace::Backtrace::force_capture().to_string());
}

#[test]
fn all_targets_handle_damaged_seeds() {
    load_debug_information();
    std::thread::scope(|scope| TARGETS.into_iter().for_each(|target| drop(scope.spawn(move || replay(target)))));
}

#[test]
fn all_targets_handle_inputs_found_by_fuzzing() {
    load_debug_information();
    for (name, data) in FOUND {
        let (_, run) = TARGETS.into_iter().find(|target| target.0 == *name).expect("a target");
        bounded(data, run);
    }
}

/// Inputs that once made a target fail.
#[rustfmt::skip]
const FOUND: &[(&str, &[u8])] = &[
    // A patch refuses unknown fields that are nested deeper than a reader accepts.
    ("footer", &[
        21, 2, 25, 76, 72, 12, 97, 114, 114, 111, 1, 0, 0, 3, 83, 101, 109, 97, 21, 6, 0, 21, 4, 37, 2, 24, 1, 97, 0,
        21, 12, 37, 0, 24, 1, 98, 0, 21, 0, 37, 0, 24, 4, 102, 108, 97, 103, 0, 22, 120, 25, 44, 25, 60, 38, 0, 28,
        21, 4, 25, 53, 0, 6, 16, 25, 24, 1, 97, 21, 2, 22, 60, 22, 4, 22, 2, 38, 65, 0, 0, 38, 0, 28, 21, 12, 25, 53,
        0, 6, 16, 25, 24, 1, 98, 21, 2, 22, 60, 22, 2, 22, 3, 38, 2, 0, 0, 38, 0, 28, 21, 0, 25, 6, 25, 24, 4, 102,
        108, 97, 103, 21, 2, 22, 60, 22, 42, 22, 46, 38, 4, 0, 0, 22, 60, 22, 0, 0, 25, 60, 38, 0, 28, 21, 4, 25, 53,
        0, 6, 16, 25, 24, 1, 97, 21, 2, 22, 60, 22, 4, 22, 2, 38, 7, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26,
        26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26,
        26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 26, 28, 24, 0, 0, 0, 0, 38, 0,
        28, 21, 12, 25, 53, 0, 6, 16, 25, 24, 1, 98, 21, 2, 22, 1, 38, 10, 38, 0, 0, 0, 38, 0, 28, 21, 0, 25, 6, 25,
        24, 4, 102, 108, 97, 103, 21, 2, 22, 60, 22, 42, 22, 46, 38, 94, 0, 0, 22, 6, 22, 60, 0, 0,
    ]),
    // The bound of a unit is longer than parsieve writes it.
    ("sieve_unit_delta", &[
        3, 5, 2, 58, 97, 182, 59, 186, 2, 2, 6, 6, 166, 6, 6, 6, 96, 6, 4, 0, 9, 18, 0, 0, 0, 107, 110, 121, 45, 48,
        48, 55, 50, 8, 0, 0, 6, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198,
        198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198,
        198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198,
        198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198, 198,
        198, 198, 198, 198, 198, 198, 198, 198, 255, 255, 255, 255, 255, 255, 255, 167, 43, 0, 0,
    ]),
    // Only a point reads the damaged block.
    ("sieve_segment", &[
        1, 4, 8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 212, 1, 0, 0, 0, 0,
        0, 0, 9, 63, 1, 0, 1, 1, 0, 190, 2, 0, 0, 1, 0, 183, 237, 103, 153, 18,
        213, 30, 146, 105, 190, 161, 118, 185, 106, 118, 140, 159, 120, 68, 78, 203, 167, 240, 243, 226,
        252, 71, 88, 247, 101, 198, 153, 213, 242, 57, 76, 191, 240, 248, 63,
    ]),
    // The directory sends keys to the segment that are outside of it.
    ("sieve_segment", &[
        3, 0, 4, 3, 5, 0, 1, 2, 3, 4, 6, 107, 101, 121, 45, 48, 48, 2, 4, 48, 49, 50, 51, 10, 48, 49, 50, 51, 52, 53,
        54, 55, 56, 57, 2, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 61, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 8, 3, 2, 1, 15, 124, 3, 0, 1, 0, 18, 52, 0, 4, 208, 3, 0, 223, 102, 160, 242, 21, 176, 32, 45, 17,
        0, 0, 2, 0, 1, 4, 0,
    ]),
];

#[test]
fn the_memory_bound_is_enforced() {
    assert!(peak_of(|| drop(vec![1u8; BOUND])) >= BOUND);
    assert!(peak_of(|| drop(vec![0u8; 100])) < 10_000);
    let greedy = |_: &[u8]| drop(std::hint::black_box(Vec::<u8>::with_capacity(BOUND * 2)));
    assert!(std::panic::catch_unwind(|| bounded(&[], greedy)).is_err());
}
