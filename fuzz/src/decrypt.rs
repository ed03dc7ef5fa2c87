//! Damaged encrypted files. Decrypted content is identical to the original, or decryption fails.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use parsieve::crypto::{Key, decrypt_ctr, open, split_module};
use parsieve::parquet::{Decryptor, NewFilter, OldFooter, ParquetFile, Protection};

use super::{drive, footer, page_values, read_footer, seeds};

/// The hashes of the encrypted values in the seeds, by row group and column. All seeds have the same values.
static ORIGINAL: OnceLock<BTreeMap<(usize, usize), Vec<u64>>> = OnceLock::new();

/// Opens `data` as a complete file, and decrypts it as a single module.
pub fn run(data: &[u8]) {
    let key = Key::new(seeds::COLUMN_KEY).unwrap();
    let _ = (split_module(data).is_ok(), decrypt_ctr(&key, data).is_ok());
    assert!(open(&key, b"an AAD that no seed uses", data).is_err());
    let keys = seeds::keys();
    let Ok(file) = read_footer(data).and_then(|footer| ParquetFile::open_with(footer, &keys)) else { return };
    footer::read_everything(&file);
    let key_ring = file.key_ring(&keys).unwrap_or(None);
    let decryptor = key_ring.as_ref().map(|key_ring| key_ring as &dyn Decryptor);
    for (row_group, group) in file.metadata.row_groups().iter().enumerate() {
        for (column, chunk) in group.chunks.iter().enumerate() {
            let filter = drive(data, |fetched| file.filter(row_group, column, decryptor, fetched));
            if let (Ok(Some(filter)), true) = (filter, chunk.protection != Protection::Plain) {
                assert_eq!(filter.sbbf(), &seeds::filter(column), "a decrypted filter differs from the original");
            }
            if chunk.protection != Protection::Plain
                && let Ok((_, hashes)) = page_values::hashes(&file, data, (row_group, column), decryptor, 50)
            {
                let original = ORIGINAL.get_or_init(|| values(&seeds::encrypted_files()[0]));
                assert_eq!(original.get(&(row_group, column)), Some(&hashes), "values differ from the original");
            }
            let add = [NewFilter { row_group, column, num_blocks: 1 }];
            let _ = drive(data, |fetched| file.plan_rewrite(&add, &[], OldFooter::Replaced, decryptor, fetched));
        }
    }
}

/// Returns the hashes of the encrypted values in a file.
fn values(data: &[u8]) -> BTreeMap<(usize, usize), Vec<u64>> {
    let keys = seeds::keys();
    let file = read_footer(data).and_then(|footer| ParquetFile::open_with(footer, &keys)).unwrap();
    let key_ring = file.key_ring(&keys).unwrap().unwrap();
    let mut original = BTreeMap::new();
    for (row_group, group) in file.metadata.row_groups().iter().enumerate() {
        for column in (0..group.chunks.len()).filter(|&column| group.chunks[column].protection != Protection::Plain) {
            // Booleans have no hash.
            if let Ok((_, hashes)) = page_values::hashes(&file, data, (row_group, column), Some(&key_ring), usize::MAX)
            {
                original.insert((row_group, column), hashes);
            }
        }
    }
    assert!(!original.is_empty());
    original
}
