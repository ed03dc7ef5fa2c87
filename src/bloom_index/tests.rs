//! Tests of shelves.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array};
use proptest::prelude::*;

use super::*;
use crate::hash::hash_u64;

const COLUMN: &str = "INT64 integer";

fn member(number: usize) -> Member {
    Member { partition: format!("day={}", number % 3), group: format!("{number}"), ..Member::default() }
}

/// Builds a shelf from the values of each location. A location without values has no filter.
fn shelf(values: &[Vec<i64>]) -> (Shelf, Vec<u8>) {
    let filters = values.iter().enumerate().map(|(number, values)| {
        let filter = (!values.is_empty()).then(|| {
            let mut filter = Sbbf::new(shelf_blocks(to_u64(values.len()).div_ceil(12))).unwrap();
            values.iter().for_each(|value| filter.insert_hash(hash_u64(value.cast_unsigned())));
            filter
        });
        (member(number), vec![filter])
    });
    Shelf::arrange(COLUMN.parse().unwrap(), filters.collect()).unwrap()
}

/// Builds a shelf from the values of each row group of each location.
fn divided(values: &[Vec<Vec<i64>>]) -> (Shelf, Vec<u8>) {
    let filters = values.iter().enumerate().map(|(number, units)| {
        let filter = |values: &Vec<i64>| {
            (!values.is_empty()).then(|| {
                let mut filter = Sbbf::new(4).unwrap();
                values.iter().for_each(|value| filter.insert_hash(hash_u64(value.cast_unsigned())));
                filter
            })
        };
        let row_groups = units.iter().map(|unit| to_u64(unit.len())).collect();
        (Member { row_groups, ..member(number) }, units.iter().map(filter).collect())
    });
    Shelf::arrange(COLUMN.parse().unwrap(), filters.collect()).unwrap()
}

fn probe(values: &[i64]) -> Probe {
    Probe::new(&(Arc::new(Int64Array::from(values.to_vec())) as ArrayRef), COLUMN.parse().unwrap()).unwrap()
}

/// An answer with a flag for each unit.
struct Flags {
    may_contain: Vec<bool>,
    damaged: u64,
}

impl Flags {
    fn of(shelf: &Shelf, answer: ShelfAnswer) -> Self {
        let is_kept = |unit| answer.kept.iter().any(|units| units.contains(&unit));
        Self { may_contain: (0..shelf.num_units()).map(is_kept).collect(), damaged: answer.damaged }
    }
}

/// Answers a query, reading rows by range. Also returns the number of bytes read.
fn look_up(shelf: &Shelf, rows: &[u8], probe: &Probe) -> (Flags, u64) {
    let mut fetched = Fetched::new();
    let mut read = 0;
    loop {
        match shelf.might_contain(probe, &fetched) {
            Step::Ready(answer) => return (Flags::of(shelf, answer), read),
            Step::Need(ranges) => {
                for range in ranges {
                    read += range.end - range.start;
                    let bytes = &rows[to_usize(range.start).unwrap()..to_usize(range.end).unwrap()];
                    fetched.insert(range.start, bytes.to_vec());
                }
            }
        }
    }
}

#[test]
fn rounded_sizes_are_few_and_at_most_a_quarter_larger() {
    let mut sizes: Vec<u64> = (1..=4096).map(shelf_blocks).collect();
    for (requested, size) in (1..).zip(&sizes) {
        assert!(requested <= *size && size * 4 <= requested * 5 + 3, "{requested} -> {size}");
    }
    sizes.dedup();
    assert!(sizes.is_sorted() && sizes.len() <= 46, "{}", sizes.len());
    assert_eq!(shelf_blocks(0), 1);
    assert_eq!(shelf_blocks(Sbbf::MAX_BLOCKS), Sbbf::MAX_BLOCKS);
}

#[test]
fn a_point_lookup_reads_one_row_per_size_class() {
    let values: Vec<Vec<i64>> = (0..100).map(|location| (0..1000).map(|n| n * 100 + location).collect()).collect();
    let (shelf, rows) = shelf(&values);
    assert_eq!(to_u64(rows.len()), shelf.rows_len());
    let (answer, read) = look_up(&shelf, &rows, &probe(&[4217]));
    assert!(answer.may_contain[17]);
    assert!(answer.may_contain.iter().filter(|may| **may).count() < 10);
    assert_eq!(read, 100 * 32 + 4);
}

