//! Adds a filter to a damaged file and drops another. Either this fails, or the new file can be opened and keeps the
//! data.

use parsieve::bloom::Sbbf;
use parsieve::parquet::{NewFilter, OldFooter, ParquetFile, Physical};

use super::{drive, footer, read_footer};

/// Opens `data` as a complete file.
pub fn run(data: &[u8]) {
    let Ok(old) = read_footer(data).and_then(ParquetFile::open) else { return };
    footer::read_everything(&old);
    let columns: Vec<usize> = (0..old.metadata.leaves().len()).collect();
    for row_group in 0..old.metadata.row_groups().len().min(2) {
        for column in columns.iter().copied().take(4) {
            let _ = drive(data, |fetched| old.filter(row_group, column, None, fetched));
            rewrite(&old, data, row_group, column);
        }
    }
}

fn rewrite(old: &ParquetFile, data: &[u8], row_group: usize, column: usize) {
    let mut filter = Sbbf::new(3).unwrap();
    filter.insert_hash(0x1234_5678_9abc_def0);
    let add = [NewFilter { row_group, column, num_blocks: 3 }];
    let drop: Vec<(usize, usize)> =
        [(row_group, column + 1)].into_iter().filter(|chunk| chunk.1 < old.metadata.leaves().len()).collect();
    for old_footer in [OldFooter::Replaced, OldFooter::Kept] {
        rewrite_with(old, data, &filter, (&add, &drop), old_footer);
    }
}

fn rewrite_with(
    old: &ParquetFile,
    data: &[u8],
    filter: &Sbbf,
    (add, drop): (&[NewFilter], &[(usize, usize)]),
    old_footer: OldFooter,
) {
    let NewFilter { row_group, column, .. } = add[0];
    let Ok(plan) = drive(data, |fetched| old.plan_rewrite(add, drop, old_footer, None, fetched)) else { return };
    assert_ne!(old.metadata.leaves()[column].physical, Physical::Boolean);
    assert!(plan.wipe.is_empty(), "nothing is encrypted");
    let mut new = data[..plan.copy as usize].to_vec();
    new.extend(old.encode_filter(row_group, column, filter, None).unwrap());
    new.extend(&plan.footer);
    let copied = match old_footer {
        OldFooter::Replaced => old.data_end(),
        OldFooter::Kept => data.len() as u64,
    };
    assert_eq!((new.len() as u64, plan.copy), (plan.file_len, copied));
    let opened = read_footer(&new).and_then(ParquetFile::open).expect("a rewritten file opens");
    assert_eq!(
        (opened.metadata.leaves(), opened.metadata.num_rows()),
        (old.metadata.leaves(), old.metadata.num_rows())
    );
    let location = opened.filter_location(row_group, column).unwrap().unwrap();
    assert_eq!(drive(&new, |fetched| opened.read_filter(&location, None, fetched)).unwrap(), *filter);
    assert!(drop.iter().all(|&(row_group, column)| opened.filter_location(row_group, column) == Ok(None)));
}
