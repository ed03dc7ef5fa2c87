//! Shelves with a valid checksum. Either decoding fails, or the directory can be encoded again, and an answer keeps
//! every unit whose filter may contain the value.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array};
use parsieve::bloom::{Probe, Sbbf};
use parsieve::bloom_index::{Member, Shelf, shelf_blocks};
use parsieve::ranges::{Fetched, Step};

use super::sieve::{frame, unframe};

/// The type of the column in the seeds.
const COLUMN: &str = "INT64 integer";

/// Reads `data` as the version, the length of the body of a directory, that body, and rows.
pub fn run(data: &[u8]) {
    let Some((&[version, low, high], rest)) = data.split_first_chunk::<3>() else { return };
    let Some((body, rows)) = rest.split_at_checked(usize::from(u16::from_le_bytes([low, high]))) else { return };
    let magic = if version & 1 == 0 { b"BlS1" } else { b"BlS2" };
    let Ok(shelf) = Shelf::read(&frame(magic, body)) else { return };
    assert_eq!(Shelf::read(&shelf.write()).as_ref(), Ok(&shelf));
    let filters = shelf.unshelve(rows);
    for value in [7, 400] {
        let array = Arc::new(Int64Array::from(vec![value])) as ArrayRef;
        let Ok(probe) = Probe::new(&array, shelf.column()) else { return };
        let Some(kept) = look_up(&shelf, rows, &probe) else { return };
        assert!(kept.last().is_none_or(|units| units.end <= shelf.num_units()));
        assert!(kept.iter().all(|units| !units.is_empty()) && kept.windows(2).all(|pair| pair[0].end < pair[1].start));
        let (Ok(filters), Some(&[hash])) = (&filters, probe.hashes()) else { continue };
        let filters = filters.iter().flat_map(|(_, filters)| filters);
        for (unit, filter) in (0..).zip(filters) {
            let is_kept = || kept.iter().any(|units| units.contains(&unit));
            assert!(filter.as_ref().is_none_or(|filter| !filter.may_contain_hash(hash) || is_kept()));
        }
    }
}

/// Returns the units that are kept. Bytes behind the end of the rows are zero. None if a row is longer than any seed's.
fn look_up(shelf: &Shelf, rows: &[u8], probe: &Probe) -> Option<Vec<Range<u64>>> {
    let mut fetched = Fetched::new();
    for _ in 0..2 {
        match shelf.might_contain(probe, &fetched) {
            Step::Ready(answer) => return Some(answer.kept),
            Step::Need(ranges) => {
                for range in ranges {
                    let len = usize::try_from(range.end - range.start).ok().filter(|len| *len <= 1 << 12)?;
                    let mut row: Vec<u8> = rows.iter().skip(range.start as usize).take(len).copied().collect();
                    row.resize(len, 0);
                    fetched.insert(range.start, row);
                }
            }
        }
    }
    panic!("the lookup requests the same rows twice");
}

/// Returns a shelf of whole files and one of row groups and ranges of rows.
pub fn seeds() -> Vec<Vec<u8>> {
    let whole = |number: u64| Member { group: format!("file-{number}"), nulls: number == 1, ..Member::default() };
    let divided = |number: u64| Member {
        row_groups: vec![10, 60_000],
        rows_per_unit: if number == 0 { 0 } else { 20_000 },
        ..whole(number)
    };
    let units = |number: u64| if number == 0 { 2 } else { 4 };
    [
        seed(0, (0..3).map(|number| (whole(number), 1)).collect()),
        seed(1, (0..3).map(|number| (divided(number), units(number))).collect()),
    ]
    .to_vec()
}

fn seed(version: u8, members: Vec<(Member, u64)>) -> Vec<u8> {
    let filter = |number: u64| {
        let mut filter = Sbbf::new(shelf_blocks(number % 3)).unwrap();
        (0..9u64).for_each(|i| filter.insert_hash((i + number).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        (number % 4 != 3).then_some(filter)
    };
    let filters = members.into_iter().map(|(member, units)| (member, (0..units).map(filter).collect()));
    let (shelf, rows) = Shelf::arrange(COLUMN.parse().unwrap(), filters.collect()).unwrap();
    let directory = shelf.write();
    let body = unframe(&directory);
    let len = u16::try_from(body.len()).unwrap().to_le_bytes();
    [&[version, len[0], len[1]], body, &rows[..]].concat()
}