#[test]
fn empty_uncertain_and_nan_locations_answer_correctly() {
    let column = "DOUBLE real".parse().unwrap();
    let full = || Some(Sbbf::new(1).unwrap());
    let flags = |nans, unknown| Member { nans, unknown, ..Member::default() };
    let members =
        vec![(flags(false, false), vec![None]), (flags(true, false), vec![full()]), (flags(false, true), vec![None])];
    let (shelf, rows) = Shelf::arrange(column, members).unwrap();
    let query = Probe::new(&(Arc::new(Float64Array::from(vec![1.0])) as ArrayRef), column).unwrap();
    assert_eq!(look_up(&shelf, &rows, &query).0.may_contain, [false, true, true]);
    assert_eq!(look_up(&shelf, &rows, &Probe::ANYTHING).0.may_contain, [true; 3]);
    assert_eq!(look_up(&shelf, &rows, &Probe::NOTHING).0.may_contain, [false, true, true]);
    assert_eq!(Shelf::read(&shelf.write()), Ok(shelf));
}

#[test]
fn filters_read_back_from_their_shelf() {
    let values: Vec<Vec<i64>> = vec![vec![1, 2, 3], vec![], (5..90).collect(), (0..2000).collect()];
    let (shelf, rows) = shelf(&values);
    let filters = shelf.unshelve(&rows).unwrap();
    assert_eq!(filters.iter().map(|(_, filters)| filters[0].is_some()).collect::<Vec<_>>(), [true, false, true, true]);
    assert_eq!(Shelf::arrange(shelf.column(), filters).unwrap(), (shelf.clone(), rows.clone()));
    let mut damaged = rows.clone();
    damaged[40] ^= 1;
    assert!(shelf.unshelve(&damaged).is_err());
    assert!(shelf.unshelve(&rows[1..]).is_err());
}

#[test]
fn units_have_the_rows_of_a_sieve_index_and_cannot_claim_all_memory() {
    let units = |row_groups: &[u64], rows_per_unit| {
        Member { row_groups: row_groups.to_vec(), rows_per_unit, ..Member::default() }.num_units()
    };
    assert_eq!([units(&[], 0), units(&[7], 0), units(&[60_000, 10], 20_000)], [1, 1, 4]);
    let claim = Member { row_groups: vec![u64::MAX >> 1], rows_per_unit: 1, ..Member::default() };
    assert!(count_units(std::slice::from_ref(&claim)).is_err());
    let of_units = |units| Member { row_groups: vec![1; units], ..Member::default() };
    assert!(count_units(&[of_units(8192), of_units(8192)]).is_ok());
    assert!(count_units(&[of_units(8193)]).is_err());
    let shelf = Shelf { column: COLUMN.parse().unwrap(), members: vec![claim], num_units: 0, classes: vec![] };
    assert!(Shelf::read(&shelf.write()).is_err());
}

#[test]
fn claimed_units_cost_nothing() {
    let of_claim =
        |unknown| Member { row_groups: vec![8192 * 50_000], rows_per_unit: 50_000, unknown, ..Member::default() };
    let members: Vec<_> = (0..8192).map(|number| of_claim(number % 2 == 1)).collect();
    let class = SizeClass { num_blocks: 1, offset: 0, members: vec![5] };
    let nothing = SizeClass { num_blocks: 1, offset: class.row_len(), members: vec![] };
    let num_units = count_units(&members).unwrap();
    let column = COLUMN.parse().unwrap();
    let shelf = Shelf { column, members, num_units, classes: vec![class, nothing] };
    assert_eq!(to_u64(num_units), MAX_UNITS);
    let shelf = Shelf::read(&shelf.write()).unwrap();
    let Step::Need(needed) = shelf.might_contain(&probe(&[7]), &Fetched::new()) else { panic!("no row was read") };
    assert_eq!((needed.len(), &needed[0]), (1, &(0..36)));
    let mut fetched = Fetched::new();
    fetched.insert(0, vec![0; 36]);
    let Step::Ready(answer) = shelf.might_contain(&probe(&[7]), &fetched) else { panic!("more rows are needed") };
    assert_eq!((answer.kept.len(), answer.damaged), (1 + 4096, 1));
    assert_eq!(answer.kept[..2], [5..6, 8192..16_384]);
    let Step::Ready(all) = shelf.might_contain(&Probe::ANYTHING, &fetched) else { panic!("no row is needed") };
    assert_eq!((all.kept.len(), &all.kept[0]), (1, &(0..MAX_UNITS)));
    assert!(shelf.unshelve(&[0; 40]).is_err());
}

