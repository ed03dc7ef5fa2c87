//! Insert and check, with columns and with hashes, in filters that fit into the L2 cache, into the L3 cache, and into
//! neither.
//!
//! All split block filters have the same bits, so the answers of the peers are compared before anything is timed.

use super::data::{Column, Kind, each, scramble};
use super::floor::{FLOOR, FLOOR_WRITTEN, Memory};
use super::harness::{Case, Contender, size};
use super::hash::by_twox_hash;
use super::plan::Plan;
use super::record::Record;
use arrow_array::Array;
use fastbloom::BloomFilter;
use parquet::bloom_filter::Sbbf as ParquetSbbf;
use parquet::data_type::AsBytes;
use parsieve::bloom::batch::is_prefetched;
use parsieve::bloom::{Block, ColumnOptions, Filter, Sbbf};
use parsieve::isa::InstructionSet;
use std::cell::RefCell;
use std::hint::black_box;
use twox_hash::XxHash64;

const SIZES: [usize; 3] = [256 << 10, 8 << 20, 128 << 20];
const SMOKE_SIZES: [usize; 2] = [256 << 10, 2 << 20];

/// Offset of numbers whose values are never inserted.
const ABSENT: u64 = 1 << 40;
/// Offset of numbers whose hashes fill the filters for checks.
const FILLING: u64 = 1 << 41;
/// Bits per value at a false positive rate of 1% (section 3.3 of the specification).
const BITS_FOR_A_VALUE: f64 = 10.53;
/// Number of hash functions of a classic Bloom filter at 1%.
const CLASSIC_HASHES: u32 = 7;

pub(crate) fn run(plan: &Plan, record: &mut Record) {
    for num_bytes in if plan.smoke { &SMOKE_SIZES[..] } else { &SIZES } {
        let filled = filled(plan, *num_bytes);
        for kind in Kind::ALL {
            let bench = Bench {
                plan,
                num_bytes: *num_bytes,
                values: kind.name(),
                num_values: num_values(plan, kind, *num_bytes),
            };
            let column = Column::new(kind, 0..bench.num_values as u64);
            record.cases.push(bench.insert(&column));
            if kind == Kind::Int64 {
                record.cases.push(Bench { values: "hashes", ..bench }.insert_hashes(&by_twox_hash(&column)));
            }
            bench.check(&column, kind, &filled, &mut record.cases);
        }
    }
}

/// Returns the number of values: enough to access a large part of the filter, but few enough that the column stays in
/// the cache, as a reader's batches do.
fn num_values(plan: &Plan, kind: Kind, num_bytes: usize) -> usize {
    plan.num_values(match (num_bytes >> 20, kind) {
        (0, _) => 1 << 17,
        (1..=8, _) => 1 << 20,
        (_, Kind::Int64 | Kind::Text16) => 1 << 22,
        _ => 1 << 21,
    })
}

/// Returns a filter that has a false positive rate of 1% once a check has inserted its own values.
fn filled(plan: &Plan, num_bytes: usize) -> Sbbf {
    let ndv = (num_bytes as f64 * 8.0 / BITS_FOR_A_VALUE) as u64;
    let ndv = ndv.saturating_sub(num_values(plan, Kind::Int64, num_bytes) as u64);
    let mut sbbf = empty(num_bytes);
    let mut hashes = Vec::with_capacity(1 << 16);
    for start in (0..ndv).step_by(1 << 16) {
        hashes.clear();
        hashes.extend((start..ndv.min(start + (1 << 16))).map(|number| scramble(FILLING + number)));
        sbbf.insert_hashes(InstructionSet::detect(), &hashes);
    }
    sbbf
}

fn empty(num_bytes: usize) -> Sbbf {
    Sbbf::new((num_bytes / Block::BYTES) as u64).expect("a size of the format")
}

fn options(isa: InstructionSet) -> ColumnOptions<'static> {
    ColumnOptions { isa, ..ColumnOptions::default() }
}

fn parsieve_name(isa: InstructionSet) -> String {
    format!("parsieve {}", isa.name())
}

#[derive(Clone, Copy)]
struct Bench<'a> {
    plan: &'a Plan,
    num_bytes: usize,
    values: &'static str,
    num_values: usize,
}

