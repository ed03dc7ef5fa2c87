//! Repeats one operation on 4,096 values, so that `benches/python/instructions.py` can count its instructions.
#![allow(clippy::disallowed_methods, reason = "the program reads its arguments")]
#![allow(clippy::print_stdout, reason = "printing a result keeps the compiler from removing the work")]
#![allow(missing_docs, reason = "a program")]

use std::hint::black_box;

use parsieve::bloom::Sbbf;
use parsieve::hash::{hash_u32s, hash_u64s};
use parsieve::isa::InstructionSet;

const VALUES: u64 = 4096;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let operation = arguments.next().expect("an operation");
    let rounds = arguments.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(1);
    let isa = InstructionSet::detect();
    let wide: Vec<u64> = (0..VALUES).map(|value| value.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let narrow: Vec<u32> = (0..0x9e37_79b9_u32).step_by(648_056).take(wide.len()).collect();
    let mut hashes = vec![0; wide.len()];
    let mut answers = vec![0; wide.len() / 64];
    let mut filter = Sbbf::new(1024).expect("a filter of 32 KiB");
    hash_u64s(isa, &wide, &mut hashes);
    for _ in 0..rounds {
        match operation.as_str() {
            "hash-u32" => hash_u32s(isa, black_box(&narrow), &mut hashes),
            "hash-u64" => hash_u64s(isa, black_box(&wide), &mut hashes),
            "insert" => filter.insert_hashes(isa, black_box(&hashes)),
            "check" => filter.check_hashes(isa, black_box(&hashes), &mut answers),
            _ => panic!("unknown operation: {operation}"),
        }
    }
    println!("{:?}", black_box((hashes[1], answers[1], filter.bitset()[1])));
}
