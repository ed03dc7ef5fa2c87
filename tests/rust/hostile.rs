//! Damaged bytes through every fuzz target, without a fuzzer: seeds with flipped, lost, doubled and invented bytes.

use crate::fuzz::memory::{BOUND, bounded, peak_of};
use crate::fuzz::{TARGETS, Target, seeds};

/// Damaged inputs for each target; `make fuzz` makes millions.
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

/// What numbers in foreign bytes like to claim.
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
    for turn in 0..DAMAGES {
        let data = damage(&seeds[turn % seeds.len()], random);
        // A panic names the input that made it.
        let answered = std::panic::catch_unwind(|| bounded(&data, run));
        assert!(answered.is_ok(), "{name}, damage {turn}: {data:02x?}");
    }
}

#[test]
fn damaged_seeds_of_every_target_are_answered_or_refused() {
    std::thread::scope(|scope| TARGETS.into_iter().for_each(|target| drop(scope.spawn(move || replay(target)))));
}

#[test]
fn inputs_that_fuzzing_found() {
    for (name, data) in FOUND {
        let (_, run) = TARGETS.into_iter().find(|target| target.0 == *name).expect("a target");
        bounded(data, run);
    }
}

/// Each made a target fail once.
const FOUND: &[(&str, &[u8])] = &[];

#[test]
fn the_bound_can_fail() {
    assert!(peak_of(|| drop(vec![1u8; BOUND])) >= BOUND);
    assert!(peak_of(|| drop(vec![0u8; 100])) < 10_000);
    let greedy = |_: &[u8]| drop(std::hint::black_box(Vec::<u8>::with_capacity(BOUND * 2)));
    assert!(std::panic::catch_unwind(|| bounded(&[], greedy)).is_err());
}