impl Bench<'_> {
    fn case(&self, operation: &'static str, peer: &'static str) -> Case {
        let Self { values, num_values, .. } = *self;
        Case { operation, values, num_bytes: Some(self.num_bytes), num_values, peer, timings: vec![] }
    }

    fn describe(&self, isa: InstructionSet) -> String {
        format!("{} in {} on {}", self.values, size(self.num_bytes), isa.name())
    }

    fn insert(&self, column: &Column) -> Case {
        let (mut parquet, mut sbbf_rs, mut fastbloom) = self.empty_peers();
        each!(column, |value| {
            parquet.insert(value);
            sbbf_rs.insert_hash(XxHash64::oneshot(0, value.as_bytes()));
            fastbloom.insert(value);
        });
        let mut bitset = vec![];
        parquet.write_bitset(&mut bitset).expect("writing to memory cannot fail");
        assert!(sbbf_rs.as_bytes() == bitset, "sbbf-rs-safe sets different bits than parquet");
        each!(column, |value| assert!(fastbloom.contains(value)));
        for isa in &self.plan.isas {
            let mut filter = Filter::new(empty(self.num_bytes), None);
            filter.insert(&column.array, options(*isa)).expect("values of Parquet");
            assert!(filter.sbbf().bitset() == bitset, "different bits than parquet: {}", self.describe(*isa));
        }

        let filter = RefCell::new(Filter::new(empty(self.num_bytes), None));
        let mut contenders = vec![
            Contender::new("parquet", || each!(column, |value| parquet.insert(value))),
            Contender::new("sbbf-rs-safe", || {
                each!(column, |value| _ = sbbf_rs.insert_hash(XxHash64::oneshot(0, value.as_bytes())));
            }),
            Contender::new("fastbloom", || each!(column, |value| _ = fastbloom.insert(value))),
        ];
        for isa in &self.plan.isas {
            let filter = &filter;
            contenders.push(Contender::new(parsieve_name(*isa), move || {
                filter.borrow_mut().insert(&column.array, options(*isa)).expect("values of Parquet");
            }));
        }
        self.case("insert", "parquet").race(self.plan, contenders)
    }

    fn insert_hashes(&self, hashes: &[u64]) -> Case {
        let (_, mut sbbf_rs, mut fastbloom) = self.empty_peers();
        for hash in hashes {
            sbbf_rs.insert_hash(*hash);
        }
        for isa in &self.plan.isas {
            let mut sbbf = empty(self.num_bytes);
            sbbf.insert_hashes(*isa, hashes);
            assert!(sbbf.bitset() == sbbf_rs.as_bytes(), "different bits than sbbf-rs-safe: {}", self.describe(*isa));
        }

        let sbbf = RefCell::new(empty(self.num_bytes));
        let memory = RefCell::new(Memory::new(self.num_bytes));
        let mut contenders = vec![
            Contender::new("sbbf-rs-safe", || {
                for hash in hashes {
                    sbbf_rs.insert_hash(*hash);
                }
            }),
            Contender::new("fastbloom", || {
                for hash in hashes {
                    fastbloom.insert_hash(*hash);
                }
            }),
        ];
        for isa in &self.plan.isas {
            let sbbf = &sbbf;
            contenders.push(Contender::new(parsieve_name(*isa), move || sbbf.borrow_mut().insert_hashes(*isa, hashes)));
        }
        if is_prefetched(self.num_bytes / Block::BYTES) {
            contenders.push(Contender::new(FLOOR, || _ = black_box(memory.borrow_mut().read(hashes))));
            contenders.push(Contender::new(FLOOR_WRITTEN, || memory.borrow_mut().write(hashes)));
        }
        self.case("insert", "sbbf-rs-safe").race(self.plan, contenders)
    }

    fn check(&self, column: &Column, kind: Kind, filled: &Sbbf, cases: &mut Vec<Case>) {
        let mut filter = Filter::new(filled.try_clone().expect("memory"), None);
        filter.insert(&column.array, ColumnOptions::default()).expect("values of Parquet");
        let bitset = filter.sbbf().bitset();
        let peers = (
            ParquetSbbf::new(bitset),
            sbbf_rs_safe::Filter::from_bytes(bitset).expect("whole blocks"),
            self.fastbloom_with(column),
        );

        let numbers = 0..self.num_values as u64;
        // A random half of the probes is present, so branches on the answer are mispredicted as often as possible.
        let half = |number| if scramble(number) & 1 == 0 { number } else { ABSENT + number };
        let probes = Column::new(kind, numbers.clone().map(half));
        cases.push(self.check_probes("check", &filter, &peers, &probes));
        if kind == Kind::Int64 {
            cases.push(self.check_probes("check present", &filter, &peers, column));
            let absent = Column::new(kind, numbers.map(|number| ABSENT + number));
            cases.push(self.check_probes("check absent", &filter, &peers, &absent));
            let bench = Bench { values: "hashes", ..*self };
            cases.push(bench.check_hashes(filter.sbbf(), &peers.1, &by_twox_hash(&probes)));
        }
    }

    fn check_probes(&self, operation: &'static str, filter: &Filter, peers: &Peers, probes: &Column) -> Case {
        let (parquet, sbbf_rs, fastbloom) = peers;
        let mut expected = Vec::with_capacity(self.num_values);
        each!(probes, |value| expected.push(parquet.check(value)));
        let mut sbbf_rs_answers = Vec::with_capacity(self.num_values);
        each!(probes, |value| sbbf_rs_answers.push(sbbf_rs.contains_hash(XxHash64::oneshot(0, value.as_bytes()))));
        assert!(sbbf_rs_answers == expected, "sbbf-rs-safe gives different answers than parquet");
        if operation == "check present" {
            assert!(expected.iter().all(|answer| *answer), "a false negative");
            each!(probes, |value| assert!(fastbloom.contains(value), "a false negative"));
        }
        for isa in &self.plan.isas {
            let answers = filter.check(&probes.array, options(*isa)).expect("values of Parquet");
            assert!(answers.values().iter().eq(expected.iter().copied()), "different answers: {}", self.describe(*isa));
        }

        let mut contenders = vec![
            Contender::new("parquet", || each!(probes, |value| _ = black_box(parquet.check(value)))),
            Contender::new("sbbf-rs-safe", || {
                each!(probes, |value| _ = black_box(sbbf_rs.contains_hash(XxHash64::oneshot(0, value.as_bytes()))));
            }),
            Contender::new("fastbloom", || each!(probes, |value| _ = black_box(fastbloom.contains(value)))),
        ];
        for isa in &self.plan.isas {
            contenders.push(Contender::new(parsieve_name(*isa), || {
                _ = black_box(filter.check(&probes.array, options(*isa)).expect("values of Parquet"));
            }));
        }
        self.case(operation, "parquet").race(self.plan, contenders)
    }

    fn check_hashes(&self, sbbf: &Sbbf, sbbf_rs: &sbbf_rs_safe::Filter, hashes: &[u64]) -> Case {
        let words = hashes.len().div_ceil(64);
        let mut expected = vec![0; words];
        for (slot, hash) in hashes.iter().enumerate() {
            expected[slot / 64] |= u64::from(sbbf_rs.contains_hash(*hash)) << (slot % 64);
        }
        for isa in &self.plan.isas {
            let mut answers = vec![0; words];
            sbbf.check_hashes(*isa, hashes, &mut answers);
            assert!(answers == expected, "different answers: {}", self.describe(*isa));
        }

        let mut contenders = vec![Contender::new("sbbf-rs-safe", || {
            for hash in hashes {
                black_box(sbbf_rs.contains_hash(*hash));
            }
        })];
        for isa in &self.plan.isas {
            let mut answers = vec![0; words];
            contenders.push(Contender::new(parsieve_name(*isa), move || {
                sbbf.check_hashes(*isa, hashes, &mut answers);
                black_box(&mut answers);
            }));
        }
        self.case("check", "sbbf-rs-safe").race(self.plan, contenders)
    }

    fn empty_peers(&self) -> Peers {
        (
            ParquetSbbf::new_with_num_of_bytes(self.num_bytes),
            sbbf_rs_safe::Filter::from_bytes(&vec![0; self.num_bytes]).expect("whole blocks"),
            BloomFilter::with_num_bits(self.num_bytes * 8).seed(&1).hashes(CLASSIC_HASHES),
        )
    }

    /// Returns a filter in which half of the bits are set, as in a full classic filter.
    fn fastbloom_with(&self, column: &Column) -> BloomFilter {
        let words = (0..self.num_bytes as u64 / 8).map(|number| scramble(FILLING + number)).collect();
        let mut filter = BloomFilter::from_vec(words).seed(&1).hashes(CLASSIC_HASHES);
        each!(column, |value| _ = filter.insert(value));
        filter
    }
}

type Peers = (ParquetSbbf, sbbf_rs_safe::Filter, BloomFilter);