#[test]
fn joined_ranges_neither_overlap_nor_touch() {
    assert_eq!(joined(vec![7..9, 0..0, 3..4, 4..5, 8..10, 1..2]), [1..2, 3..5, 7..10]);
    assert_eq!(joined(vec![0..9, 2..3, 9..9, 20..21]), [0..9, 20..21]);
}

#[test]
fn a_flipped_byte_never_loses_a_location() {
    let values: Vec<Vec<i64>> = vec![vec![1, 2, 3], vec![4], vec![], (5..90).collect()];
    let (shelf, rows) = shelf(&values);
    let directory = shelf.write();
    assert_eq!(&directory[..4], MAGIC);
    for at in 0..directory.len() {
        let mut damaged = directory.clone();
        damaged[at] ^= 0x10;
        assert!(Shelf::read(&damaged).is_err(), "byte {at} of the directory");
        assert!(Shelf::read(&directory[..at]).is_err());
    }
    let query = probe(&[1, 4, 5]);
    let expected = look_up(&shelf, &rows, &query).0;
    assert_eq!((&expected.may_contain[..], expected.damaged), (&[true, true, false, true][..], 0));
    for at in 0..rows.len() {
        let mut damaged = rows.clone();
        damaged[at] ^= 1;
        let answer = look_up(&shelf, &damaged, &query).0.may_contain;
        assert!(answer.iter().zip(&expected.may_contain).all(|(may, did)| may >= did), "byte {at} of the rows");
    }
}

proptest! {
    #[test]
    fn no_value_is_ever_lost(values in prop::collection::vec(prop::collection::vec(0i64..500, 0..300), 0..20)) {
        let (shelf, rows) = shelf(&values);
        let shelf = Shelf::read(&shelf.write()).unwrap();
        for queried in [vec![7], vec![0, 250, 499], (0..500).step_by(50).collect()] {
            let (answer, _) = look_up(&shelf, &rows, &probe(&queried));
            for (may, values) in answer.may_contain.iter().zip(&values) {
                prop_assert!(*may || !values.iter().any(|value| queried.contains(value)));
            }
        }
    }

    #[test]
    fn random_directories_are_rejected_or_round_trip(
        mut body in prop::collection::vec(any::<u8>(), 0..200), with_units in any::<bool>(),
    ) {
        let mut bytes = if with_units { MAGIC_WITH_UNITS } else { MAGIC }.to_vec();
        bytes.append(&mut body);
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        if let Ok(shelf) = Shelf::read(&bytes) {
            prop_assert_eq!(Shelf::read(&shelf.write()), Ok(shelf));
        }
    }

    #[test]
    fn no_value_of_a_unit_is_ever_lost(
        values in prop::collection::vec(prop::collection::vec(prop::collection::vec(0i64..50, 0..9), 1..5), 1..6),
        queried in 0i64..50,
    ) {
        let (shelf, rows) = divided(&values);
        prop_assert_eq!(Shelf::read(&shelf.write()), Ok(shelf.clone()));
        let (answer, _) = look_up(&shelf, &rows, &probe(&[queried]));
        prop_assert_eq!(answer.may_contain.len(), values.iter().map(Vec::len).sum::<usize>());
        for (may, values) in answer.may_contain.iter().zip(values.iter().flatten()) {
            prop_assert!(*may || !values.contains(&queried));
        }
        let filters = shelf.unshelve(&rows).unwrap();
        prop_assert_eq!(Shelf::arrange(shelf.column(), filters).unwrap(), (shelf, rows));
    }
}
