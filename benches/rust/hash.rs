//! XXH64 of a column, compared with twox-hash in a plain loop.

use super::data::{Column, Kind, each};
use super::harness::{Case, Contender};
use super::plan::Plan;
use super::record::Record;
use arrow_array::Array;
use parquet::data_type::AsBytes;
use parsieve::arrow::{ColumnType, Leaf};
use parsieve::hash::HashedColumn;
use parsieve::hash::column::BATCH;
use parsieve::isa::InstructionSet;
use std::hint::black_box;
use twox_hash::XxHash64;

pub(crate) fn run(plan: &Plan, record: &mut Record) {
    // An int64 column of this length stays in the L2 cache, so the bench measures hashing instead of memory.
    let num_values = plan.num_values(1 << 17);
    for kind in Kind::ALL {
        let column = Column::new(kind, 0..num_values as u64);
        let expected = by_twox_hash(&column);
        let mut contenders = vec![Contender::new("twox-hash", || {
            // Stores the hashes in a buffer of one batch, as parsieve does.
            let mut batch = [0; BATCH];
            let mut index = 0;
            each!(column, |value| {
                batch[index % BATCH] = XxHash64::oneshot(0, value.as_bytes());
                index += 1;
            });
            black_box(batch);
        })];
        for isa in &plan.isas {
            let mut hashes = vec![];
            for_each_batch(&column, *isa, |batch| hashes.extend_from_slice(batch));
            assert_eq!(hashes, expected, "{} on {}", kind.name(), isa.name());
            contenders.push(Contender::new(format!("parsieve {}", isa.name()), || {
                for_each_batch(&column, *isa, |batch| _ = black_box(batch));
            }));
        }
        let case = Case {
            operation: "hash",
            values: kind.name(),
            num_bytes: None,
            num_values,
            peer: "twox-hash",
            timings: vec![],
        };
        record.cases.push(case.race(plan, contenders));
    }
}

pub(crate) fn by_twox_hash(column: &Column) -> Vec<u64> {
    let mut hashes = Vec::with_capacity(column.array.len());
    each!(column, |value| hashes.push(XxHash64::oneshot(0, value.as_bytes())));
    hashes
}

fn for_each_batch(column: &Column, isa: InstructionSet, take: impl FnMut(&[u64])) {
    let leaf = Leaf::find(&column.array, None).expect("a flat column");
    let to = ColumnType::of(leaf.array.data_type()).expect("a type of Parquet");
    let hashed = HashedColumn::of_values(&leaf, to, isa).expect("values of Parquet");
    hashed.for_each_batch(isa, 0..hashed.len(), take).expect("values of Parquet");
}
