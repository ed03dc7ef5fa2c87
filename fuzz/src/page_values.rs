//! The values in the pages of damaged files. A chunk that arrives in parts has the same hashes as a complete chunk. They
//! include the values that a scan of the rows returns.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::Array;
use parsieve::bloom::Probe;
use parsieve::isa::InstructionSet;
use parsieve::parquet::{Decryptor, ParquetFile, ScannedChunk};
use parsieve::rows::{RowFile, RowSet};
use parsieve::{Error, ErrorKind, Result};

use super::{drive, read_footer, rows};

/// A few bytes may claim billions of values. The target stops after these.
const MAX_VALUES: usize = 20_000;
/// The number of rows of each row group that are compared.
const ROWS: u64 = 40;

/// Reads `data` as a complete file.
pub fn run(data: &[u8]) {
    let Ok(file) = read_footer(data).and_then(ParquetFile::open) else { return };
    let row_file = drive(data, |fetched| RowFile::open(data.len() as u64, fetched)).map(Arc::new);
    let mut first_row: u64 = 0;
    for (row_group, group) in file.metadata.row_groups().iter().enumerate().take(2) {
        let end = first_row.saturating_add(group.num_rows.min(ROWS));
        let rows = RowSet::of(std::iter::once(first_row..end).collect());
        first_row = first_row.saturating_add(group.num_rows);
        for column in 0..file.metadata.leaves().len().min(8) {
            let complete = hashes(&file, data, (row_group, column), None, usize::MAX);
            for part in [1, 61] {
                let in_parts = hashes(&file, data, (row_group, column), None, part);
                assert_eq!(in_parts.is_ok(), complete.is_ok(), "{in_parts:?} {complete:?}");
                assert!(complete.is_err() || in_parts == complete);
            }
            if let (Ok((_, hashes)), Ok(row_file)) = (complete, &row_file) {
                check_rows(&file, data, (row_file, column), &rows, &hashes.into_iter().collect());
            }
        }
    }
}

/// Returns the hashes of a chunk that arrives in parts of some bytes.
pub fn hashes(
    file: &ParquetFile,
    data: &[u8],
    (row_group, column): (usize, usize),
    decryptor: Option<&dyn Decryptor>,
    part: usize,
) -> Result<(ScannedChunk, Vec<u64>)> {
    let mut scan = file.scan_chunk(row_group, column, InstructionSet::detect())?;
    let mut hashes = Vec::new();
    let mut take = |batch: &[u64]| {
        hashes.extend_from_slice(batch);
        if hashes.len() > MAX_VALUES { Err(Error::new(ErrorKind::IntegerRange)) } else { Ok(()) }
    };
    let chunk = scan.left();
    assert!(chunk.end <= data.len() as u64);
    for bytes in data[chunk.start as usize..chunk.end as usize].chunks(part) {
        scan.feed(file, bytes, decryptor, &mut take)?;
    }
    Ok((scan.finish()?, hashes))
}

/// Checks that the values of some rows have one of the hashes.
fn check_rows(
    file: &ParquetFile,
    data: &[u8],
    (row_file, column): (&Arc<RowFile>, usize),
    rows: &RowSet,
    hashes: &HashSet<u64>,
) {
    let leaf = &file.metadata.leaves()[column];
    let schema = row_file.schema();
    let (path, Some(column_type)) = (file.metadata.path(leaf), leaf.column_type()) else { return };
    let &[name] = path.as_slice() else { return };
    let mut same_name = schema.fields().iter().enumerate().filter(|(_, field)| field.name() == name);
    let (Some((field, _)), None) = (same_name.next(), same_name.next()) else { return };
    let is_alone = (0..file.metadata.leaves().len())
        .filter(|&other| file.metadata.path(&file.metadata.leaves()[other])[0] == name)
        .eq([column]);
    if !is_alone || row_file.unreadable(field) != Ok(None) {
        return;
    }
    let _ = rows::scan(data, row_file, field, rows, 1 << 20, |values| {
        for row in 0..values.len() {
            let Ok(probe) = Probe::new(&values.slice(row, 1), column_type) else { continue };
            let Some(forms) = probe.hashes() else { continue };
            assert!(forms.iter().any(|hash| hashes.contains(hash)), "a value without a hash in column {column}");
        }
    });
}
